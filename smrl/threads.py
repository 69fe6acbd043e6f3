"""How many threads XLA computes with: it must be said before JAX starts, and the last bits depend on it."""

import os

from jax._src import xla_bridge

from smrl.errors import SmrlError

VARIABLE = "PJRT_NPROC"


def in_force() -> int:
    """The number of threads that XLA has, or would have if it started now."""
    return int(os.environ.get(VARIABLE) or len(os.sched_getaffinity(0)))


def use(threads: int) -> None:
    """Make XLA compute with so many threads."""
    if threads == in_force():
        return
    if xla_bridge.backends_are_initialized():
        raise SmrlError(
            f"this needs {threads} thread(s), but JAX runs with {in_force()} in this process already; "
            f"start a new process with {VARIABLE}={threads} in its environment."
        )
    os.environ[VARIABLE] = str(threads)
