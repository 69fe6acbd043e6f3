"""A damaged run is repaired with as little loss as possible, and no gap is bridged."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.runs import checkpoint, manifests
from smrl.runs.checkpoint import Saved
from smrl.runs.config import checksum
from smrl.runs.repair import mend, repair, without_gaps
from smrl.types import ArraySpec, Continuous, Spec

SPEC = Spec(ArraySpec((1,)), Continuous(1))
SHARD = "rows-000000000000-000000000019.npz"


class EveryRow:
    """In place of a random generator: draws each row once, in order."""

    def integers(self, low: int, high: int, size: int) -> np.ndarray:
        assert size == high - low
        return np.arange(low, high)


def filled(count: int, envs: int = 1, capacity: int = 1000, n_step: int = 1, episode: int = 7) -> Replay:
    """Row i has the reward 2**(i // envs % 20) and the observation i, unless an episode begins: no two are the same."""
    replay = Replay(capacity, SPEC, 1.0, n_step, envs)
    extend(replay, count, episode)
    return replay


def extend(replay: Replay, count: int, episode: int = 7) -> None:
    for row in range(replay.added, replay.added + count):
        tick = row // replay.envs
        obs, next_obs = np.array([row]), np.array([row + replay.envs])
        is_end = tick % episode == episode - 1
        if is_end:
            next_obs = next_obs + 0.5
        replay.add(obs, np.array([row]), float(tick), next_obs, is_end and tick % 2 == 0, is_end and tick % 2 == 1)


def transitions(replay: Replay) -> set[tuple[float, ...]]:
    size = replay.added - replay.oldest
    batch = replay.sample(EveryRow(), 1, size)  # type: ignore[arg-type]
    columns = [np.asarray(field, np.float64).reshape(size) for field in batch]
    return set(zip(*(column.tolist() for column in columns), strict=True))


@given(
    envs=st.integers(1, 4),
    ticks=st.integers(1, 30),
    capacity=st.integers(4, 70),
    cuts=st.lists(st.integers(0, 120), max_size=6),
    lost=st.sets(st.integers(0, 7)),
    episode=st.integers(1, 9),
)
@hypothesis_settings(deadline=None, max_examples=200)
def test_what_is_left_was_there(
    envs: int, ticks: int, capacity: int, cuts: list[int], lost: set[int], episode: int
) -> None:
    """Each transition that is left is one of before, with its own successor; few are lost besides the damaged ones."""
    whole = filled(ticks * envs, envs, capacity, episode=episode)
    stops = sorted({*(cut for cut in cuts if whole.oldest < cut < whole.settled), whole.settled})
    ranges = [*zip([whole.oldest, *stops], [*stops, whole.added], strict=True)]
    parts = [whole.rows(*bounds) for index, bounds in enumerate(ranges) if index not in lost and bounds[0] < bounds[1]]
    if not parts:
        return
    kept = without_gaps(parts, envs, whole.oldest, whole.added)
    rest = Replay(capacity, SPEC, 1.0, 1, envs)
    rest.restore(kept)
    assert rest.added % envs == 0
    left = transitions(rest) if rest.added else set()
    assert len(left) == rest.added
    assert left <= transitions(whole)
    missing = sum(stop - start for index, (start, stop) in enumerate(ranges) if index in lost)
    gaps = 2 + len(lost)  # at each, the rows of one step before it and of two steps that it cuts in two
    assert whole.added - whole.oldest - rest.added <= missing + 3 * envs * gaps
    owners = {int(obs) % envs for obs in rest.rows(0, rest.added)["obs"][::envs, 0]}
    assert owners <= {0}, "the rows still take turns"
    extend_after = rest.added
    rest.add(np.array([-1.0]), np.zeros(1), 0.0, np.array([-2.0]), False, False)
    assert rest.added == extend_after + 1


def test_a_gap_is_never_bridged_by_an_n_step_return() -> None:
    whole = filled(40, n_step=3, episode=100)
    parts = [whole.rows(0, 10), whole.rows(20, 39), whole.rows(39, 40)]
    rest = Replay(1000, SPEC, 1.0, 3)
    rest.restore(without_gaps(parts, 1, 0, 40))
    left = transitions(rest)
    # Row 9 has no known successor; row 8 ends its episode with the observation of row 9.
    assert rest.added == 9 + 20
    assert (7.0, 7.0, 7.0 + 8.0, 1.0, 9.0) in left
    assert (8.0, 8.0, 8.0, 1.0, 9.0) in left
    assert (20.0, 20.0, 20.0 + 21.0 + 22.0, 1.0, 23.0) in left
    assert (39.0, 39.0, 39.0, 1.0, 40.0) in left
    rest.add(np.array([40]), np.zeros(1), 100.0, np.array([41]), False, False)
    assert (39.0, 39.0, 139.0, 1.0, 41.0) in transitions(rest), "the running episode goes on"


def test_the_episode_after_a_lost_tail_is_a_new_one() -> None:
    whole = filled(20, n_step=3, episode=100)
    rest = Replay(1000, SPEC, 1.0, 3)
    rest.restore(without_gaps([whole.rows(0, 19)], 1, 0, 20))
    assert rest.added == 18, "what was observed after row 18 was in the tail"
    rest.add(np.array([20]), np.array([20]), 1000.0, np.array([21]), False, False)
    assert (17.0, 17.0, 17.0, 1.0, 18.0) in transitions(rest)


def run_folder(tmp_path: Path, envs: int = 1, capacity: int = 1000) -> tuple[Path, Replay]:
    """A run's folder with checkpoints at steps 20 and 40."""
    path = tmp_path / "run"
    settings = {"algorithm": "sac", "env": "E-v0", "reuse": "1", "seed": 0, "steps": 100, "hyper": {}}
    settings |= {"envs": envs, "capacity": capacity}
    config: dict[str, Any] = {"format": 2, "settings": settings, "spec": SPEC.to_json(), "threads": 1, "versions": {}}
    config["checksum"] = checksum(config)
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    replay = Replay(capacity, SPEC, 1.0, 1, envs)
    lines = ["step,episodes,mean"]
    for step in (20, 40):
        extend(replay, step - replay.added)
        lines.append(f"{step},1,{step}.5")
        facts = {"config": config, "tables": {"evaluations.csv": lines, "training.csv": []}}
        checkpoint.save(path / "checkpoint", Saved(step, {"x": np.full(3, step)}, facts), replay)
    (path / "evaluations.csv").write_text("".join(f"{line}\n" for line in lines))
    return path, replay


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def reload(path: Path) -> tuple[Saved, Replay]:
    replay = Replay(1000, SPEC, 1.0)
    saved = checkpoint.load(path / "checkpoint", pytest.fail, replay)
    assert saved is not None
    return saved, replay


def test_one_flipped_byte_does_not_end_a_run(tmp_path: Path) -> None:
    path, whole = run_folder(tmp_path)
    flip(path / "checkpoint" / "replay" / SHARD)
    with pytest.raises(SmrlError, match=rf"smrl repair {path} lets the run go on without the damaged rows\.") as error:
        reload(path)
    assert "delete" not in str(error.value)
    (messages,) = repair(path)
    assert messages.startswith("19 of the 40 transitions in the replay memory are lost; the run goes on from step 40")
    assert "differ" in messages
    saved, rest = reload(path)
    assert saved.step == saved.arrays["x"][0] == 40
    assert transitions(rest) < transitions(whole)
    for step in (41, 60):  # the run goes on and is saved as ever, with the rows numbered anew
        extend(rest, 5)
        checkpoint.save(path / "checkpoint", Saved(step, {}, {}), rest)
        assert transitions(reload(path)[1]) == transitions(rest)
    names = {file.name for file in (path / "checkpoint" / "replay").iterdir()}
    assert not any(name.startswith("kept") for name in names), "what no checkpoint names any more is gone"


def test_an_episode_that_is_cut_after_a_repair(tmp_path: Path) -> None:
    """The newest row is in the file with all rows, but may still change."""
    path, _ = run_folder(tmp_path)
    flip(path / "checkpoint" / "replay" / SHARD)
    repair(path)
    rest = reload(path)[1]
    checkpoint.save(path / "checkpoint", Saved(41, {}, {}), rest)
    rest.cut()
    extend(rest, 5, episode=100)
    checkpoint.save(path / "checkpoint", Saved(42, {}, {}), rest)
    assert transitions(reload(path)[1]) == transitions(rest)


def test_a_repaired_run_can_be_repaired_again(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    flip(path / "checkpoint" / "replay" / SHARD)
    repair(path)
    (kept,) = (path / "checkpoint" / "replay").glob("kept-*")
    flip(kept)
    (messages,) = repair(path)
    assert messages.startswith("21 of the 21 transitions")
    assert reload(path)[1].added == 0


def test_every_row_lost(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    for file in path.glob("checkpoint/**/*.npz"):
        if file.name != "arrays.npz":
            file.unlink()
    (path / "checkpoint" / "replay").rmdir()
    assert repair(path)[0].startswith("40 of the 40 transitions")
    saved, rest = reload(path)
    assert (saved.step, rest.added) == (40, 0)


def test_a_whole_checkpoint_is_preferred_to_a_repaired_one(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    flip(path / "checkpoint" / "replay" / "rows-000000000019-000000000039.npz")
    before = sorted(path.rglob("*"))
    (messages,) = repair(path)
    assert "000000000020 is whole; the run goes on from it bit for bit" in messages
    assert [file for file in sorted(path.rglob("*")) if file.name != ".lock"] == before


def test_what_cannot_be_repaired_is_left_alone(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    for arrays in path.glob("checkpoint/*/arrays.npz"):
        flip(arrays)
    for attempt in (repair, reload):
        with pytest.raises(SmrlError, match=r"restore the files from a copy, or move .* to train anew") as error:
            attempt(path)
        assert "delete" not in str(error.value)
    assert len(list(path.glob("checkpoint/*/arrays.npz"))) == 2
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(SmrlError, match=r"is not a run: it has neither config\.json nor a checkpoint"):
            repair(folder)
    assert not (tmp_path / ".lock").exists()


@pytest.mark.parametrize("harm", ["", "{", None])
def test_the_config_is_rebuilt(tmp_path: Path, harm: str | None) -> None:
    path, _ = run_folder(tmp_path)
    file = path / "config.json"
    before = json.loads(file.read_text())
    file.unlink() if harm is None else file.write_text(harm)
    (messages,) = mend(path)
    assert messages == f"{file} was {'gone' if harm is None else 'damaged'}; it is rebuilt from the checkpoint."
    assert json.loads(file.read_text()) == before
    assert mend(path) == []


@pytest.mark.parametrize(("name", "value"), [("settings", {"seed": 1}), ("threads", 2), ("spec", {})])
def test_a_changed_setting_is_noticed(tmp_path: Path, name: str, value: Any) -> None:
    path, _ = run_folder(tmp_path)
    file = path / "config.json"
    before = json.loads(file.read_text())
    changed = before[name] | value if isinstance(value, dict) and value else value
    file.write_text(json.dumps(before | {name: changed}))
    assert "was damaged" in mend(path)[0]
    assert json.loads(file.read_text()) == before


def test_a_config_of_a_newer_smrl_is_not_replaced(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    (path / "config.json").write_text('{"format": 99}')
    with pytest.raises(SmrlError, match="newer smrl"):
        repair(path)
    assert (path / "config.json").read_text() == '{"format": 99}'


@pytest.mark.parametrize(
    "harm", ["step,episodes,mean\n", "", "\0" * 40, "step,episodes,mean\n20,1,99.5\n40,1,40.5\n", None]
)
def test_evaluations_are_restored(tmp_path: Path, harm: str | None) -> None:
    path, _ = run_folder(tmp_path)
    file = path / "evaluations.csv"
    before = file.read_bytes()
    file.unlink() if harm is None else file.write_text(harm)
    (messages, _) = repair(path)
    assert messages == f"{file} was damaged or gone; its 2 rows are restored from the checkpoint."
    assert file.read_bytes() == before


def test_rows_after_the_checkpoint_are_no_damage(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    with (path / "evaluations.csv").open("a") as file:
        file.write("50,1,2.5\n60,1")
    before = (path / "evaluations.csv").read_bytes()
    assert mend(path) == []
    assert (path / "evaluations.csv").read_bytes() == before


def test_a_kill_during_the_repair_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before every change of the folder in turn."""

    class Killed(BaseException):
        pass

    real, calls, limit = os.replace, 0, 0

    def deadly(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == limit:
            raise Killed
        real(*args)

    for limit in (1, 2):
        path, _ = run_folder(tmp_path / str(limit))
        flip(path / "checkpoint" / "replay" / SHARD)
        calls = 0
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", deadly)
            with pytest.raises(Killed):
                repair(path)
        assert repair(path)[0].startswith("19 of the 40 transitions")


def test_a_running_process_writes_shards_again_that_have_gone(tmp_path: Path) -> None:
    path, whole = run_folder(tmp_path)
    shards = path / "checkpoint" / "replay"
    (shards / SHARD).unlink()
    with (shards / "rows-000000000019-000000000039.npz").open("ab") as file:
        file.write(b"more")
    extend(whole, 20)
    checkpoint.save(path / "checkpoint", Saved(60, {}, {}), whole)
    assert transitions(reload(path)[1]) == transitions(whole)
    body = manifests.read(path / "checkpoint" / "000000000040")
    assert not any(
        manifests.damage(*file) for file in manifests.row_files(path / "checkpoint" / "000000000040", body).items()
    )
