"""The one kind of standard deviation that smrl reports. Needs no JAX."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def sample_sd(values: ArrayLike) -> NDArray[np.float64]:
    """Sample standard deviation (n − 1) over the first axis; NaN for a single value, of which no spread is known.

    >>> float(sample_sd([1.0, 3.0, 5.0])), float(sample_sd([4.0]))
    (2.0, nan)
    """
    array = np.asarray(values, np.float64)
    return np.std(array, axis=0, ddof=1) if len(array) > 1 else np.full(array.shape[1:], np.nan)
