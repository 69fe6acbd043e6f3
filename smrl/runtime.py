"""How JAX runs in processes that train: threads, dispatch, memory allocator and the cache of compiled programs.

Only the command line, worker processes and `smrl.train` call `start`: it changes the whole process.
"""

import atexit
import contextlib
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from smrl.errors import SmrlError, require
from smrl.kernels import library
from smrl.machine import MAX_THREADS, THREADS, cache_directory, exposure, instruction_sets, processor, threads

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
PACKAGES = ("smrl", "jax", "jaxlib", "flax", "optax", "gymnasium", "mujoco", "numpy")

CACHE_FOLDER = "jax_compilation_cache_dir"
CACHE_SWITCHES = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    # XLA's caches for GPUs would be in the process's folder, whose name would enter the key of every program.
    "jax_persistent_cache_enable_xla_caches": "none",
}
STAGING = "process-"
ABANDONED_SECONDS = 30 * 24 * 3600  # age at which a process's folder is taken to be left over from a killed process


def start(wanted: int | None = None) -> None:
    """Make JAX compute with this number of threads, in the caller's thread; by default SMRL_THREADS, or one per core.

    The last bits of a result depend on the number of threads. The C++ kernels, where there are any, share the threads
    among themselves, and XLA has one, because its idle threads would keep the kernels' from the cores. JAX's default
    of computing in another thread takes longer to hand over a batch of ten observations than to choose their actions.
    """
    has_64_bits = getattr(jax.config, "jax_enable_x64")  # noqa: B009  # unknown to type checkers
    require(not has_64_bits, "smrl computes in float32, but JAX's 64-bit types are enabled; unset JAX_ENABLE_X64.")
    wanted = wanted or threads()
    require(1 <= wanted <= MAX_THREADS, f"cannot compute with {wanted} threads; give a number from 1 to {MAX_THREADS}.")
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
    keep_compiled_programs(processor(), instruction_sets(), os.environ[XLA_THREADS])


def platform_facts() -> dict[str, Any]:
    """Return what config.json records of the software and the machine, because results may depend on it. Starts JAX."""
    return {
        "versions": _versions() | {"python": platform.python_version()},
        "switches": switches(),
        "cpu": processor(),
        "backend": jax.default_backend(),
        "machine": f"{platform.machine()} {platform.system()}",
        "git_commit": _git_commit(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):  # MuJoCo is an extra
            found[name] = version(name)
    return found


def switches() -> dict[str, str]:
    """Return the switches of JAX, XLA and the kernels that change results, if only in their last bits."""
    variables = {name: os.environ.get(name) or "not set" for name in VARIABLES}
    variables[library.SWITCH] = "native" if library.is_available() else "xla"
    return variables | {name: str(getattr(jax.config, name)) for name in SWITCHES if hasattr(jax.config, name)}


def _git_commit() -> str | None:
    """Return the commit of this package's source, if it is run from a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def _keep_freed_memory() -> None:
    """Keep glibc, where it is the C library, from returning freed memory to the system.

    XLA allocates the temporary arrays of an update in every call. If hundreds of megabytes of them went back to the
    system, they would be cleared page by page each time, which takes up to a fifth of an update from images. All
    threads share one arena, because glibc unmaps the empty arenas of other threads.
    """
    trim_threshold, mmap_max, arena_max = -1, -4, -8  # M_TRIM_THRESHOLD, M_MMAP_MAX and M_ARENA_MAX of malloc.h
    with contextlib.suppress(AttributeError, OSError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(mmap_max, 0)
        libc.mallopt(arena_max, 1)
        libc.mallopt(trim_threshold, -1)  # never


def _has_started() -> bool:
    """Return whether JAX has started: from then on it refuses to change the number of its CPU devices."""
    before: int = getattr(jax.config, "jax_num_cpu_devices")  # noqa: B009  # unknown to type checkers
    try:
        jax.config.update("jax_num_cpu_devices", before + 2)
    except RuntimeError:
        return True
    jax.config.update("jax_num_cpu_devices", before)
    return False


def keep_compiled_programs(*facts: object) -> None:
    """Keep compiled programs in the user's cache directory, for later processes with the same facts.

    The cache does not change results: a folder belongs to one version of JAX, kind of processor and number of threads,
    and JAX's key is the program itself. JAX writes entries in place, so a killed process may leave a truncated one.
    Each process therefore works in its own folder of links, and renames new entries into the shared folder at its end.
    Where the user has configured JAX's cache, or switched it off, nothing is changed.
    """
    if getattr(jax.config, CACHE_FOLDER) or not getattr(jax.config, "jax_enable_compilation_cache"):  # noqa: B009
        return
    name = hashlib.sha256(repr((jax.__version__, *facts)).encode()).hexdigest()[:16]
    with contextlib.suppress(OSError):
        shared = cache_directory() / "compiled" / name
        staging = stage_programs(shared)
        atexit.register(publish_programs, staging, shared)
        for switch, value in (CACHE_SWITCHES | {CACHE_FOLDER: str(staging)}).items():
            jax.config.update(switch, value)


def stage_programs(shared: Path) -> Path:
    """Make a folder for this process with a link to every entry, or a copy where the file system has no links.

    Entries are programs: those that other users could replace, or have written, are left out.
    """
    shared.mkdir(parents=True, exist_ok=True)
    for folder in shared.glob(f"{STAGING}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(folder)
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=shared))
    for entry in shared.iterdir():
        if entry.is_file() and exposure(entry) is None:
            try:
                os.link(entry, staging / entry.name)
            except OSError:
                shutil.copy(entry, staging)
    return staging


def publish_programs(staging: Path, shared: Path) -> None:
    """Add the new entries of a process to the shared folder, each by an atomic rename."""
    with contextlib.suppress(OSError):
        for entry in staging.iterdir():
            if not (shared / entry.name).exists():
                entry.replace(shared / entry.name)
        shutil.rmtree(staging)
