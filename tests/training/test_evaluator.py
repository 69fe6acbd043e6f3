"""Parallel episodes give the same returns as sequential ones."""

from functools import partial

import numpy as np
import pytest

from smrl.envs import make as envs
from smrl.training.evaluator import AT_ONCE, Evaluator


def lean(obs: np.ndarray) -> np.ndarray:
    """A policy of sorts for Hopper: falls at various times."""
    return np.tanh(obs[:, :3])


@pytest.mark.parametrize("episodes", [1, 10, AT_ONCE + 5])
def test_returns_equal_those_of_single_episodes(episodes: int) -> None:
    evaluator = Evaluator(partial(envs.make, "Hopper-v4"), episodes, seed=3)
    episodes_played = evaluator(lean)
    assert episodes_played is not None
    returns, lengths = episodes_played.returns, episodes_played.lengths
    env = envs.make("Hopper-v4")
    for seed, expected_return, expected_length in zip(evaluator.seeds(), returns, lengths, strict=True):
        obs, total, length, over = env.reset(seed), 0.0, 0, False
        while not over:
            obs, reward, terminated, truncated = env.step(lean(obs[None])[0])
            total, length, over = total + reward, length + 1, terminated or truncated
        assert (total, length) == (expected_return, expected_length)
    assert len(set(lengths)) > 1 or episodes == 1
    env.close()
    evaluator.close()


def test_evaluations_use_the_same_seeds() -> None:
    evaluator = Evaluator(partial(envs.make, "Pendulum-v1"), 4, seed=0)
    first, second = (evaluator(lambda obs: np.zeros((4, 1), np.float32)) for _ in range(2))
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first.returns, second.returns)
    assert len(set(first.returns)) == 4
    evaluator.close()


def test_an_evaluation_can_be_halted() -> None:
    evaluator, steps = Evaluator(partial(envs.make, "Pendulum-v1"), 2, seed=0), list[int]()

    def policy(obs: np.ndarray) -> np.ndarray:
        steps.append(1)
        return np.zeros((2, 1), np.float32)

    assert evaluator(policy, halt=lambda: len(steps) == 5) is None
    assert len(steps) == 5
    evaluator.close()
