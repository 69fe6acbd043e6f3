"""Checkpoints are complete or not there, whatever happens while they are written."""

import itertools
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written_runs import FACTS

from smrl import runs
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.runs import checkpoint
from smrl.runs.atomic import sync
from smrl.runs.checkpoint import ARRAYS, MANIFEST, TAIL, Saved, Shard, plan_shards
from smrl.types import ArraySpec, Continuous, Spec

SPEC = Spec(ArraySpec((2,)), Continuous(1))


def extend(replay: Replay, count: int) -> None:
    for _ in range(count):
        number = replay.added
        obs, next_obs = np.full(2, number), np.full(2, number + replay.envs)
        replay.add(obs, np.zeros(1), number, next_obs, number % 7 == 6, False)


def save(folder: Path, replay: Replay, step: int) -> None:
    extend(replay, step - replay.added)
    checkpoint.save(folder, Saved(step, {"x": np.full(3, step)}, FACTS | {"step": step}), replay)


def load(folder: Path, capacity: int = 100) -> tuple[Saved, Replay, list[str]]:
    messages: list[str] = []
    replay = Replay(capacity, SPEC, gamma=0.9)
    saved = checkpoint.load(folder, messages.append, replay)
    assert saved is not None
    return saved, replay, messages


def same(left: Replay, right: Replay) -> bool:
    samples = [replay.sample(np.random.default_rng(0), 1, 500) for replay in (left, right)]
    return left.added == right.added and all(np.array_equal(a, b) for a, b in zip(*samples, strict=True))


@pytest.mark.parametrize("capacity", [100, 12])
def test_load_returns_what_was_saved(tmp_path: Path, capacity: int) -> None:
    replay = Replay(capacity, SPEC, gamma=0.9)
    for step in (5, 20, 21, 60):
        save(tmp_path, replay, step)
        saved, loaded, messages = load(tmp_path, capacity)
        assert saved.step == saved.facts["step"] == saved.arrays["x"][0] == step
        assert same(replay, loaded)
        assert not messages


def shards(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "replay").iterdir())


def test_save_writes_only_new_rows(tmp_path: Path) -> None:
    replay = Replay(1000, SPEC, gamma=0.9)
    save(tmp_path, replay, 51)
    (first,) = (tmp_path / "replay").iterdir()
    written = first.stat().st_mtime_ns
    save(tmp_path, replay, 61)
    assert first.stat().st_mtime_ns == written
    assert shards(tmp_path) == ["rows-000000000000-000000000050.npz", "rows-000000000050-000000000060.npz"]


def test_two_checkpoints_and_their_shards_are_kept(tmp_path: Path) -> None:
    replay = Replay(12, SPEC, gamma=0.9)
    for step in range(10, 101, 10):
        save(tmp_path, replay, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000000090", "000000000100", "replay"]
    assert min(int(name.split("-")[2][:12]) for name in shards(tmp_path)) > 90 - 12


def test_number_of_shards_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint from before a merger can still be read after it."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    replay, earlier = Replay(10_000, SPEC, gamma=0.9), Replay(10_000, SPEC, gamma=0.9)
    for step in range(1, 53):
        save(tmp_path, replay, step)
    assert len(shards(tmp_path)) == 51, "50 single rows of the checkpoint before, and one shard of 51 rows"
    assert same(replay, load(tmp_path, 10_000)[1])

    (tmp_path / "000000000052" / ARRAYS).unlink()
    loaded = load(tmp_path, 10_000)[1]
    extend(earlier, 51)
    assert same(earlier, loaded)
    for step in range(52, 160):
        save(tmp_path, loaded, step)
        assert len(shards(tmp_path)) < 100, "of both checkpoints together"
    assert same(loaded, load(tmp_path, 10_000)[1])


def test_cut_without_new_rows_is_saved(tmp_path: Path) -> None:
    replay = Replay(100, SPEC, gamma=0.9)
    extend(replay, 3)
    for step in (1, 2):
        checkpoint.save(tmp_path, Saved(step, {}, FACTS), replay)
        replay.cut()
    replay.add(np.full(2, 50), np.zeros(1), 0, np.full(2, 51), False, False)
    loaded = load(tmp_path)[1]
    loaded.add(np.full(2, 50), np.zeros(1), 0, np.full(2, 51), False, False)
    assert same(replay, loaded)


@pytest.mark.parametrize("file", [ARRAYS, TAIL, MANIFEST, "../replay/rows-000000000019-000000000029.npz"])
@pytest.mark.parametrize("harm", ["flip", "cut", "delete"])
def test_damaged_checkpoint_is_replaced_by_the_one_before(tmp_path: Path, file: str, harm: str) -> None:
    replay = Replay(100, SPEC, gamma=0.9)
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


def test_manifest_damaged_during_the_run(tmp_path: Path) -> None:
    replay = Replay(100, SPEC, gamma=0.9)
    for step in (20, 30):
        save(tmp_path, replay, step)
    (tmp_path / "000000000030" / MANIFEST).write_text("{}")
    save(tmp_path, replay, 40)
    saved, loaded, messages = load(tmp_path)
    assert (saved.step, messages) == (40, [])
    assert same(replay, loaded)


def test_newest_step(tmp_path: Path) -> None:
    assert checkpoint.newest_step(tmp_path / "nowhere") is None
    replay = Replay(100, SPEC, gamma=0.9)
    for step in (20, 30):
        save(tmp_path, replay, step)
        assert checkpoint.newest_step(tmp_path) == step
    for step, left in ((30, 20), (20, None)):
        (tmp_path / f"{step:012d}" / MANIFEST).write_text("{}")
        assert checkpoint.newest_step(tmp_path) == left


def test_nothing_is_deleted_if_all_checkpoints_are_damaged(tmp_path: Path) -> None:
    save(tmp_path, Replay(100, SPEC, gamma=0.9), 20)
    (tmp_path / "000000000020" / ARRAYS).write_bytes(b"")
    with pytest.raises(SmrlError, match="every checkpoint"):
        load(tmp_path)
    assert (tmp_path / "000000000020").exists()


def test_load_without_a_checkpoint(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path / "nowhere", pytest.fail) is None


@pytest.mark.parametrize("number", [2, 4])
def test_another_format_is_refused_and_kept(tmp_path: Path, number: int) -> None:
    """It is not taken for damage, which would be deleted."""
    replay = Replay(100, SPEC, gamma=0.9)
    for step in (20, 30):
        save(tmp_path, replay, step)
    path = tmp_path / "000000000030"
    manifest = checkpoint.read_manifest(path)
    assert manifest["format"] == checkpoint.FORMAT == 3
    checkpoint.write_manifest(path, manifest | {"format": number})
    for attempt in (load, checkpoint.newest_step, lambda folder: save(folder, replay, 40)):
        with pytest.raises(SmrlError, match=r"was written by another version of smrl; use that version"):
            attempt(tmp_path)
    assert path.exists()


def test_runs_need_no_jax() -> None:
    modules = ", ".join(f"smrl.runs.{file.stem}" for file in Path(runs.__path__[0]).glob("[a-z]*.py"))
    assert "smrl.runs.doctor" in modules
    subprocess.run([sys.executable, "-c", f"import sys; sys.modules['jax'] = None; import {modules}"], check=True)


def test_kill_before_every_change_of_the_folder(tmp_path: Path) -> None:
    """A child saves and dies before its n-th sync, rename or removal, for every n, but not during a write.

    When it does, one shard has left the memory and two are merged with the new rows.
    """
    script = f"""
        import os, shutil, signal, sys, warnings
        from pathlib import Path
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parent.parent)!r}]
        from test_checkpoint import Replay, SPEC, checkpoint, extend, load, same, save
        warnings.simplefilter("ignore")  # fork is safe here: no JAX computation has run
        checkpoint.MAX_SHARDS = 2
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
            replay = Replay(40, SPEC, gamma=0.9)
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
            undisturbed = Replay(40, SPEC, gamma=0.9)
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


def test_sync_as_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows cannot open folders, and syncs only files that are open for writing."""
    opened: list[Path] = []

    def windows_open(path: Path, flags: int) -> int:
        if path.is_dir() or not flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        opened.append(path)
        return real_open(path, flags)

    real_open = os.open
    monkeypatch.setattr(os, "open", windows_open)
    monkeypatch.delattr(os, "O_DIRECTORY")
    (tmp_path / "file").write_text("content")
    for path in (tmp_path, tmp_path / "file"):
        sync(path)
    assert opened == [tmp_path / "file"]


def planned(news: Iterable[int], capacity: int, limit: int = 50) -> Iterator[tuple[int, list[Shard], int]]:
    """Yield rows so far, shards and rows written at each checkpoint, for these numbers of new rows."""
    saved: list[Shard] = []
    added = 0
    for new in news:
        added += new
        shards = plan_shards(saved, max(0, added - capacity), added, capacity, limit)
        yield added, shards, sum(stop - start for start, stop in set(shards) - set(saved))
        saved = shards


@given(st.lists(st.integers(0, 60), min_size=1, max_size=60), st.integers(1, 200), st.integers(2, 6))
@settings(deadline=None)
def test_plan_holds_every_row_once(news: list[int], capacity: int, limit: int) -> None:
    for added, shards, _ in planned(news, capacity, limit):
        assert len(shards) <= limit
        assert all(start < stop for start, stop in shards)
        assert all(stop == start for (_, stop), (start, _) in itertools.pairwise(shards))
        oldest = max(0, added - capacity)
        assert (shards[0][0] <= oldest and shards[-1][1] == added) if shards else added == 0


EVERY_100_STEPS = [100] * 10_000  # a million steps
UNEQUAL = [int(2 ** random.Random(0).uniform(0, 10)) for _ in range(3_000)]


@pytest.mark.parametrize(
    ("news", "capacity"),
    [
        (EVERY_100_STEPS, 1_000_000),
        ([1] * 10_000, 1_000),
        (UNEQUAL, 1_000_000),
        ([1_000] * 50 + [1] * 3_000, 1_000_000),  # many large shards first
        ([2 ** ((k & -k).bit_length() - 1) for k in range(1, 3_000)], 1_000_000),  # small shards between large ones
    ],
)
def test_plan_writes_each_row_a_few_times(news: list[int], capacity: int) -> None:
    """Merging only the two smallest neighbours would write each of a million rows 72 times."""
    written = most = 0
    for _, shards, rows in planned(news, capacity):
        written, most = written + rows, max(most, len(shards))
        assert rows <= max(news) + capacity // 3, "no checkpoint writes most of the memory"
    assert most == 50
    assert written / sum(news) < 4


def test_plan_drops_shards_without_rows() -> None:
    for added, shards, _ in planned([10] * 1_000, capacity=1_000):
        assert all(stop > added - 1_000 for _, stop in shards)
        assert shards[0][0] >= added - 1_200, "rows that are gone stay on the disk for a while only"
