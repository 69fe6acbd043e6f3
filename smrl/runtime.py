"""How JAX runs here: its threads, its dispatch and its kernels. Threads and dispatch must be set before it starts."""

import contextlib
import ctypes
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from smrl import compiled
from smrl.errors import SmrlError
from smrl.kernels import library
from smrl.machine import THREADS, processor, threads

XLA_THREADS = "PJRT_NPROC"
VARIABLES = ("XLA_FLAGS", "NVIDIA_TF32_OVERRIDE")
SWITCHES = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    "jax_random_seed_offset",
    "jax_threefry_partitionable",
)


def start(wanted: int | None = None) -> None:
    """Make JAX compute with so many threads, in the caller's thread.

    Where there are C++ kernels, they share the threads out, and XLA has one: its idle ones would keep the kernels' from
    the cores. XLA's last bits depend on its number of threads. Computing in another thread than the caller's, JAX's
    default on CPUs, takes longer to hand over a batch of ten observations than to choose their actions.
    """
    wanted = wanted or threads()
    if _has_started():
        if wanted != threads():
            raise SmrlError(
                f"this needs {wanted} thread(s), but JAX runs with {threads()} in this process already; "
                f"start a new process with {THREADS}={wanted} in its environment."
            )
        return
    os.environ[THREADS] = str(wanted)
    os.environ[XLA_THREADS] = str(wanted if library.load() is None else 1)
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    _keep_freed_memory()
    compiled.remember(processor(), os.environ[XLA_THREADS])


def backend() -> str:
    """What JAX computes on: cpu, gpu or tpu. This starts JAX."""
    return jax.default_backend()


def switches() -> dict[str, str]:
    """Switches that change the last bits of a result, or all of them: of JAX, of XLA, and the kernels that compute."""
    variables = {name: os.environ.get(name) or "not set" for name in VARIABLES}
    variables[library.SWITCH] = "native" if library.is_available() else "xla"
    return variables | {name: str(getattr(jax.config, name)) for name in SWITCHES if hasattr(jax.config, name)}


def platform_facts() -> dict[str, Any]:
    """Return what config.json records about the platform: versions, switches, processor and source. This starts JAX."""
    packages = ("smrl", "jax", "jaxlib", "flax", "optax", "gymnasium", "mujoco", "numpy")
    return {
        "versions": {name: version(name) for name in packages} | {"python": platform.python_version()},
        "switches": switches(),
        "cpu": processor(),
        "backend": backend(),
        "machine": f"{platform.machine()} {platform.system()}",
        "git_commit": _git_commit(),
    }


def _git_commit() -> str | None:
    """Return the commit of this package's source, if it is run from a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def _keep_freed_memory() -> None:
    """Tell the C library not to return freed memory to the system, where it is glibc.

    XLA allocates the temporary arrays of an update anew in every call. Returned to the system, hundreds of megabytes of
    them are cleared page by page each time: up to a fifth of an update from images. All threads share one arena, for
    glibc unmaps those of other threads when they are empty.
    """
    trim_threshold, mmap_max, arena_max = -1, -4, -8  # M_TRIM_THRESHOLD, M_MMAP_MAX and M_ARENA_MAX of malloc.h
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(mmap_max, 0)
        library.mallopt(arena_max, 1)
        library.mallopt(trim_threshold, -1)  # never


def _has_started() -> bool:
    """Whether JAX has started: from then on it refuses to change the number of its CPU devices."""
    before: int = getattr(jax.config, "jax_num_cpu_devices")  # noqa: B009  # unknown to type checkers
    try:
        jax.config.update("jax_num_cpu_devices", before + 2)
    except RuntimeError:
        return True
    jax.config.update("jax_num_cpu_devices", before)
    return False
