"""Format of numbers in figures and tables."""

import math

import numpy as np
from numpy.typing import NDArray

from smrl.statistics import sample_sd


def number(value: float, size: float | None = None) -> str:
    """Format a number with 0 to 2 decimals, fewer for larger numbers; ``size`` decides if given. NaN is written as –.

    >>> number(-1234.5), number(-52.34), number(0.953), number(3.2, size=150), number(math.nan)
    ('−1,234', '−52.3', '0.95', '3', '–')
    """
    if math.isnan(value):
        return "–"
    size = abs(value if size is None else size)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:z,.{digits}f}".replace("-", "−")


def spread(values: NDArray[np.float64]) -> str:
    """Mean ± sample standard deviation (n − 1), which is unknown for a single value.

    >>> spread(np.array([1.0, 3.0])), spread(np.array([-52.34]))
    ('2.00 ± 1.41', '−52.3 ± –')
    """
    mean, sd = float(values.mean()), float(sample_sd(values))
    size = float(np.fmax(abs(mean), sd))  # the mean's alone where the deviation is NaN
    return f"{number(mean, size)} ± {number(sd, size)}"


def printable(text: str) -> str:
    """A text of a run without signs that would steer the terminal.

    >>> printable("a\\x1b[31mb")
    'a�[31mb'
    """
    return "".join(sign if sign.isprintable() else "�" for sign in text)
