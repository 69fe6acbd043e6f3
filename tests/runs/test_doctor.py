"""A run is examined without importing its code, and repaired with as little loss as possible."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from written_runs import FACTS, make_config

import smrl
from smrl.algorithms import registry
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.runs import checkpoint
from smrl.runs.atomic import save_arrays
from smrl.runs.checkpoint import ARRAYS, TAIL, Saved
from smrl.runs.config import checksum
from smrl.runs.doctor import examine, non_defaults, repair, restore_files, without_gaps
from smrl.runs.paths import CHECKPOINT, CONFIG, EVALUATIONS, TRAINING
from smrl.runs.trust import custom_code
from smrl.types import ArraySpec, Continuous, Spec

SPEC = Spec(ArraySpec((1,)), Continuous(1))
SHARD = "rows-000000000000-000000000019.npz"
SHORT: dict[str, Any] = {
    **{"steps": 30, "warmup": 10, "eval_every": 10, "eval_episodes": 1, "batch_size": 4, "reuse": 1},
    **{"actor_hidden": (4,), "critic_hidden": (4,), "quiet": True},
}


class EveryRow:
    """Instead of a random generator: draws each row once, in order."""

    def integers(self, low: int, high: int, size: int) -> np.ndarray:
        assert size == high - low
        return np.arange(low, high)


def filled(count: int, envs: int = 1, capacity: int = 1000, n_step: int = 1, episode: int = 7) -> Replay:
    """Row i has the reward 2**(i // envs % 20) and the observation i, unless an episode begins: no two are the same."""
    replay = Replay(capacity, SPEC, gamma=1.0, n_step=n_step, envs=envs)
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
def test_remaining_rows_are_unchanged(
    envs: int, ticks: int, capacity: int, cuts: list[int], lost: set[int], episode: int
) -> None:
    """Each remaining transition existed before, with its own successor; few others than the damaged ones are lost."""
    original = filled(ticks * envs, envs, capacity, episode=episode)
    stops = sorted({*(cut for cut in cuts if original.oldest < cut < original.settled), original.settled})
    ranges = [*zip([original.oldest, *stops], [*stops, original.added], strict=True)]
    undamaged = [bounds for index, bounds in enumerate(ranges) if index not in lost]
    parts = [original.rows(start, stop) for start, stop in undamaged if start < stop]
    if not parts:
        return
    kept = without_gaps(parts, envs, original.oldest, original.added)
    rest = Replay(capacity, SPEC, gamma=1.0, envs=envs)
    rest.restore(kept)
    assert rest.added % envs == 0
    left = transitions(rest) if rest.added else set()
    assert len(left) == rest.added
    assert left <= transitions(original)
    missing = sum(stop - start for index, (start, stop) in enumerate(ranges) if index in lost)
    gaps = 2 + len(lost)  # at each, the rows of one step before it and of two steps that it cuts in two
    assert original.added - original.oldest - rest.added <= missing + 3 * envs * gaps
    owners = {int(obs) % envs for obs in rest.rows(0, rest.added)["obs"][::envs, 0]}
    assert owners <= {0}, "the rows still take turns"
    extend_after = rest.added
    rest.add(np.array([-1.0]), np.zeros(1), 0.0, np.array([-2.0]), False, False)
    assert rest.added == extend_after + 1


def test_n_step_return_never_bridges_a_gap() -> None:
    original = filled(40, n_step=3, episode=100)
    parts = [original.rows(0, 10), original.rows(20, 39), original.rows(39, 40)]
    rest = Replay(1000, SPEC, gamma=1.0, n_step=3)
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


def test_new_episode_after_a_lost_tail() -> None:
    original = filled(20, n_step=3, episode=100)
    rest = Replay(1000, SPEC, gamma=1.0, n_step=3)
    rest.restore(without_gaps([original.rows(0, 19)], 1, 0, 20))
    assert rest.added == 18, "what was observed after row 18 was in the tail"
    rest.add(np.array([20]), np.array([20]), 1000.0, np.array([21]), False, False)
    assert (17.0, 17.0, 17.0, 1.0, 18.0) in transitions(rest)


def run_folder(tmp_path: Path, envs: int = 1, capacity: int = 1000) -> tuple[Path, Replay]:
    """A run's folder with checkpoints at steps 20 and 40."""
    path = tmp_path / "run"
    settings = {"algorithm": "sac", "env": "E-v0", "reuse": "1", "seed": 0, "steps": 100, "hyper": {}}
    settings |= {"envs": envs, "capacity": capacity}
    config = make_config(settings, spec=SPEC.to_json())
    path.mkdir(parents=True)
    (path / CONFIG).write_text(json.dumps(config))
    replay = Replay(capacity, SPEC, gamma=1.0, envs=envs)
    lines = ["step,episodes,mean"]
    for step in (20, 40):
        extend(replay, step - replay.added)
        lines.append(f"{step},1,{step}.5")
        facts = FACTS | {"config": config, "tables": {EVALUATIONS: lines, TRAINING: []}}
        checkpoint.save(path / CHECKPOINT, Saved(step, {"x": np.full(3, step)}, facts), replay)
    (path / EVALUATIONS).write_text("".join(f"{line}\n" for line in lines))
    return path, replay


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def reload(path: Path) -> tuple[Saved, Replay]:
    replay = Replay(1000, SPEC, gamma=1.0)
    saved = checkpoint.load(path / CHECKPOINT, pytest.fail, replay)
    assert saved is not None
    return saved, replay


def test_repair_after_one_flipped_byte(tmp_path: Path) -> None:
    path, original = run_folder(tmp_path)
    flip(path / CHECKPOINT / "replay" / SHARD)
    with pytest.raises(SmrlError, match=f"smrl doctor {path} --repair continues the run without the damaged") as error:
        reload(path)
    assert "delete" not in str(error.value)
    (messages,) = repair(path)
    assert messages.startswith("19 of the 40 transitions in the replay memory are lost; the run continues from step 40")
    assert "differ" in messages
    saved, rest = reload(path)
    assert saved.step == saved.arrays["x"][0] == 40
    assert transitions(rest) < transitions(original)
    for step in (41, 60):  # the run goes on and is saved as ever, with the rows renumbered
        extend(rest, 5)
        checkpoint.save(path / CHECKPOINT, Saved(step, {}, FACTS), rest)
        assert transitions(reload(path)[1]) == transitions(rest)
    names = {file.name for file in (path / CHECKPOINT / "replay").iterdir()}
    assert not any(name.startswith("kept") for name in names), "shards that no checkpoint lists are deleted"


@pytest.mark.parametrize(
    "rows",
    [
        {"x": np.zeros(3)},
        {"reward": np.zeros(19, np.float32), "start": np.array(0)},
        {"obs": np.zeros((19, 1), np.float64)},
        {"obs": np.zeros((1, 1), np.float32)},
        {"start": np.array([0, 1])},
    ],
)
def test_rows_of_another_run_are_refused(rows: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Their checksums are right."""
    path, original = run_folder(tmp_path)
    content = rows if "x" in rows or "reward" in rows else original.rows(0, 19) | rows
    digest = save_arrays(path / CHECKPOINT / "replay" / SHARD, content)
    for found in checkpoint.checkpoints(path / CHECKPOINT):
        manifest = checkpoint.read_manifest(found)
        checkpoint.write_manifest(found, manifest | {"replay": manifest["replay"] | {SHARD: digest}})
        flip(found / TAIL)

    def repair_and_load() -> None:
        repair(path)
        reload(path)

    with pytest.raises(SmrlError, match=r"not that of this run|does not hold rows"):
        repair_and_load()


def test_episode_is_cut_after_a_repair(tmp_path: Path) -> None:
    """The newest row is in the file with all rows, but may still change."""
    path, _ = run_folder(tmp_path)
    flip(path / CHECKPOINT / "replay" / SHARD)
    repair(path)
    rest = reload(path)[1]
    checkpoint.save(path / CHECKPOINT, Saved(41, {}, FACTS), rest)
    rest.cut()
    extend(rest, 5, episode=100)
    checkpoint.save(path / CHECKPOINT, Saved(42, {}, FACTS), rest)
    assert transitions(reload(path)[1]) == transitions(rest)


def test_repaired_run_can_be_repaired_again(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    flip(path / CHECKPOINT / "replay" / SHARD)
    repair(path)
    (kept,) = (path / CHECKPOINT / "replay").glob("kept-*")
    flip(kept)
    (messages,) = repair(path)
    assert messages.startswith("21 of the 21 transitions")
    assert reload(path)[1].added == 0


def test_repair_without_any_row(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    for file in path.glob("checkpoint/**/*.npz"):
        if file.name != ARRAYS:
            file.unlink()
    (path / CHECKPOINT / "replay").rmdir()
    assert repair(path)[0].startswith("40 of the 40 transitions")
    saved, rest = reload(path)
    assert (saved.step, rest.added) == (40, 0)


def test_intact_checkpoint_is_preferred_to_a_repaired_one(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    flip(path / CHECKPOINT / "replay" / "rows-000000000019-000000000039.npz")
    before = sorted(path.rglob("*"))
    (messages,) = repair(path)
    assert "000000000020 is intact; the run continues from it bit for bit" in messages
    assert [file for file in sorted(path.rglob("*")) if file.name != ".lock"] == before


def test_repair_leaves_what_cannot_be_repaired(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    for arrays in path.glob("checkpoint/*/arrays.npz"):
        flip(arrays)
    for attempt in (repair, reload):
        with pytest.raises(SmrlError, match=r"restore the files from a copy, or move .* to train it again") as error:
            attempt(path)
        assert "delete" not in str(error.value)
    assert len(list(path.glob("checkpoint/*/arrays.npz"))) == 2
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(SmrlError, match=r"is not a run: it has neither config\.json nor a checkpoint"):
            repair(folder)
    assert not (tmp_path / ".lock").exists()


@pytest.mark.parametrize("harm", ["", "{", None])
def test_config_is_rebuilt(tmp_path: Path, harm: str | None) -> None:
    path, _ = run_folder(tmp_path)
    file = path / CONFIG
    before = json.loads(file.read_text())
    file.unlink() if harm is None else file.write_text(harm)
    messages: list[str] = []
    assert restore_files(path, messages.append) == before
    state = "missing" if harm is None else "damaged"
    assert messages == [f"{file} was {state}; it is rebuilt from the checkpoint."]
    assert json.loads(file.read_text()) == before
    assert restore_files(path, pytest.fail) == before


@pytest.mark.parametrize(("name", "value"), [("settings", {"seed": 1}), ("threads", 2), ("spec", {})])
def test_changed_setting_is_restored(tmp_path: Path, name: str, value: Any) -> None:
    path, _ = run_folder(tmp_path)
    file = path / CONFIG
    before = json.loads(file.read_text())
    changed = before[name] | value if isinstance(value, dict) and value else value
    file.write_text(json.dumps(before | {name: changed}))
    messages: list[str] = []
    restore_files(path, messages.append)
    assert "was damaged" in messages[0]
    assert json.loads(file.read_text()) == before


def test_config_of_another_version_is_not_replaced(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    (path / CONFIG).write_text('{"format": 99}')
    with pytest.raises(SmrlError, match="another version of smrl"):
        repair(path)
    assert (path / CONFIG).read_text() == '{"format": 99}'


@pytest.mark.parametrize(
    "harm", ["step,episodes,mean\n", "", "\0" * 40, "step,episodes,mean\n20,1,99.5\n40,1,40.5\n", None]
)
def test_evaluations_are_restored(tmp_path: Path, harm: str | None) -> None:
    path, _ = run_folder(tmp_path)
    file = path / EVALUATIONS
    before = file.read_bytes()
    file.unlink() if harm is None else file.write_text(harm)
    (messages, _) = repair(path)
    assert messages == f"{file} was damaged or missing; its 2 rows are restored from the checkpoint."
    assert file.read_bytes() == before


def test_rows_after_the_checkpoint_are_kept(tmp_path: Path) -> None:
    path, _ = run_folder(tmp_path)
    with (path / EVALUATIONS).open("a") as file:
        file.write("50,1,2.5\n60,1")
    before = (path / EVALUATIONS).read_bytes()
    restore_files(path, pytest.fail)
    assert (path / EVALUATIONS).read_bytes() == before


def test_kill_during_the_repair_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kill comes before each change of the folder in turn."""

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
        flip(path / CHECKPOINT / "replay" / SHARD)
        calls = 0
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", deadly)
            with pytest.raises(Killed):
                repair(path)
        assert repair(path)[0].startswith("19 of the 40 transitions")


def test_running_process_replaces_damaged_shards(tmp_path: Path) -> None:
    path, original = run_folder(tmp_path)
    shards = path / CHECKPOINT / "replay"
    (shards / SHARD).unlink()
    with (shards / "rows-000000000019-000000000039.npz").open("ab") as file:
        file.write(b"more")
    extend(original, 20)
    checkpoint.save(path / CHECKPOINT, Saved(60, {}, FACTS), original)
    assert transitions(reload(path)[1]) == transitions(original)
    earlier = path / CHECKPOINT / "000000000040"
    assert checkpoint.find_damage(checkpoint.row_files(earlier, checkpoint.read_manifest(earlier))) is None


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("trained")
    return smrl.train("ddpg", "Pendulum-v1", **SHORT, runs=runs).path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_examine_intact_run(folder: Path) -> None:
    report = examine(folder)
    assert report.is_intact
    assert report.config
    assert (report.step, custom_code(report.config["settings"])) == (30, {})
    assert non_defaults(report.config["settings"]) == {
        **{"warmup": 10, "batch_size": 4, "eval_every": 10, "eval_episodes": 1},
        **{"actor_hidden": [4], "critic_hidden": [4]},
    }
    text = "\n".join(report.lines())
    for part in (
        "DDPG, reuse 1, Pendulum-v1, seed 0",
        "actor_hidden 4",
        "30 of 30",
        "format      4",
        "jax 0.",
        "state       intact",
    ):
        assert part in text
    sizes = {part.name: part.size for part in report.parts}
    assert sizes[CONFIG] == (folder / CONFIG).stat().st_size
    assert sizes["all together"] == sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("file", "part"),
    [
        *((name, name) for name in (CONFIG, EVALUATIONS, TRAINING)),
        *(
            (f"checkpoint/000000000030/{name}.npz", part)
            for name, part in (("arrays", "arrays"), ("tail", "replay memory"))
        ),
        ("checkpoint/000000000030/manifest.json", "manifests"),
        ("checkpoint/replay/rows-000000000000-000000000029.npz", "replay memory"),
    ],
)
def test_examine_reports_damage_by_kind(folder: Path, file: str, part: str) -> None:
    victim = folder / file
    for harm in (lambda: victim.write_bytes(victim.read_bytes()[:-9]), lambda: victim.write_bytes(b""), victim.unlink):
        harm()
        report = examine(folder)
        assert [found.name for found in report.parts if found.damage] == [part]
        assert f"state       damaged; smrl doctor {folder} --repair" in "\n".join(report.lines())


def test_examine_imports_nothing_that_a_run_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("env", "algorithm", "rule"):
        (folder / f"evil_{name}.py").write_text("raise SystemExit('executed')")
    monkeypatch.syspath_prepend(folder)
    config = json.loads((folder / CONFIG).read_text())
    config["settings"] |= {"env": "evil_env:X-v0", "algorithm": "evil_algorithm:make", "reuse": "evil_rule:rule"}
    config["settings"]["hyper"] = {"tau": 0.005, "secret\x1b[2J": 1}
    config["checksum"] = checksum(config)
    (folder / CONFIG).write_text(json.dumps(config))
    report = examine(folder)
    assert report.config
    assert custom_code(report.config["settings"]) == {
        "environment": "evil_env:X-v0",
        "algorithm": "evil_algorithm:make",
        "reuse rule": "evil_rule:rule",
    }
    text = "\n".join(report.lines())
    assert "the environment evil_env:X-v0, the algorithm evil_algorithm:make, the reuse rule evil_rule:rule" in text
    assert "tau 0.005" in text, "the defaults of a custom algorithm are not known"
    assert "\x1b" not in text
    assert not any(name.startswith("evil") for name in [*sys.modules, *registry.names()])


def test_examine_run_without_config(folder: Path) -> None:
    (folder / CONFIG).unlink()
    report = examine(folder)
    assert "DDPG, reuse 1, Pendulum-v1" in "\n".join(report.lines())
    shutil.rmtree(folder / CHECKPOINT)
    (folder / CONFIG).write_text("{")
    report = examine(folder)
    assert (report.config, report.step, report.is_intact) == (None, None, False)
    assert report.lines()


def test_deleted_checkpoint_is_damage(folder: Path) -> None:
    """Training it again from step 0 would drop what was recorded."""
    records = (folder / EVALUATIONS).read_bytes()
    shutil.rmtree(folder / CHECKPOINT)
    report = examine(folder)
    assert [part.damage for part in report.parts if part.damage] == [("checkpoint is missing",)]
    for attempt in (lambda: restore_files(folder, print), lambda: repair(folder)):
        with pytest.raises(SmrlError, match=r"checkpoint is missing, but .* has made 30 steps, .*: restore the folder"):
            attempt()
    assert (folder / EVALUATIONS).read_bytes() == records


def test_older_checkpoint_is_used_with_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    older = shutil.copytree(folder / CHECKPOINT / f"{30:012d}", folder / CHECKPOINT / f"{20:012d}")
    manifest = json.loads((older / checkpoint.MANIFEST).read_text())
    checkpoint.write_manifest(older, manifest["body"] | {"step": 20})
    smrl.load(folder).policy(np.zeros(3))
    assert not caplog.messages
    flip(folder / CHECKPOINT / f"{30:012d}" / ARRAYS)
    smrl.load(folder).policy(np.zeros(3))
    (message,) = caplog.messages
    assert f"checkpoint {folder / CHECKPOINT / '000000000030'} is damaged" in message
    assert message.endswith("using that of step 20.")


def test_policy_is_not_read_through_a_link(folder: Path) -> None:
    moved = (folder / CHECKPOINT).rename(folder.parent / "moved")
    (folder / CHECKPOINT).symlink_to(moved)
    with pytest.raises(SmrlError, match=r"checkpoint is a link; replace it by what it points to"):
        smrl.load(folder).policy  # noqa: B018


def test_examine_links_and_folders_that_are_no_runs(folder: Path, tmp_path: Path) -> None:
    (folder / "tensorboard" / "link").symlink_to(tmp_path)
    assert examine(folder).parts[-1].damage == ("tensorboard/link is a link",)
    for other in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SmrlError, match="is not a run"):
            examine(other)
