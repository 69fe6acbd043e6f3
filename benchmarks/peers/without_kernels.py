"""smrl without its C++ kernels: XLA computes everything."""

import os
from collections.abc import Callable

from benchmarks import ours
from smrl import runtime
from smrl.kernels import library


def learning(name: str, reuse: int) -> Callable[[], None]:
    """A call that learns the steps of a case."""
    os.environ[library.SWITCH] = "xla"
    runtime.start()
    return ours.learning(ours.CASES[name], reuse)
