"""Compiled programs that outlive a process: JAX's compilation cache, in the user's cache directory.

What a program computes does not depend on the cache: its folder is that of one version, kind of processor and number of
threads, and JAX's key is the program itself. JAX writes an entry in place, so a killed process may leave half of one.
Therefore every process works on links to whole entries, and adds new ones by renaming them.
"""

import atexit
import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

import jax

from smrl.machine import cache_directory

DIRECTORY = "jax_compilation_cache_dir"
SWITCHES = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    # XLA's caches for GPUs would lie in the process's folder, whose name would enter the key of every program.
    "jax_persistent_cache_enable_xla_caches": "none",
}
STAGING = "process-"
ABANDONED_SECONDS = 30 * 24 * 3600  # since when the folder of a process is taken for that of a dead one


def remember(*facts: object) -> None:
    """Keep compiled programs for later processes with the same facts, unless the user told JAX where to, or not to."""
    if getattr(jax.config, DIRECTORY) or not getattr(jax.config, "jax_enable_compilation_cache"):  # noqa: B009
        return
    name = hashlib.sha256(repr((jax.__version__, *facts)).encode()).hexdigest()[:16]
    # Without a place that can be written to, or a home, every process compiles for itself.
    with contextlib.suppress(OSError, RuntimeError):
        shared = cache_directory() / "compiled" / name
        staging = linked(shared)
        atexit.register(publish, staging, shared)
        for switch, value in (SWITCHES | {DIRECTORY: str(staging)}).items():
            jax.config.update(switch, value)


def linked(shared: Path) -> Path:
    """A folder for this process, with a link to every entry, or a copy where the file system has no links."""
    shared.mkdir(parents=True, exist_ok=True)
    for folder in shared.glob(f"{STAGING}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(folder)
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=shared))
    for entry in shared.iterdir():
        if entry.is_file():
            try:
                os.link(entry, staging / entry.name)
            except OSError:
                shutil.copy(entry, staging)
    return staging


def publish(staging: Path, shared: Path) -> None:
    """Add the new entries of a process; each appears whole or not at all."""
    with contextlib.suppress(OSError):
        for entry in staging.iterdir():
            if not (shared / entry.name).exists():
                entry.replace(shared / entry.name)
        shutil.rmtree(staging)
