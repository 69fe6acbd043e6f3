"""Statistics over seeds as pure functions of NumPy arrays. Needs no JAX.

``scores`` have the shape (…, seeds, tasks), one number per run: the bootstrap adds its resamples as an axis in front.
A learning curve is ``steps`` of shape (steps,) and ``returns`` of shape (…, steps). NaN means unknown or never reached.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smrl.errors import require

Array = NDArray[np.float64]
RESAMPLES = 2_000  # of a bootstrap


class Interval(NamedTuple):
    """A statistic with its interval; low and high are NaN where a task has only one seed."""

    value: Array
    low: Array
    high: Array


def sample_sd(values: ArrayLike) -> Array:
    """Return the sample standard deviation (n − 1) over the first axis; NaN for a single value.

    >>> float(sample_sd([1.0, 3.0, 5.0])), float(sample_sd([4.0]))
    (2.0, nan)
    """
    array = np.asarray(values, np.float64)
    return np.std(array, axis=0, ddof=1) if len(array) > 1 else np.full(array.shape[1:], np.nan)


def mean_sd(values: ArrayLike) -> tuple[Array, Array]:
    """Return the mean and the sample standard deviation over the first axis."""
    return np.mean(np.asarray(values, np.float64), axis=0), sample_sd(values)


def iqm(scores: ArrayLike) -> Array:
    """Return the interquartile mean of all n runs of all tasks, without the ⌊n/4⌋ lowest and the ⌊n/4⌋ highest.

    `scipy.stats.trim_mean` agrees up to rounding, but importing it takes longer than everything else in a report.

    >>> float(iqm([[0.0], [1.0], [3.0], [100.0]]))
    2.0
    """
    array = np.asarray(scores, np.float64)
    runs = np.sort(array.reshape(*array.shape[:-2], -1), axis=-1)
    cut = runs.shape[-1] // 4
    return np.mean(runs[..., cut : runs.shape[-1] - cut], axis=-1)


def optimality_gap(scores: ArrayLike, goal: float = 1.0) -> Array:
    """Return how far runs fall short of the goal on average; runs above the goal do not compensate for others.

    >>> float(optimality_gap([[0.5, 2.0]]))
    0.25
    """
    return goal - np.mean(np.minimum(np.asarray(scores, np.float64), goal), axis=(-2, -1))


def probability_of_improvement(scores: ArrayLike, baseline: ArrayLike) -> Array:
    """Return the probability that a run beats a baseline run on the same task, averaged over tasks; ties count half.

    >>> float(probability_of_improvement([[1.0], [3.0]], [[1.0], [2.0]]))
    0.625
    """
    ours, theirs = np.asarray(scores, np.float64), np.asarray(baseline, np.float64)
    difference = ours[..., :, None, :] - theirs[..., None, :, :]
    return np.mean(0.5 * (np.sign(difference) + 1), axis=(-3, -2, -1))


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> Array:
    """Return the fraction of runs with a score above each threshold.

    >>> performance_profile([[0.2, 0.9]], [0.0, 0.5, 0.9]).tolist()
    [1.0, 0.5, 0.0]
    """
    array = np.asarray(scores, np.float64)[..., None]
    return np.mean(array > np.asarray(thresholds, np.float64), axis=(-3, -2))


def bootstrap_interval(
    statistic: Callable[..., Array], *scores: ArrayLike, seed: int = 0, resamples: int = RESAMPLES, level: float = 0.95
) -> Interval:
    """Return a statistic of one or more score tables with its percentile interval by the stratified bootstrap.

    Seeds are resampled within each task and independently for each table, which `scipy.stats.bootstrap` cannot do.
    Episodes are not resampled.
    """
    arrays = [np.asarray(array, np.float64) for array in scores]
    require(
        bool(arrays) and all(array.ndim == 2 and array.size for array in arrays),
        "scores must be a table of seeds × tasks with at least one of each.",
    )
    value = np.asarray(statistic(*arrays), np.float64)
    if min(len(array) for array in arrays) < 2:  # resampling a single seed would suggest that there is no spread
        unknown = np.full_like(value, np.nan)
        return Interval(value, unknown, unknown)
    generator = np.random.default_rng(seed)
    drawn = [
        np.take_along_axis(array[None], generator.integers(len(array), size=(resamples, *array.shape)), axis=1)
        for array in arrays
    ]
    low, high = np.quantile(statistic(*drawn), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Interval(value, np.asarray(low), np.asarray(high))


def steps_to(score: float, steps: ArrayLike, returns: ArrayLike) -> Array:
    """Return the first step at which each curve reached the score; NaN where it never did.

    >>> steps_to(3.0, [10, 20, 30], [[1.0, 3.0, 2.0], [0.0, 1.0, 2.0]]).tolist()
    [20.0, nan]
    """
    reached = np.asarray(returns, np.float64) >= score
    first = np.asarray(steps, np.float64)[np.argmax(reached, axis=-1)]
    return np.where(reached.any(axis=-1), first, np.nan)


def return_at(step: float, steps: ArrayLike, returns: ArrayLike) -> Array:
    """Interpolate each curve linearly at a step; NaN before the first evaluation and after the last.

    >>> return_at(15, [10, 20], [[1.0, 3.0], [0.0, 1.0]]).tolist()
    [2.0, 0.5]
    """
    axis, values = np.asarray(steps, np.float64), np.asarray(returns, np.float64)
    if not axis[0] <= step <= axis[-1]:
        return np.full(values.shape[:-1], np.nan)
    right = int(np.searchsorted(axis, step))
    left = max(right - 1, 0)
    weight = (step - axis[left]) / (axis[right] - axis[left]) if right else 0.0
    return np.asarray((1 - weight) * values[..., left] + weight * values[..., right])


def area_under_curve(steps: ArrayLike, returns: ArrayLike) -> Array:
    """Return the trapezoidal area under each curve divided by its length in steps: the mean return over training.

    >>> float(area_under_curve([10, 20, 40], [0.0, 2.0, 2.0])), float(area_under_curve([10], [4.0]))
    (1.6666666666666667, 4.0)
    """
    axis, values = np.asarray(steps, np.float64), np.asarray(returns, np.float64)
    if len(axis) == 1:
        return values[..., 0]
    return np.asarray(np.trapezoid(values, axis, axis=-1)) / (axis[-1] - axis[0])
