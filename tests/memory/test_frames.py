"""The replay memory stores every frame once and rebuilds stacks as they were observed."""

import errno
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest

from smrl.envs.environment import Environment
from smrl.envs.wrappers import NEW_LIFE, FrameStack
from smrl.errors import SmrlError
from smrl.memory.replay import Replay, Windows
from smrl.types import ArraySpec, Continuous, Discrete, Spec

GAMMA = 0.9


class Film(gymnasium.Env[Any, Any]):
    """No two images are equal. Episodes of random length terminate or are truncated, and some steps lose a life."""

    def __init__(self, channels: int) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 255, (5, 4, channels), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.count = 0

    def image(self) -> np.ndarray:
        self.count += 1
        return np.random.default_rng(self.count).integers(0, 256, self.observation_space.shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.image(), {}

    def step(self, action: Any) -> Any:
        end = self.np_random.random()
        return self.image(), 0.0, end < 0.2, 0.15 < end < 0.25, {NEW_LIFE: end < 0.1}


class Step(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    reward: float
    next_obs: np.ndarray
    terminated: bool
    truncated: bool
    is_new_life: bool = False


def experience(stack: int, channels: int, envs: int, count: int) -> tuple[Spec, list[Step]]:
    """Return what several environments observe in turns; the reward of a step is its number."""
    makers = [Environment(FrameStack(Film(channels), stack), f"film {env}") for env in range(envs)]
    for number, env in enumerate(makers):
        env.env.unwrapped.count = 10_000 * number  # type: ignore[attr-defined]
    last, steps = [env.reset(number) for number, env in enumerate(makers)], list[Step]()
    for row in range(count):
        env = makers[row % envs]
        action = np.array(row % 3, np.int32)
        next_obs, _, terminated, truncated = env.step(action)
        is_new_life = (terminated or truncated) and not env.over
        steps.append(Step(last[row % envs], action, float(row), next_obs, terminated, truncated, is_new_life))
        last[row % envs] = env.reset(row) if env.over else next_obs
    return makers[0].spec, steps


def fill(replay: Replay, steps: list[Step]) -> None:
    for step in steps:
        replay.add(*step[:6])


def length(steps: list[Step], row: int, n_step: int, envs: int) -> int:
    """Return the steps of the window from a row: n, or fewer if its episode ends or the next rows do not exist yet."""
    window = steps[row::envs][:n_step]
    ends = [k for k, step in enumerate(window) if step.terminated or step.truncated]
    return min(ends[0] + 1 if ends else n_step, len(window))


@pytest.mark.parametrize("windows", ["partial", "full"])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize(("stack", "channels"), [(3, 3), (4, 1), (2, 2)])
@pytest.mark.parametrize(("capacity", "count"), [(50, 30), (50, 51), (50, 173), (1, 40), (7, 200)])
def test_stacks_equal_the_observations(
    capacity: int, count: int, stack: int, channels: int, envs: int, n_step: int, windows: Windows
) -> None:
    spec, steps = experience(stack, channels, envs, count)
    assert spec.obs == ArraySpec((5, 4, stack * channels), "uint8", stack)
    replay = Replay(capacity, spec, gamma=GAMMA, n_step=n_step, envs=envs, windows=windows)
    fill(replay, steps)
    wanted = {row: length(steps, row, n_step, envs) for row in range(max(0, count - capacity), count)}
    if windows == "full":
        wanted = {row: known for row, known in wanted.items() if known == n_step}
        if not wanted:
            with pytest.raises(SmrlError, match=r"no episode so far has 3 steps: lower --n-step"):
                replay.sample(np.random.default_rng(0), 1, 5)
            return
    batch = replay.sample(np.random.default_rng(0), 2, 500)
    assert batch.obs.dtype == batch.next_obs.dtype == np.uint8
    row_of, seen = {steps[row].obs.tobytes(): row for row in wanted}, set()
    for index in np.ndindex(2, 500):
        obs, action, reward, discount, next_obs = (field[index] for field in batch)
        row = row_of[obs.tobytes()]
        window = steps[row::envs][: wanted[row]]
        assert action == steps[row].action
        assert reward == pytest.approx(sum(GAMMA**k * step.reward for k, step in enumerate(window)))
        assert discount == pytest.approx(GAMMA ** len(window) * (not window[-1].terminated))
        # A new life begins with a new stack, of which the newest frame is stored; the discount before it is 0.
        known = channels if window[-1].is_new_life else stack * channels
        np.testing.assert_array_equal(next_obs[..., -known:], window[-1].next_obs[..., -known:])
        seen.add(row)
    assert seen == set(wanted)


def test_full_windows_are_drawn_uniformly() -> None:
    spec, steps = experience(2, 1, 1, 400)
    replay = Replay(300, spec, gamma=GAMMA, n_step=4, windows="full")
    fill(replay, steps)
    full = [row for row in range(100, 400) if length(steps, row, 4, 1) == 4]
    first = replay._draw(np.random.default_rng(0), 1000 * len(full))
    rows, counts = np.unique(first, return_counts=True)
    assert rows.tolist() == full
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_rare_full_window_is_found() -> None:
    spec = Spec(ArraySpec((2,)), Continuous(1))
    replay = Replay(50_000, spec, gamma=GAMMA, n_step=3, windows="full")
    for row in range(40_000):
        replay.add(np.full(2, row), np.zeros(1), 0.0, np.full(2, row + 1), row not in (123, 124, 125), False)
    obs = replay.sample(np.random.default_rng(0), 1, 200).obs
    assert set(obs[..., 0].ravel().tolist()) == {123.0, 124.0}


@pytest.mark.parametrize(("shape", "stack"), [((84, 84, 4), 4), ((84, 84, 9), 3)])
def test_each_frame_is_stored_once(shape: tuple[int, ...], stack: int) -> None:
    spec = Spec(ArraySpec(shape, "uint8", stack), Discrete(6))
    obs, action = spec.obs.zeros(), np.zeros((), np.int32)
    rows, frames = 2_000, 0
    tracemalloc.start()
    try:
        replay = Replay(rows, spec, gamma=GAMMA, envs=2)
        for row in range(3 * rows):
            replay.add(obs, action, 0.0, obs, row % 50 == 49, False)
        used, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    frames = rows + rows // 50  # the last observation of an episode is one more
    assert frames * obs.nbytes / stack <= used <= most < 1.1 * frames * obs.nbytes / stack


def test_frames_on_disk_equal_those_in_memory(tmp_path: Path) -> None:
    spec, steps = experience(3, 3, 2, 300)
    here, there = (Replay(100, spec, gamma=GAMMA, n_step=3, envs=2, folder=folder) for folder in (None, tmp_path))
    fill(here, steps)
    fill(there, steps)
    for left, right in zip(*(replay.sample(np.random.default_rng(0), 2, 300) for replay in (here, there)), strict=True):
        np.testing.assert_array_equal(left, right)
    assert list(tmp_path.iterdir()) == [], "the file has no name and disappears"


SHORT_OF_MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np
from smrl.memory.replay import Replay
from smrl.types import ArraySpec, Discrete, Spec

with open("/proc/self/status") as file:
    (data,) = (int(line.split()[1]) * 1024 for line in file if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (data + 60_000_000,) * 2)
spec = Spec(ArraySpec((84, 84, 9), "uint8", 3), Discrete(2))
try:
    Replay(10_000, spec, gamma=0.99)
except MemoryError:
    print("not in memory")
replay = Replay(10_000, spec, gamma=0.99, folder=Path(sys.argv[1]))
obs = spec.obs.zeros()
for row in range(12_000):
    obs[...] = row % 251
    replay.add(obs, np.zeros((), np.int32), float(row), obs + 1, False, row % 5 == 4)
batch = replay.sample(np.random.default_rng(0), 1, 64)
print(batch.obs[0, :, 0, 0, -1].tolist() == [int(row) % 251 for row in batch.reward[0]])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_frames_on_disk_need_no_memory(tmp_path: Path) -> None:
    """Store 210 MB of frames in a process that may allocate 60 MB."""
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout.split("\n")[:2], done.stderr) == (["not in memory", "True"], "")


def test_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    spec = Spec(ArraySpec((84, 84, 9), "uint8", 3), Discrete(2))
    with pytest.raises(SmrlError, match=r"needs 21\.2 GB of disk in .*No space left on device\): make room, or lower"):
        Replay(1_000_000, spec, gamma=GAMMA, folder=tmp_path)
