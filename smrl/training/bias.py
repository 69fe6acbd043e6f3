"""Estimation bias of the critics: their values of the policy against the returns that it then gets.

    G_t = r_t + γ (G_{t+1} − α log π(a_{t+1}|s_{t+1})), the last G being the last reward: no bootstrap at the time limit
    bias = Q(s_t, a_t) − G_t, reported as its mean and sample standard deviation (n − 1) over |mean G|

This is the paper's study of overfitting, by the procedure of REDQ's authors: whole episodes of the policy that Q is
the value of, of each the first 350 pairs, until there are 1,000 pairs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from smrl.envs.environment import Environment
from smrl.randomness import Purpose, at, key
from smrl.settings import Settings
from smrl.statistics import sample_sd
from smrl.training.acting import Reader
from smrl.training.evaluator import Evaluator, logger
from smrl.types import Appraisal, State

PAIRS, PER_EPISODE = 1_000, 350
EPISODES = -(-PAIRS // PER_EPISODE)  # at once
ORIGINAL_ALPHA, ORIGINAL_FLOOR = 0.2, 10.0


def soft_returns(rewards: Sequence[float], log_probs: Sequence[float], alpha: float, gamma: float) -> list[float]:
    """G of every step of an episode.

    >>> soft_returns([1.0, 1.0], [0.0, -2.0], alpha=0.5, gamma=0.5)
    [2.0, 1.0]
    """
    returns, following = [], 0.0
    for reward, log_prob in zip(reversed(rewards), reversed(log_probs), strict=True):
        returns.append(reward + gamma * following)
        following = returns[-1] - alpha * log_prob
    return returns[::-1]


class Bias:
    """Measures the bias of a state, always from the same starts."""

    def __init__(
        self,
        settings: Settings[Any],
        appraise: Callable[[State, Any, Any], Appraisal],
        template: State,
        make_env: Callable[[], Environment],
        notify: Callable[[str], None] = logger.warning,
    ) -> None:
        self.gamma, self.original, self.reward_scale = settings.gamma, settings.bias_original, settings.reward_scale
        self.evaluator = Evaluator(make_env, EPISODES, settings.seed, Purpose.BIAS, notify)
        root = key(settings.seed, Purpose.BIAS)
        obs = self.evaluator.envs[0].spec.example().obs
        self._appraise = Reader(
            lambda state, obs, step, call: appraise(state, obs, at(at(root, step), call)), template, obs, 0, 0
        )

    def __call__(self, state: Any, step: int, halt: Callable[[], bool] = lambda: False) -> dict[str, float] | None:
        """The normalised bias; by the original rule α is 0.2, and |mean G| at least 10. None if ``halt`` says so."""
        appraise, calls, episodes = self._appraise.bind(state), 0, 0
        expected, found = list[float](), list[float]()
        while len(found) < PAIRS:
            seen: list[Appraisal] = []

            def act(obs: np.ndarray, seen: list[Appraisal] = seen, calls: int = calls) -> np.ndarray:
                seen.append(jax.device_get(appraise(obs, step, calls + len(seen))))
                return np.asarray(seen[-1].action)

            played = self.evaluator(act, episodes, halt)
            if played is None:
                return None
            alpha = ORIGINAL_ALPHA if self.original else float(seen[0].alpha)
            for env, rewards in enumerate(played.rewards):
                moments = seen[: len(rewards)]
                log_probs = [float(moment.log_prob[env]) for moment in moments]
                expected += [float(moment.q[env]) for moment in moments[:PER_EPISODE]]
                scaled = [self.reward_scale * reward for reward in rewards]
                found += soft_returns(scaled, log_probs, alpha, self.gamma)[:PER_EPISODE]
            calls, episodes = calls + len(seen), episodes + EPISODES
        bias, size = np.subtract(expected, found), float(abs(np.mean(found)))
        scale = max(size, ORIGINAL_FLOOR) if self.original else size
        with np.errstate(divide="ignore", invalid="ignore"):  # without any reward there is nothing to compare with
            return {"bias": float(bias.mean() / scale), "bias_sd": float(sample_sd(bias) / scale)}

    def close(self) -> None:
        """Close the environments."""
        self.evaluator.close()
