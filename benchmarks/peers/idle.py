"""A peer that does nothing, for the test of the harness."""

import time
from collections.abc import Callable
from functools import partial


def rest(seconds: float) -> Callable[[], None]:
    return partial(time.sleep, seconds)
