"""Estimation bias of the critics: their values of the policy against the returns that it gets.

    G_t = r_t + γ (G_{t+1} − α log π(a_{t+1}|s_{t+1})); the last G is the last reward, without bootstrap at a time limit
    bias = Q(s_t, a_t) − G_t, reported as its mean and sample standard deviation (n − 1) over |mean G|

This is the paper's study of overfitting, by the procedure of REDQ's authors: complete episodes of the policy that Q is
the value of, with the first 350 pairs of each, until there are 1,000 pairs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from smrl.envs.workers import Env
from smrl.errors import SmrlError
from smrl.randomness import Purpose, at, key
from smrl.settings import Settings
from smrl.statistics import sample_sd
from smrl.training.evaluator import Evaluator, logger
from smrl.training.normaliser import Statistics, observed
from smrl.types import Algorithm, Array

PAIRS, PER_EPISODE = 1_000, 350
EPISODES = -(-PAIRS // PER_EPISODE)  # played at a time
ORIGINAL_ALPHA, ORIGINAL_FLOOR = 0.2, 10.0


def soft_returns(rewards: Sequence[float], log_probs: Sequence[float], alpha: float, gamma: float) -> list[float]:
    """Return G of every step of an episode.

    >>> soft_returns([1.0, 1.0], [0.0, -2.0], alpha=0.5, gamma=0.5)
    [2.0, 1.0]
    """
    returns, following = [], 0.0
    for reward, log_prob in zip(reversed(rewards), reversed(log_probs), strict=True):
        returns.append(reward + gamma * following)
        following = returns[-1] - alpha * log_prob
    return returns[::-1]


class BiasEstimator:
    """Measures the bias of a state, always from the same initial states of the environment."""

    def __init__(
        self,
        settings: Settings[Any],
        algorithm: Algorithm[Any],
        make_env: Callable[[], Env],
        notify: Callable[[str], None] = logger.warning,
    ) -> None:
        self.gamma, self.original, self.reward_scale = settings.gamma, settings.bias_original, settings.reward_scale
        self.evaluator = Evaluator(make_env, EPISODES, settings.seed, Purpose.BIAS, notify)
        root = key(settings.seed, Purpose.BIAS)
        q_values, policy_sample = diagnostics(algorithm, settings.algorithm)

        def sample(state: Any, obs: Array, step: Array, call: Array) -> tuple[Array, Array, Array]:
            action, log_prob = policy_sample(state, obs, at(at(root, step), call))
            return action, log_prob, q_values(state, obs, action).mean(axis=0)

        self._sample = jax.jit(sample)
        self._temperature = algorithm.temperature or (lambda state: jnp.zeros(()))

    def __call__(
        self,
        state: Any,
        step: int,
        statistics: Statistics | None = None,
        halt: Callable[[], bool] = lambda: False,
    ) -> dict[str, float] | None:
        """Return mean and standard deviation of the normalised bias; None if ``halt`` returns True on the way.

        By the original rule α is 0.2 and |mean G| counts as at least 10. Where the agent learns from normalised
        observations and rewards (``statistics``), Q is that of the former and G that of the latter.
        """
        alpha = ORIGINAL_ALPHA if self.original else float(self._temperature(state))
        factor = self.reward_scale * (statistics.reward_factor if statistics else 1.0)
        normaliser = statistics.normaliser if statistics else None
        calls, episodes = 0, 0
        expected, found = list[float](), list[float]()
        while len(found) < PAIRS:
            seen: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # action, log π and Q of every step

            def act(obs: np.ndarray, seen: list[Any] = seen, calls: int = calls) -> np.ndarray:
                sampled = self._sample(state, observed(obs, normaliser), step, calls + len(seen))
                seen.append(jax.device_get(sampled))
                return np.asarray(seen[-1][0])

            played = self.evaluator(act, episodes, halt)
            if played is None:
                return None
            for env, (rewards, start) in enumerate(zip(played.rewards, played.starts, strict=True)):
                its = seen[start : start + len(rewards)]
                log_probs = [float(log_prob[env]) for _, log_prob, _ in its]
                expected += [float(q[env]) for _, _, q in its[:PER_EPISODE]]
                scaled = [factor * reward for reward in rewards]
                found += soft_returns(scaled, log_probs, alpha, self.gamma)[:PER_EPISODE]
            calls, episodes = calls + len(seen), episodes + EPISODES
        bias, size = np.subtract(expected, found), float(abs(np.mean(found)))
        scale = max(size, ORIGINAL_FLOOR) if self.original else size
        with np.errstate(divide="ignore", invalid="ignore"):  # without any reward the bias is NaN or infinite
            return {"bias": float(bias.mean() / scale), "bias_sd": float(sample_sd(bias) / scale)}

    def close(self) -> None:
        """Close the environments."""
        self.evaluator.close()


def diagnostics(
    algorithm: Algorithm[Any], name: str
) -> tuple[Callable[..., Array], Callable[..., tuple[Array, Array]]]:
    """Return ``q_values`` and ``policy_sample`` of an algorithm, or raise an error if it does not offer them."""
    if algorithm.q_values is None or algorithm.policy_sample is None:
        raise SmrlError(
            f"the algorithm {name} offers no q_values and policy_sample, from which the estimation bias and TD errors "
            "are computed; add both to it (docs/extend.md), or do without these measurements (--bias-every)."
        )
    return algorithm.q_values, algorithm.policy_sample
