"""The estimation bias against environments whose Q is known in closed form."""

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

import smrl
from smrl.envs import make as envs
from smrl.errors import SmrlError
from smrl.settings import make_settings
from smrl.training.bias import EPISODES, PAIRS, PER_EPISODE, BiasEstimator
from smrl.types import Algorithm

GAMMA = 0.9


class Clock(gymnasium.Env[Any, Any]):
    """A reward of 1 at every step until the clock runs out, whatever is done: Q = (1 − γ^(left)) / (1 − γ)."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, length: int = 10, reward: float = 1.0) -> None:
        self.length, self.reward = length, reward

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = self.length
        return self._obs(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return self._obs(), self.reward, self.left == 0, False, {}

    def _obs(self) -> np.ndarray:
        return np.array([self.left / self.length], np.float32)


def true_q(left: Any, bonus: float = 0.0) -> Any:
    """Of the reward 1 per step, and the entropy bonus of every later step."""
    return (1 - GAMMA**left) / (1 - GAMMA) + bonus * (GAMMA - GAMMA**left) / (1 - GAMMA)


LOG_PROB = -2 * float(np.log(2.0))  # of the uniform distribution over the square


def measured(
    algorithm: Algorithm[Any], length: int, original: bool = False, reward: float = 1.0, scale: float = 1.0
) -> dict[str, float]:
    settings = make_settings("sac", "Clock", gamma=GAMMA, bias_original=original, reward_scale=scale)
    bias = BiasEstimator(settings, algorithm, partial(envs.make, lambda: Clock(length, reward)))
    found = bias(jnp.zeros(()), 1000)
    assert found is not None
    return found


def unused(*_: Any) -> Any:
    raise NotImplementedError


def exact(length: int, alpha: float, offset: float = 0.0, slope: float = 0.0) -> Algorithm[Any]:
    """Return an algorithm with the soft Q of the uniform policy, plus an error, as the mean of two critics."""

    def q_values(state: Any, obs: Any, action: Any) -> Any:
        left = jnp.round(obs[:, 0] * length)
        q = true_q(left, -alpha * LOG_PROB) + offset + slope * left
        return jnp.stack([q - 1, q + 1])

    return Algorithm(
        *(unused, unused, unused, unused),
        q_values=q_values,
        policy_sample=lambda state, obs, key: (jnp.zeros((len(obs), 2)), jnp.full(len(obs), LOG_PROB)),
        temperature=lambda state: jnp.asarray(alpha),
    )


def test_an_algorithm_without_diagnostics_is_refused() -> None:
    with pytest.raises(SmrlError, match="sac offers no q_values and policy_sample"):
        measured(Algorithm(unused, unused, unused, unused), 10)


def kept(length: int) -> np.ndarray:
    """How many steps are left at the pairs that an episode contributes."""
    return np.arange(length, 0, -1)[:PER_EPISODE]


def sample_sd(values: np.ndarray) -> float:
    """Over the pairs of all episodes, which are alike; n − 1 in place of n shows in the fourth digit."""
    rounds = -(-PAIRS // (EPISODES * len(values)))
    pairs = np.tile(values, rounds * EPISODES)
    return float(np.sqrt(((pairs - pairs.mean()) ** 2).sum() / (len(pairs) - 1)))


@pytest.mark.parametrize("length", [10, 400])  # 400: pairs beyond the 350th of an episode do not count
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_the_true_q_has_no_bias(length: int, alpha: float) -> None:
    found = measured(exact(length, alpha), length)
    assert found["bias"] == pytest.approx(0, abs=1e-6)
    assert found["bias_sd"] == pytest.approx(0, abs=1e-6)


def test_q_is_compared_with_the_scaled_rewards_that_it_learned_from() -> None:
    assert measured(exact(10, 0.3), 10, reward=0.25, scale=4.0)["bias"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("length", [10, 400])
def test_an_error_of_q_is_found(length: int) -> None:
    alpha, left = 0.3, kept(length)
    found = measured(exact(length, alpha, offset=2.0, slope=0.01), length)
    mean_return = true_q(left, -alpha * LOG_PROB).mean()
    error = 2.0 + 0.01 * left
    assert found["bias"] == pytest.approx(error.mean() / mean_return, rel=1e-5)
    assert found["bias_sd"] == pytest.approx(sample_sd(error) / mean_return, rel=1e-4)


def test_the_original_rule() -> None:
    """A temperature of 0.2 whatever was learned, and a denominator of at least 10."""
    length, left = 10, kept(10)
    found = measured(exact(length, 0.7), length, original=True)
    returns = true_q(left, -0.2 * LOG_PROB)
    bias = true_q(left, -0.7 * LOG_PROB) - returns
    assert 1 < returns.mean() < 10
    assert found["bias"] == pytest.approx(bias.mean() / 10, rel=1e-5)
    assert found["bias_sd"] == pytest.approx(sample_sd(bias) / 10, rel=1e-5)


def test_without_any_return_there_is_nothing_to_compare_with() -> None:
    found = measured(exact(10, 0.0, offset=1.0), 10, reward=0.0)
    assert not np.isfinite(found["bias"])


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_what_is_learned_comes_near_the_true_q(algorithm: str, tmp_path: Path) -> None:
    """Through a whole run: before learning Q is far too small, afterwards it is about right."""
    settings: dict[str, Any] = {"gamma": GAMMA, "reuse": 5, "steps": 1200, "warmup": 100, "batch_size": 64}
    settings |= {"eval_every": 100, "bias_every": 100, "learning_rate": 1e-3, "critic_hidden": (64, 64)}
    run = smrl.train(algorithm, Clock, **settings, actor_hidden=(16,), runs=tmp_path, quiet=True)
    columns = np.genfromtxt(run.path / "evaluations.csv", delimiter=",", names=True)
    assert columns["bias"][0] < -0.5
    assert abs(columns["bias"][-1]) < 0.1
    assert columns["bias_sd"][-1] < 0.1
