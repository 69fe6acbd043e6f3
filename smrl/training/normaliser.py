"""Normalisation of observations and rewards by running statistics, in float64 on the host.

    observation ← clip((observation − μ) / sqrt(σ² + ε), ±10), μ and σ² of the observations acted on so far
    reward ← reward / sqrt(var(R) + ε), where R ← γR + r in each environment, from 0 in each episode

Means and variances are updated by the round of all environments (Chan, Golub and LeVeque 1979, "Updating formulae and a
pairwise algorithm for computing sample variances"), so they do not depend on a batch or on what the replay memory still
holds. R, the division without centring and ε are those of gymnasium.wrappers.NormalizeReward, as in XQC (Palenicek et
al. 2025) and, with a bound, in SimbaV2 (Lee et al. 2025); the clip at 10 is that of OpenAI Baselines and
Stable-Baselines3's VecNormalize. What has not varied so far is divided by 1, so that its first change is not 10⁴ times
as large as it was.

The replay memory keeps observations and rewards as they were: a batch is normalised when it is drawn, by the statistics
of that moment.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from smrl.errors import SmrlError, require
from smrl.settings import Settings
from smrl.types import Spec, Transition

CLIP = 10.0
EPSILON = 1e-8
RUNNING = "statistics.running"  # the name in checkpoints of R of each environment

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Normaliser:
    """The mapping of observations at one moment, in float32 as the observations are."""

    mean: np.ndarray
    scale: np.ndarray

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Normalise observations with any leading axes."""
        with np.errstate(over="ignore"):  # what overflows is clipped
            return np.clip((obs - self.mean) * self.scale, -CLIP, CLIP)

    def arrays(self) -> Arrays:
        """Return the arrays to save with the best policy."""
        return {f"best.{name}": value for name, value in vars(self).items()}


def observed(obs: np.ndarray, normaliser: Normaliser | None) -> np.ndarray:
    """Return observations as the networks take them."""
    return obs if normaliser is None else normaliser(obs)


@dataclass(frozen=True)
class Moments:
    """Number, mean and sum of squared deviations of the values so far.

    >>> Moments.none(()).merge(np.array([1.0, 2.0])).merge(np.array([6.0])).variance
    np.float64(4.666666666666667)
    """

    count: int
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> "Moments":
        """Return the moments of nothing."""
        return cls(0, np.zeros(shape), np.zeros(shape))

    def merge(self, values: np.ndarray) -> "Moments":
        """Add values, which have one more leading axis."""
        values = np.asarray(values, np.float64)
        mean, count = values.mean(axis=0), self.count + len(values)
        delta = mean - self.mean
        squares = ((values - mean) ** 2).sum(axis=0) + delta**2 * (self.count * len(values) / count)
        return Moments(count, self.mean + delta * (len(values) / count), self.squares + squares)

    @property
    def variance(self) -> np.ndarray:
        """The variance over all values."""
        return self.squares / max(self.count, 1)

    @property
    def scale(self) -> np.ndarray:
        """What to multiply by for a standard deviation of 1; 1 for what has not varied."""
        return np.where(self.squares > 0, 1 / np.sqrt(self.variance + EPSILON), 1.0)

    def arrays(self, name: str) -> Arrays:
        """Return the arrays to save."""
        return {f"{name}.count": np.array(self.count), f"{name}.mean": self.mean, f"{name}.squares": self.squares}

    @classmethod
    def restore(cls, arrays: Arrays, name: str, shape: tuple[int, ...]) -> "Moments":
        """Return the moments that `arrays` saved."""
        mean, squares = (_find(arrays, f"{name}.{part}", shape, np.float64) for part in ("mean", "squares"))
        return cls(int(_find(arrays, f"{name}.count", (), np.int64)), mean, squares)


class Statistics:
    """Running statistics of a run in progress: of its observations, of its returns, or of both."""

    def __init__(self, settings: Settings[Any], spec: Spec) -> None:
        self._shape, self._gamma = spec.obs.shape, settings.gamma
        self._observations = Moments.none(self._shape) if settings.normalise_observations else None
        self._returns = Moments.none(()) if settings.normalise_rewards else None
        self._running = np.zeros(settings.envs)  # R of each environment
        self.normaliser: Normaliser | None = None  # None before the first observation
        self.reward_factor = 1.0

    def update(self, obs: np.ndarray, rewards: np.ndarray, ended: np.ndarray) -> None:
        """Add one round: the observations that all environments acted on, their rewards, and whether episodes ended."""
        if self._observations is not None:
            self._observations = self._observations.merge(obs)
        if self._returns is not None:
            returns = self._gamma * self._running + rewards
            self._returns = self._returns.merge(returns)
            self._running = np.where(ended, 0.0, returns)
        self._derive()

    def cut(self, env: int) -> None:
        """Begin the return of an environment again, whose episode is not continued."""
        self._running[env] = 0.0

    def normalise(self, batch: Transition) -> Transition:
        """Return a batch as the agent learns from it; an n-step reward is a sum and is scaled as a whole."""
        if self.normaliser is not None:
            batch = batch._replace(obs=self.normaliser(batch.obs), next_obs=self.normaliser(batch.next_obs))
        return batch._replace(reward=batch.reward * np.float32(self.reward_factor))

    def arrays(self) -> Arrays:
        """Return the arrays to save."""
        kept = {} if self._observations is None else self._observations.arrays("statistics.observations")
        if self._returns is not None:
            kept |= self._returns.arrays("statistics.returns") | {RUNNING: self._running.copy()}
        return kept

    def restore(self, arrays: Arrays) -> None:
        """Continue from the arrays of a checkpoint."""
        if self._observations is not None:
            self._observations = Moments.restore(arrays, "statistics.observations", self._shape)
        if self._returns is not None:
            self._returns = Moments.restore(arrays, "statistics.returns", ())
            self._running = _find(arrays, RUNNING, self._running.shape, np.float64).copy()
        self._derive()

    def start_from(self, arrays: Arrays) -> None:
        """Begin with the means and variances of another run, whose episodes are not continued."""
        self.restore(arrays | {RUNNING: self._running})

    def _derive(self) -> None:
        seen = self._observations
        if seen is not None and seen.count:
            self.normaliser = Normaliser(seen.mean.astype(np.float32), seen.scale.astype(np.float32))
        if self._returns is not None:
            self.reward_factor = float(self._returns.scale)


def statistics_of(settings: Settings[Any], spec: Spec) -> Statistics | None:
    """Return empty statistics for a run that normalises, None for any other; raise SmrlError if it observes images."""
    require(
        not settings.normalise_observations or spec.obs.dtype == "float32",
        f"{settings.env} observes images, which the networks scale by 255 already: leave --normalise-observations out; "
        "--normalise-rewards works with images.",
    )
    return Statistics(settings, spec) if settings.normalise_observations or settings.normalise_rewards else None


def load_normaliser(settings: Settings[Any], spec: Spec, arrays: Arrays, best: bool = False) -> Normaliser | None:
    """Return the mapping of observations of a checkpoint: of the newest policy or the best; None without any."""
    statistics = statistics_of(settings, spec)
    if statistics is None or not settings.normalise_observations:
        return None
    if not best:
        statistics.restore(arrays)
        return statistics.normaliser
    return Normaliser(*(_find(arrays, f"best.{name}", spec.obs.shape, np.float32) for name in ("mean", "scale")))


def _find(arrays: Arrays, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != dtype:
        raise SmrlError(f"the checkpoint does not hold the statistic {name}; it was written by another version.")
    return arrays[name]
