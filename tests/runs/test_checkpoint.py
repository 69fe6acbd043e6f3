"""Checkpoints: whole or not there, whatever happens while they are written."""

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.runs import checkpoint
from smrl.runs.atomic import save_arrays
from smrl.runs.checkpoint import Saved
from smrl.types import ArraySpec, Continuous, Spec

SPEC = Spec(ArraySpec((2,)), Continuous(1))


def extend(replay: Replay, count: int) -> None:
    for _ in range(count):
        number = replay.added
        obs, next_obs = np.full(2, number), np.full(2, number + replay.envs)
        replay.add(obs, np.zeros(1), number, next_obs, number % 7 == 6, False)


def save(folder: Path, replay: Replay, step: int) -> None:
    extend(replay, step - replay.added)
    checkpoint.save(folder, Saved(step, {"x": np.full(3, step)}, {"step": step}), replay)


def load(folder: Path, capacity: int = 100) -> tuple[Saved, Replay, list[str]]:
    messages: list[str] = []
    replay = Replay(capacity, SPEC, 0.9)
    saved = checkpoint.load(folder, messages.append, replay)
    assert saved is not None
    return saved, replay, messages


def same(left: Replay, right: Replay) -> bool:
    samples = [replay.sample(np.random.default_rng(0), 1, 500) for replay in (left, right)]
    return left.added == right.added and all(np.array_equal(a, b) for a, b in zip(*samples, strict=True))


@pytest.mark.parametrize("capacity", [100, 12])
def test_what_is_saved_is_loaded(tmp_path: Path, capacity: int) -> None:
    replay = Replay(capacity, SPEC, 0.9)
    for step in (5, 20, 21, 60):
        save(tmp_path, replay, step)
        saved, loaded, messages = load(tmp_path, capacity)
        assert saved.step == saved.facts["step"] == saved.arrays["x"][0] == step
        assert same(replay, loaded)
        assert not messages


def shards(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "replay").iterdir())


def test_a_checkpoint_costs_what_is_new(tmp_path: Path) -> None:
    replay = Replay(1000, SPEC, 0.9)
    save(tmp_path, replay, 51)
    (first,) = (tmp_path / "replay").iterdir()
    written = first.stat().st_mtime_ns
    save(tmp_path, replay, 61)
    assert first.stat().st_mtime_ns == written
    assert shards(tmp_path) == ["rows-000000000000-000000000050.npz", "rows-000000000050-000000000060.npz"]


def test_only_two_checkpoints_and_the_rows_they_need_are_kept(tmp_path: Path) -> None:
    replay = Replay(12, SPEC, 0.9)
    for step in range(10, 101, 10):
        save(tmp_path, replay, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000000090", "000000000100", "replay"]
    assert min(int(name.split("-")[2][:12]) for name in shards(tmp_path)) > 90 - 12


def test_shards_are_merged_before_they_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the checkpoint before the merger can be read after it."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    replay, earlier = Replay(10_000, SPEC, 0.9), Replay(10_000, SPEC, 0.9)
    for step in range(1, 53):
        save(tmp_path, replay, step)
    assert len(shards(tmp_path)) == 51, "50 single rows of the checkpoint before, and the union of 51"
    assert same(replay, load(tmp_path, 10_000)[1])

    (tmp_path / "000000000052" / "arrays.npz").unlink()
    loaded = load(tmp_path, 10_000)[1]
    extend(earlier, 51)
    assert same(earlier, loaded)
    for step in range(52, 160):
        save(tmp_path, loaded, step)
        assert len(shards(tmp_path)) < 100, "of both checkpoints together"
    assert same(loaded, load(tmp_path, 10_000)[1])


def test_a_cut_without_new_rows_is_saved(tmp_path: Path) -> None:
    replay = Replay(100, SPEC, 0.9)
    extend(replay, 3)
    for step in (1, 2):
        checkpoint.save(tmp_path, Saved(step, {}, {}), replay)
        replay.cut()
    replay.add(np.full(2, 50), np.zeros(1), 0, np.full(2, 51), False, False)
    loaded = load(tmp_path)[1]
    loaded.add(np.full(2, 50), np.zeros(1), 0, np.full(2, 51), False, False)
    assert same(replay, loaded)


@pytest.mark.parametrize(
    "file", ["arrays.npz", "tail.npz", "manifest.json", "../replay/rows-000000000019-000000000029.npz"]
)
@pytest.mark.parametrize("harm", ["flip", "cut", "delete"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_used(tmp_path: Path, file: str, harm: str) -> None:
    replay = Replay(100, SPEC, 0.9)
    save(tmp_path, replay, 20)
    save(tmp_path, replay, 30)
    victim = tmp_path / "000000000030" / file
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.unlink() if harm == "delete" else victim.write_bytes(content if harm == "flip" else content[:-20])
    saved, loaded, messages = load(tmp_path)
    assert saved.step == loaded.added == 20
    assert ["is damaged" in message for message in messages] == [True]
    save(tmp_path, loaded, 30)  # the run goes on from there
    saved, again, messages = load(tmp_path)
    assert (saved.step, messages) == (30, [])
    assert same(loaded, again)


def test_a_manifest_that_is_damaged_while_the_run_goes_on(tmp_path: Path) -> None:
    replay = Replay(100, SPEC, 0.9)
    for step in (20, 30):
        save(tmp_path, replay, step)
    (tmp_path / "000000000030" / "manifest.json").write_text("{}")
    save(tmp_path, replay, 40)
    saved, loaded, messages = load(tmp_path)
    assert (saved.step, messages) == (40, [])
    assert same(replay, loaded)


def test_the_newest_step(tmp_path: Path) -> None:
    assert checkpoint.newest_step(tmp_path / "nowhere") is None
    replay = Replay(100, SPEC, 0.9)
    for step in (20, 30):
        save(tmp_path, replay, step)
        assert checkpoint.newest_step(tmp_path) == step
    for step, left in ((30, 20), (20, None)):
        (tmp_path / f"{step:012d}" / "manifest.json").write_text("{}")
        assert checkpoint.newest_step(tmp_path) == left


def test_nothing_is_thrown_away_where_all_are_damaged(tmp_path: Path) -> None:
    save(tmp_path, Replay(100, SPEC, 0.9), 20)
    (tmp_path / "000000000020" / "arrays.npz").write_bytes(b"")
    with pytest.raises(SmrlError, match="every checkpoint"):
        load(tmp_path)
    assert (tmp_path / "000000000020").exists()


def test_there_may_be_none(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path / "nowhere", pytest.fail) is None


def write_manifest(place: Path, body: dict[str, Any]) -> None:
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    (place / "manifest.json").write_text(json.dumps({"checksum": digest, "body": body}))


def save_format_1(folder: Path, replay: Replay, shards: dict[str, str], saved_rows: int, step: int) -> None:
    """A checkpoint as the first version wrote it: the new rows in a shard, and which rows before them are last."""
    place = folder / f"{step:012d}"
    place.mkdir(parents=True)
    (folder / "replay").mkdir(exist_ok=True)
    start = max(saved_rows, replay.oldest)
    rows = replay.rows(start, replay.added)
    rows["last_before"] = replay.rows(start - replay.envs, start)["last"]
    name = f"{start:012d}-{replay.added:012d}.npz"
    shards[name] = save_arrays(folder / "replay" / name, rows)
    arrays = save_arrays(place / "arrays.npz", {"x": np.full(3, step)})
    write_manifest(place, {"step": step, "arrays": arrays, "replay": dict(shards), "facts": {"step": step}})


@pytest.mark.parametrize(("capacity", "envs"), [(2000, 1), (1003, 8), (500, 3)])
def test_format_1_is_read_and_continued(tmp_path: Path, capacity: int, envs: int) -> None:
    """Capacity 1003 with 8 environments is what the first version wrote but could not read."""
    replay = Replay(capacity, SPEC, 0.9, 2, envs)
    shards: dict[str, str] = {}
    saved_rows = 0
    for step in (400, 1000, 2000):
        replay.cut(envs - 1)  # after the rows were saved
        extend(replay, step - saved_rows)
        shards = {name: digest for name, digest in shards.items() if int(name[13:25]) > replay.oldest}
        save_format_1(tmp_path, replay, shards, saved_rows, step)
        saved_rows = step
    for step, layout in ((2000, 1), (2001, 2), (2002, 2)):
        save(tmp_path, replay, step)
        copy = Replay(capacity, SPEC, 0.9, 2, envs)
        saved = checkpoint.load(tmp_path, pytest.fail, copy)
        assert saved is not None
        assert (saved.step, saved.format, saved.facts) == (step, layout, {"step": step})
        assert same(replay, copy)
    assert {path.name[:5] for path in (tmp_path / "replay").iterdir()} == {"rows-"}


def test_format_1_stays_whole_beside_its_successor(tmp_path: Path) -> None:
    """Although both have a shard of the rows 0 to 400."""
    replay = Replay(50_000, SPEC, 0.9)
    extend(replay, 400)
    save_format_1(tmp_path, replay, {}, 0, 400)
    save(tmp_path, replay, 401)
    (tmp_path / "000000000401" / "arrays.npz").unlink()
    saved, loaded, messages = load(tmp_path, 50_000)
    assert (saved.step, saved.format, loaded.added, len(messages)) == (400, 1, 400, 1)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    """Rather than taken for damage and thrown away."""
    replay = Replay(100, SPEC, 0.9)
    for step in (20, 30):
        save(tmp_path, replay, step)
    place = tmp_path / "000000000030"
    body = json.loads((place / "manifest.json").read_text())["body"]
    assert body["format"] == 2
    write_manifest(place, body | {"format": 3})
    for attempt in (load, checkpoint.newest_step, lambda folder: save(folder, replay, 40)):
        with pytest.raises(SmrlError, match=r"was written by a newer smrl; update smrl\.$"):
            attempt(tmp_path)
    assert place.exists()


def test_checkpoints_need_no_jax() -> None:
    script = "import sys; sys.modules['jax'] = None; import smrl.runs.checkpoint"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_killed_before_every_change_of_the_folder(tmp_path: Path) -> None:
    """A child saves and dies before its n-th sync, rename or removal, for every n; not in the midst of a write.

    When it does, one shard has left the memory and two are merged with the new rows.
    """
    script = f"""
        import os, shutil, signal, sys, warnings
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_checkpoint import Replay, SPEC, checkpoint, extend, load, same, save
        warnings.simplefilter("ignore")  # fork is safe here: no JAX computation has run
        checkpoint.SHARDS = 2
        calls = 0

        def deadly(module, name, limit):
            original = getattr(module, name)
            def call(*args, **kwargs):
                global calls
                calls += 1
                if calls == limit:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*args, **kwargs)
            setattr(module, name, call)

        limit, died = 0, True
        while died:
            limit += 1
            folder = Path({str(tmp_path)!r}) / str(limit)
            replay = Replay(40, SPEC, 0.9)
            for step in (10, 20, 30):
                save(folder, replay, step)
            child = os.fork()
            if child == 0:
                for name in ("fsync", "replace", "rename", "mkdir", "unlink", "rmdir", "open"):
                    deadly(os, name, limit)
                save(folder, replay, 50)
                os._exit(0)
            died = os.waitpid(child, 0)[1] != 0
            saved, loaded, said = load(folder, 40)
            assert saved.step in (30, 50), saved.step
            assert saved.step == saved.arrays["x"][0] == loaded.added
            undisturbed = Replay(40, SPEC, 0.9)
            extend(undisturbed, saved.step)
            assert same(undisturbed, loaded)
            assert not said, said
            if not died:
                assert saved.step == 50
            save(folder, loaded, 80)
            saved, again, said = load(folder, 40)
            assert saved.step == 80 and same(loaded, again) and not said
            shutil.rmtree(folder)
        print(limit)
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert int(answer.stdout) > 15
