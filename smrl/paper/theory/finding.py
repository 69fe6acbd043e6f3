"""What a numerical check returns, and rates and limits fitted to measured errors with 99 % intervals."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Z99 = 2.576  # two-sided 99 % quantile of the normal distribution
POWERS = np.linspace(0.1, 1.2, 56)  # candidates for p in e∞ + c·T^-p


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a figure, with an optional band."""

    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None


@dataclass(frozen=True, eq=False)
class Finding:
    """A statement, what was measured, whether the statement holds, and the lines of its figure."""

    statement: str
    measured: str
    holds: bool
    lines: tuple[Line, ...] = ()

    @property
    def verdict(self) -> str:
        """``holds`` or ``does not hold``."""
        return "holds" if self.holds else "does not hold"


def gap(size: float, tolerance: float) -> str:
    """Format a difference; below the tolerance it is rounding, which differs between machines and is not shown.

    >>> gap(3.6e-15, 1e-11), gap(0.219, 1e-11)
    ('below 1e-11', '0.219')
    """
    return f"below {tolerance:.0e}" if size < tolerance else f"{size:.3g}"


@dataclass(frozen=True)
class Interval:
    """An estimate with its 99 % confidence interval."""

    value: float
    low: float
    high: float

    def text(self, digits: int = 2) -> str:
        """Format the estimate with its interval in brackets.

        >>> Interval(0.5, -1, 2).text()
        '0.50 [-1.00, 2.00]'
        """
        return f"{self.value:z.{digits}f} [{self.low:z.{digits}f}, {self.high:z.{digits}f}]"


def slope(x: Floats, errors: Floats) -> Interval:
    """Return the mean slope of log error over log x; the errors are (len(x), runs)."""
    centred = np.log(x) - np.log(x).mean()
    each = centred @ np.log(errors) / (centred @ centred)
    mean, half = float(each.mean()), float(Z99 * each.std(ddof=1) / np.sqrt(len(each)))
    return Interval(mean, mean - half, mean + half)


def line(name: str, x: Floats, errors: Floats) -> Line:
    """Return the mean over the runs with its 99 % confidence interval."""
    mean, half = errors.mean(1), Z99 * errors.std(1, ddof=1) / np.sqrt(errors.shape[1])
    return Line(name, x, mean, mean - half, mean + half)


def bootstrap(
    statistic: Callable[[Floats], float], errors: Floats, rng: np.random.Generator, draws: int = 400
) -> Interval:
    """Return a statistic of errors (…, runs); complete runs are resampled because errors along a run are correlated."""
    runs = errors.shape[-1]
    found = [statistic(errors[..., rng.integers(runs, size=runs)]) for _ in range(draws)]
    low, high = np.quantile(found, [0.005, 0.995])
    return Interval(statistic(errors), float(low), float(high))


def limit(x: Floats, mean: Floats) -> float:
    """Return e∞ ≥ 0 of the least-squares fit e∞ + c·x^-p to mean errors, with relative deviations."""
    powers = (x / x[0]) ** -POWERS[:, None] / mean
    # for each p a linear problem in e∞ and c; where its e∞ is negative, c alone is fitted
    design = np.stack([np.broadcast_to(1 / mean, powers.shape), powers], -1)
    solved = np.linalg.pinv(design).sum(-1)
    alone = np.stack([np.zeros(len(powers)), powers.sum(1) / np.square(powers).sum(1)], -1)
    solved = np.where(solved[:, :1] < 0, alone, solved)
    missed = np.square(np.einsum("pxc,pc->px", design, solved) - 1).sum(1)
    return float(solved[missed.argmin(), 0])
