"""How JAX runs here: its threads and its dispatch. Both must be said before it starts."""

import os

import jax
from jax._src import xla_bridge

from smrl.errors import SmrlError

THREADS = "PJRT_NPROC"


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """The number of threads that XLA has, or would have if it started now."""
    return int(os.environ.get(THREADS) or cores())


def start(wanted: int | None = None) -> None:
    """Make XLA compute with so many threads, and at once when it is asked.

    The last bits of a result depend on the number of threads. Computing in another thread than the caller's, JAX's
    default on CPUs, takes longer to hand over a batch of ten observations than to choose their actions.
    """
    wanted = wanted or threads()
    if xla_bridge.backends_are_initialized():
        if wanted != threads():
            raise SmrlError(
                f"this needs {wanted} thread(s), but JAX runs with {threads()} in this process already; "
                f"start a new process with {THREADS}={wanted} in its environment."
            )
        return
    os.environ[THREADS] = str(wanted)
    jax.config.update("jax_cpu_enable_async_dispatch", False)
