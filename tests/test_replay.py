"""The replay memory against a list of transitions."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

from smrl.replay import Replay
from smrl.types import Spec

SPEC = Spec(obs_size=2, action_size=1)
GAMMA = 0.9


class Step(NamedTuple):
    obs: np.ndarray
    action: np.ndarray
    reward: float
    next_obs: np.ndarray
    terminated: bool
    truncated: bool


def experience(count: int, seed: int = 0) -> list[Step]:
    """Episodes of random length, some terminated and some cut by time; each observation is unique, of all seeds."""
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
    """The experience of several environments, one step of each after the other."""
    each = [experience(-(-count // envs), seed + env) for env in range(envs)]
    return [step for together in zip(*each, strict=True) for step in together][:count]


def fill(replay: Replay, steps: list[Step]) -> None:
    for step in steps:
        replay.add(*step)


def expected(steps: list[Step], index: int, n_step: int, envs: int) -> tuple[Any, ...]:
    """n-step reward, discount and next observation by the definition."""
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
def test_samples_are_what_was_added(capacity: int, count: int, n_step: int, envs: int) -> None:
    steps, replay = in_turns(envs, count), Replay(capacity, SPEC, GAMMA, n_step, envs)
    fill(replay, steps)
    index_of = {(*step.obs, *step.action): index for index, step in enumerate(steps)}
    batch = sample(replay)
    assert batch.obs.shape == (2, 2000, 2)
    assert {field.dtype for field in batch} == {np.dtype(np.float32)}
    seen = set()
    for obs, action, *rest in zip(*(field.reshape(4000, *field.shape[2:]) for field in batch), strict=True):
        index = index_of[*obs, *action]
        seen.add(index)
        for value, wanted in zip(rest, expected(steps, index, n_step, envs), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-5)
    assert seen == set(range(max(0, count - capacity), count)), "every slot, the newest and the oldest too"


def test_sampling_is_uniform() -> None:
    replay = Replay(8, SPEC, GAMMA)
    fill(replay, experience(20))
    counts = np.unique(sample(replay, 80_000).obs[..., 0], return_counts=True)[1]
    assert len(counts) == 8
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(10_000)


def test_sampling_is_a_function_of_the_generator() -> None:
    replay = Replay(100, SPEC, GAMMA)
    fill(replay, experience(60))
    first, second, other = sample(replay, seed=1), sample(replay, seed=1), sample(replay, seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first.obs, other.obs)


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("pieces", [(0, 40), (0, 7, 30, 31, 40), (0, 7, 30, 173), (0, 100, 110, 173), (0, 40, 41, 42)])
def test_saved_pieces_make_the_same_memory(pieces: tuple[int, ...], envs: int) -> None:
    steps = in_turns(envs, pieces[-1])
    original, copy = Replay(50, SPEC, GAMMA, 2, envs), Replay(50, SPEC, GAMMA, 2, envs)
    for start, stop in itertools.pairwise(pieces):
        fill(original, steps[start:stop])
        copy.restore(original.since(start))
    more = in_turns(envs, 20, seed=5)
    for replay in (original, copy):
        replay.cut(envs - 1)
        fill(replay, more)
    for left, right in zip(sample(original), sample(copy), strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_cut_episode_keeps_its_last_observation() -> None:
    """Also where the cut comes after its row was saved."""
    steps = [step._replace(terminated=False, truncated=False) for step in experience(10)]
    original, copy = Replay(50, SPEC, GAMMA), Replay(50, SPEC, GAMMA)
    fill(original, steps[:5])
    copy.restore(original.since(0))
    original.cut()
    fill(original, steps[7:])
    copy.restore(original.since(5))
    for replay in (original, copy):
        batch = sample(replay)
        before_cut = batch.obs[..., 0] == steps[4].obs[0]
        assert (batch.next_obs[before_cut] == steps[4].next_obs).all()


def test_memory_is_not_paid_before_it_is_used() -> None:
    """A million transitions of Ant are 1.1 GB; an empty memory of them takes next to nothing."""

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    before = resident()
    replay = Replay(1_000_000, Spec(obs_size=111, action_size=8), GAMMA)
    assert resident() - before < 5_000_000
    replay.add(np.ones(111), np.ones(8), 1.0, np.ones(111), False, False)
    assert resident() - before < 5_000_000
