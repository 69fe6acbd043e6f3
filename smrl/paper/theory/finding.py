"""What a numerical check of a statement returns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    """A difference as text; below the tolerance it is rounding, which differs between machines and is not shown.

    >>> gap(3.6e-15, 1e-11), gap(0.219, 1e-11)
    ('below 1e-11', '0.219')
    """
    return f"below {tolerance:.0e}" if size < tolerance else f"{size:.3g}"
