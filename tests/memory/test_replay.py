"""The replay memory compared with a list of transitions."""

import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.types import ArraySpec, Continuous, Discrete, Spec, Transition

SPEC = Spec(ArraySpec((2,)), Continuous(1))
GAMMA = 0.9


class Step(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    reward: float
    next_obs: np.ndarray
    terminated: bool
    truncated: bool


def experience(count: int, seed: int = 0) -> list[Step]:
    """Return episodes of random length, some terminated and some timed out, with unique observations over all seeds."""
    draw = np.random.default_rng(seed)
    number = 1000 * seed
    steps, obs = [], np.array([number, -1], np.float32)
    for _ in range(count):
        number += 1
        end = draw.random()
        terminated, truncated = bool(end < 0.15), bool(0.1 < end < 0.3)
        next_obs = np.array([number, -number], np.float32)
        steps.append(
            Step(obs, draw.uniform(-1, 1, 1).astype(np.float32), draw.normal(), next_obs, terminated, truncated)
        )
        number += terminated or truncated
        obs = np.array([number, -number], np.float32) if terminated or truncated else next_obs
    return steps


def in_turns(envs: int, count: int, seed: int = 0) -> list[Step]:
    """Return the experience of several environments that take turns."""
    each = [experience(-(-count // envs), seed + env) for env in range(envs)]
    return [step for together in zip(*each, strict=True) for step in together][:count]


def fill(replay: Replay, steps: list[Step]) -> None:
    for step in steps:
        replay.add(*step)


def expected(steps: list[Step], index: int, n_step: int, envs: int) -> tuple[Any, ...]:
    """Return n-step reward, discount and next observation by their definitions."""
    reward = 0.0
    for k in range(n_step):
        step = steps[index + k * envs]
        reward += GAMMA**k * step.reward
        if step.terminated or step.truncated or k == n_step - 1 or index + (k + 1) * envs >= len(steps):
            break
    return reward, GAMMA ** (k + 1) * (not step.terminated), step.next_obs


def sample(replay: Replay, count: int = 4000, seed: int = 0) -> Any:
    return replay.sample(np.random.default_rng(seed), 2, count // 2)


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize(("capacity", "count"), [(50, 1), (50, 30), (50, 50), (50, 51), (50, 173), (1, 5)])
def test_samples_equal_what_was_added(capacity: int, count: int, n_step: int, envs: int) -> None:
    steps, replay = in_turns(envs, count), Replay(capacity, SPEC, gamma=GAMMA, n_step=n_step, envs=envs)
    fill(replay, steps)
    index_of = {(*step.obs, *step.action): index for index, step in enumerate(steps)}
    batch = sample(replay)
    assert batch.obs.shape == (2, 2000, 2)
    assert {field.dtype for field in batch} == {np.dtype(np.float32)}
    obs, action, *rest = (field.reshape(4000, *field.shape[2:]) for field in batch)
    rows = [index_of[*key] for key in np.concatenate([obs, action], axis=1).tolist()]
    wanted = zip(*(expected(steps, row, n_step, envs) for row in rows), strict=True)
    for values, right in zip(rest, wanted, strict=True):
        np.testing.assert_allclose(values, np.array(right), rtol=1e-5)
    assert set(rows) == set(range(max(0, count - capacity), count)), "every slot, the newest and the oldest too"


def test_sampling_is_uniform() -> None:
    replay = Replay(8, SPEC, gamma=GAMMA)
    fill(replay, experience(20))
    counts = np.unique(sample(replay, 80_000).obs[..., 0], return_counts=True)[1]
    assert len(counts) == 8
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(10_000)


def test_sampling_depends_only_on_the_generator() -> None:
    replay = Replay(100, SPEC, gamma=GAMMA)
    fill(replay, experience(60))
    first, second, other = sample(replay, seed=1), sample(replay, seed=1), sample(replay, seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first.obs, other.obs)


@pytest.mark.parametrize("capacity", [50, 1003])
@pytest.mark.parametrize("envs", [1, 8])
def test_saved_parts_restore_the_same_memory(capacity: int, envs: int) -> None:
    """Settled rows are saved as soon as they are new, the others at the end."""
    original, copy = (Replay(capacity, SPEC, gamma=GAMMA, n_step=2, envs=envs) for _ in range(2))
    saved = 0
    for count in (1, 999, 7, 1000, 3):
        for step in in_turns(envs, count, seed=original.added):
            original.add(*step)
        copy.restore(original.rows(saved, original.settled))
        saved = original.settled
        original.cut(envs - 1)
    copy.restore(original.rows(saved, original.added))
    assert copy.added == original.added
    for left, right in zip(sample(original), sample(copy), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    "spec",
    [
        Spec(ArraySpec((5, 4, 3), "uint8"), Continuous(2)),
        Spec(ArraySpec((), "int64"), Discrete(6)),
        Spec(ArraySpec((2, 3), "float64"), Discrete(2)),
    ],
    ids=str,
)
def test_any_shape_and_dtype(spec: Spec) -> None:
    """Sampled observations and actions equal those added, also in a restored memory."""
    replay, copy = Replay(20, spec, gamma=GAMMA, envs=2), Replay(20, spec, gamma=GAMMA, envs=2)
    draw = np.random.default_rng(0)
    example, seen = spec.example(), {}
    obs = [draw.integers(0, 256, spec.obs.shape).astype(spec.obs.dtype) for _ in range(33)]
    for row in range(31):
        (action,) = spec.action.random(draw, 1)
        replay.add(obs[row], action, row, obs[row + 2], False, row == 12)
        seen[row] = (obs[row], action, obs[row + 2])
    copy.restore(replay.rows(0, 25))
    copy.restore(replay.rows(25, 31))
    for memory in (replay, copy):
        batch = memory.sample(np.random.default_rng(0), 2, 30)
        for field, like in zip(batch, example, strict=True):
            assert field.dtype == like.dtype
            assert field.shape == (2, 30, *like.shape[1:])
        for index in np.ndindex(2, 30):
            before, action, after = seen[int(batch.reward[index])]
            np.testing.assert_array_equal(batch.obs[index], before)
            np.testing.assert_array_equal(batch.action[index], action)
            np.testing.assert_array_equal(batch.next_obs[index], after)


PROGRAM = """
from smrl import runtime
runtime.start(1)
import numpy as np
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.types import ArraySpec, Continuous, Spec

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

before = resident()
replay = Replay(1_000_000, Spec(ArraySpec((111,)), Continuous(8)), gamma=0.99)
print(resident() - before)
replay.add(np.ones(111), np.ones(8), 1.0, np.ones(111), False, False)
print(resident() - before)
"""


def test_empty_memory_is_not_allocated() -> None:
    """A million transitions of Ant are 1.1 GB; an empty memory of them takes next to nothing.

    It runs in a new process: in one that has freed much memory, the C library clears what it hands out again.
    """
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert all(int(line) < 5_000_000 for line in ended.stdout.split()), ended.stdout


@pytest.mark.parametrize(("envs", "n_step", "stack"), [(1, 1, 1), (1, 3, 1), (2, 3, 1), (1, 1, 3)])
def test_until_is_the_memory_as_it_was(envs: int, n_step: int, stack: int) -> None:
    spec = Spec(ArraySpec((1, 1, stack), "int32", stack), Continuous(1))
    draw = np.random.default_rng(0)
    replay = Replay(100, spec, gamma=0.9, n_step=n_step, envs=envs)
    before: list[Transition] = []  # batches from the memory when it had envs, envs + 1, … rows
    frames = np.arange(stack) + 1000 * np.arange(envs)[:, None]
    for row in range(60):
        obs, following = frames[row % envs], frames[row % envs] + 1
        ends = draw.random(2) < 0.1
        replay.add(obs[None, None], np.zeros(1), float(row), following[None, None], *map(bool, ends))
        frames[row % envs] = following if not ends.any() else 50 * row  # a new episode repeats its first frame
        if replay.added >= envs:
            before.append(replay.sample(np.random.default_rng(row), 1, 200))
    replay.cut()
    for row, batch in enumerate(before, start=envs - 1):
        for then, now in zip(batch, replay.until(row + 1).sample(np.random.default_rng(row), 1, 200), strict=True):
            assert np.array_equal(then, now), row
    for rows in (envs - 1, 61):
        with pytest.raises(SmrlError, match="does not hold its first"):
            replay.until(rows)
