"""The replay memory of a run, read by environment, without changing the run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_runs import FACTS, HYPER, SETTINGS, make_config

from smrl.data.runs import find_runs, read_memory, scaled_rewards
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.runs import checkpoint
from smrl.runs.atomic import save_arrays
from smrl.runs.checkpoint import Saved
from smrl.runs.paths import CHECKPOINT, CONFIG
from smrl.types import ArraySpec, Continuous, Spec

VECTOR = Spec(ArraySpec((1,)), Continuous(1))
FRAMES = Spec(ArraySpec((2, 1, 2), "uint8", stack=2), Continuous(1))
LARGEST = 10**6


def observed(spec: Spec, env: int, tick: int, first: int) -> np.ndarray:
    """Return the observation of an environment; a stack shows the tick before, or the first one twice."""
    value = 100 * env + tick
    if spec is VECTOR:
        return np.array([value], np.float32)
    before = value - 1 if tick > first else value
    return np.array([[[before % 256, value % 256]]] * 2, np.uint8)


def write_run(folder: Path, spec: Spec = VECTOR, ticks: int = 40, envs: int = 2, **changes: Any) -> Path:
    """Write a run with episodes of 7 steps per environment, of which every other one terminates."""
    settings = {**SETTINGS, "envs": envs, "capacity": 30, "reward_scale": 2.0, "hyper": HYPER, **changes}
    replay = Replay(settings["capacity"], spec, gamma=0.9, envs=envs)
    folder.mkdir(parents=True)
    for tick in range(ticks):
        first, is_end = tick - tick % 7, tick % 7 == 6
        for env in range(envs):
            after = observed(spec, env, tick + 1, first)
            terminated = is_end and tick % 2 == 0
            replay.add(observed(spec, env, tick, first), np.zeros(1), 2.0 * tick, after, terminated, is_end)
        if tick in (10, 20, 33):  # several shards
            checkpoint.save(folder / CHECKPOINT, Saved(tick, {}, FACTS), replay)
    checkpoint.save(folder / CHECKPOINT, Saved(ticks, {}, FACTS), replay)

    (folder / CONFIG).write_text(json.dumps(make_config(settings, spec=spec.to_json())))
    return folder


@pytest.mark.parametrize("spec", [VECTOR, FRAMES], ids=["vector", "frames"])
@pytest.mark.parametrize("only_complete", [False, True])
@pytest.mark.parametrize("ticks", [9, 40])
def test_steps_of_every_environment_in_order(spec: Spec, only_complete: bool, ticks: int, tmp_path: Path) -> None:
    memory = read_memory(write_run(tmp_path / "run", spec, ticks), LARGEST, print, only_complete)
    begun = max(0, ticks - 15)  # the ring holds 30 rows of two environments
    is_left_out = begun and (only_complete or spec is FRAMES)
    kept = range(-(-begun // 7) * 7 if is_left_out else begun, ticks)
    wanted = [(env, tick) for env in range(2) for tick in kept]
    replay = Replay(len(wanted), spec, gamma=0.9)
    replay.restore(memory.rows)
    batch = replay.gather(np.arange(len(wanted)))
    for index, (env, tick) in enumerate(wanted):
        first = tick - tick % 7
        np.testing.assert_array_equal(batch.obs[index], observed(spec, env, tick, first))
        is_terminated = tick % 7 == 6 and tick % 2 == 0
        assert batch.discount[index] == np.float32(0 if is_terminated else 0.9)
        if not is_terminated:
            np.testing.assert_array_equal(batch.next_obs[index], observed(spec, env, tick + 1, first))
    np.testing.assert_array_equal(batch.reward, np.array([2 * tick for _, tick in wanted], np.float32))
    np.testing.assert_array_equal(scaled_rewards(memory, 2.0), batch.reward)
    np.testing.assert_array_equal(scaled_rewards(memory, 1.0), batch.reward / 2)
    # With frames, the ring stores two more rows for the stacks of the oldest.
    stored = 2 * (ticks - begun) + (2 if spec is FRAMES and begun else 0)
    assert memory.left_out == stored - len(wanted)
    ends = [tick % 7 == 6 or tick == ticks - 1 for _, tick in wanted]
    assert memory.rows["last"].tolist() == ends


def test_memory_without_a_complete_episode_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", capacity=4)
    with pytest.raises(SmrlError, match="holds no complete episode"):
        read_memory(run, LARGEST, print, only_complete=True)


def test_damage_is_reported_and_nothing_is_changed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    newest = max(path for path in (run / CHECKPOINT).iterdir() if path.name.isdigit())
    content = (newest / "tail.npz").read_bytes()
    (newest / "tail.npz").write_bytes(content[:-1] + b"x")
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    notes: list[str] = []
    read_memory(run, LARGEST, notes.append)
    assert len(notes) == 1
    assert "is damaged (tail.npz has a wrong checksum); using" in notes[0]
    for file in run.rglob("tail.npz"):
        file.write_bytes(b"")
        before[file] = b""
    with pytest.raises(SmrlError, match=r"every checkpoint .* is damaged"):
        read_memory(run, LARGEST, print)
    assert before == {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}


def test_sizes_are_bounded_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(SmrlError, match="more than 100 fit"):
        read_memory(write_run(tmp_path / "run"), 100, print)


def test_links_and_values_out_of_bounds_are_refused(tmp_path: Path) -> None:
    """A run may be somebody else's: intact checksums prove nothing about its content."""
    run = write_run(tmp_path / "run")
    newest = run / CHECKPOINT / "000000000040"
    with np.load(newest / "tail.npz") as tail:
        arrays = dict(tail)
    manifest = checkpoint.read_manifest(newest)
    forged: dict[str, tuple[str, np.ndarray]] = {
        "of obs of its replay memory is not a finite": ("obs", np.full_like(arrays["obs"], np.nan)),
        "of action of its replay memory is outside the bounds": ("action", np.full_like(arrays["action"], 1.5)),
        "of reward of its replay memory is not a finite": ("reward", np.full_like(arrays["reward"], np.inf)),
        r"obs of its replay memory is .* of float64": ("obs", arrays["obs"].astype(np.float64)),
        "is not that of a run": ("successor_rows", arrays["successor_rows"] + 1),
    }
    for message, (name, values) in forged.items():
        digest = save_arrays(newest / "tail.npz", arrays | {name: values})
        checkpoint.write_manifest(newest, manifest | {"tail": digest})
        with pytest.raises(SmrlError, match=message):
            read_memory(run, LARGEST, print)
    (run / "link").symlink_to(tmp_path)
    with pytest.raises(SmrlError, match="is a link"):
        read_memory(run, LARGEST, print)


def test_runs_below_a_folder_are_found_in_order(tmp_path: Path) -> None:
    made = [write_run(tmp_path / name / "seed0", ticks=9) for name in ("b", "a")]
    assert find_runs(tmp_path) == sorted(made)
    assert find_runs(made[0]) == [made[0]]
    assert find_runs(tmp_path / "none") == []
