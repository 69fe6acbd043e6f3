"""Checkpoints: whole or not there, whatever happens while they are written."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from smrl import checkpoint
from smrl.checkpoint import Saved
from smrl.errors import SmrlError
from smrl.replay import Replay
from smrl.types import Spec

SPEC = Spec(obs_size=2, action_size=1)


def extend(replay: Replay, count: int) -> None:
    for _ in range(count):
        number = replay.added
        replay.add(np.full(2, number), np.zeros(1), number, np.full(2, number + 1), number % 7 == 6, False)


def save(folder: Path, replay: Replay, step: int) -> None:
    extend(replay, step - replay.added)
    checkpoint.save(folder, Saved(step, {"x": np.full(3, step)}, {"step": step}), replay)


def load(folder: Path, capacity: int = 100) -> tuple[Saved | None, Replay, list[str]]:
    said: list[str] = []
    replay = Replay(capacity, SPEC, 0.9)
    return checkpoint.load(folder, said.append, replay), replay, said


def same(left: Replay, right: Replay) -> bool:
    samples = [replay.sample(np.random.default_rng(0), 1, 500) for replay in (left, right)]
    return left.added == right.added and all(np.array_equal(a, b) for a, b in zip(*samples, strict=True))


@pytest.mark.parametrize("capacity", [100, 12])
def test_what_is_saved_is_loaded(tmp_path: Path, capacity: int) -> None:
    replay = Replay(capacity, SPEC, 0.9)
    for step in (5, 20, 21, 60):
        save(tmp_path, replay, step)
        saved, loaded, said = load(tmp_path, capacity)
        assert saved is not None
        assert saved.step == saved.facts["step"] == saved.arrays["x"][0] == step
        assert same(replay, loaded)
        assert not said


def test_a_checkpoint_costs_what_is_new(tmp_path: Path) -> None:
    replay = Replay(100, SPEC, 0.9)
    save(tmp_path, replay, 50)
    (first,) = (tmp_path / "replay").iterdir()
    written = first.stat().st_mtime_ns
    save(tmp_path, replay, 60)
    assert first.stat().st_mtime_ns == written
    assert sorted(path.name for path in (tmp_path / "replay").iterdir()) == [
        "000000000000-000000000050.npz",
        "000000000050-000000000060.npz",
    ]


def test_only_two_checkpoints_and_the_rows_they_need_are_kept(tmp_path: Path) -> None:
    replay = Replay(12, SPEC, 0.9)
    for step in range(10, 101, 10):
        save(tmp_path, replay, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000000090", "000000000100", "replay"]
    assert len(list((tmp_path / "replay").iterdir())) <= 4


@pytest.mark.parametrize("file", ["arrays.npz", "manifest.json", "../replay/000000000020-000000000030.npz"])
@pytest.mark.parametrize("harm", ["flip", "cut", "delete"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_used(tmp_path: Path, file: str, harm: str) -> None:
    replay = Replay(100, SPEC, 0.9)
    save(tmp_path, replay, 20)
    save(tmp_path, replay, 30)
    victim = tmp_path / "000000000030" / file
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.unlink() if harm == "delete" else victim.write_bytes(content if harm == "flip" else content[:-20])
    saved, loaded, said = load(tmp_path)
    assert saved is not None
    assert saved.step == loaded.added == 20
    assert len(said) == 1
    assert "is damaged" in said[0]
    save(tmp_path, loaded, 30)  # the run goes on from there
    assert load(tmp_path)[0] is not None


def test_nothing_is_thrown_away_where_all_are_damaged(tmp_path: Path) -> None:
    save(tmp_path, Replay(100, SPEC, 0.9), 20)
    (tmp_path / "000000000020" / "arrays.npz").write_bytes(b"")
    with pytest.raises(SmrlError, match="every checkpoint"):
        load(tmp_path)
    assert (tmp_path / "000000000020").exists()


def test_there_may_be_none(tmp_path: Path) -> None:
    assert load(tmp_path / "nowhere")[0] is None


def test_a_checkpoint_of_another_shape_is_refused() -> None:
    arrays = checkpoint.to_arrays({"x": np.zeros(3, np.float32)})
    with pytest.raises(SmrlError, match="does not fit"):
        checkpoint.from_arrays({"x": np.zeros(4, np.float32)}, arrays)


def test_killed_before_every_change_of_the_folder(tmp_path: Path) -> None:
    """A child saves and dies before its n-th sync, rename or removal, for every n; not in the midst of a write."""
    script = f"""
        import os, shutil, signal, sys, warnings
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_checkpoint import Replay, SPEC, load, same, save
        warnings.simplefilter("ignore")  # fork is safe here: no JAX computation has run
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
                save(folder, replay, 70)
                os._exit(0)
            died = os.waitpid(child, 0)[1] != 0
            saved, loaded, said = load(folder, 40)
            assert saved.step in (30, 70), saved.step
            assert saved.step == saved.arrays["x"][0] == loaded.added
            assert not said, said
            if not died:
                assert saved.step == 70
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
