"""The machine that this process runs on: its cores, its processor and its cache directory. Imports no JAX."""

import atexit
import contextlib
import functools
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import warnings
from pathlib import Path

from smrl.errors import require

THREADS = "SMRL_THREADS"
MAX_THREADS = 1024


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Return the number of threads to compute with: SMRL_THREADS, or one per core."""
    text = os.environ.get(THREADS) or str(min(cores(), MAX_THREADS))
    is_count = text.isascii() and text.isdecimal() and len(text) < 9 and 1 <= int(text) <= MAX_THREADS
    advice = f"unset it, or give a whole number from 1 to {MAX_THREADS}."
    require(is_count, f"{THREADS}={text[:40]} in the environment is not a number of threads; {advice}")
    return int(text)


def processor() -> str:
    """Return the processor's model and its widest vector instructions, on which the last bits of results depend."""
    widest = next((name for name in ("avx512f", "avx2", "avx") if name in instruction_sets().split()), "")
    model = _cpu_fact("model name") or platform.processor() or platform.machine()
    return " ".join(filter(None, (model, widest)))


def instruction_sets() -> str:
    """Return the processor's instruction sets and features, if the system lists them; compiled code may need any."""
    return _cpu_fact("flags|Features")


def _cpu_fact(name: str) -> str:
    try:
        found = re.search(rf"^(?:{name})\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return ""
    return found[1].strip() if found else ""


def cache_directory() -> Path:
    """Return a folder for files that can be made again, to which only this user can write.

    Programs are loaded from it. Where other users could replace files in the user's cache directory, and where it is
    not writable, this is a temporary folder that lasts as long as the process.
    """
    try:
        if sys.platform == "darwin":
            wanted = Path.home() / "Library" / "Caches"
        else:
            wanted = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as failure:
        return _temporary_cache(str(failure))
    return _private_cache(wanted / "smrl")


@functools.cache
def _private_cache(wanted: Path) -> Path:
    try:
        folder = wanted.resolve()
        for part in (*reversed(folder.parents), folder):
            if not part.exists():
                part.mkdir(mode=0o700)
        problem = exposure(folder)
        if problem is None:
            folder.chmod(0o700)
            if os.access(folder, os.W_OK):
                return folder
            problem = f"{folder} is not writable"
    except (OSError, RuntimeError) as failure:
        problem = str(failure)
    return _temporary_cache(problem)


@functools.cache
def _temporary_cache(problem: str) -> Path:
    folder = tempfile.mkdtemp(prefix="smrl-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    warnings.warn(
        f"{problem}; smrl compiles into a temporary folder, again in every process. "
        "Correct this, or set XDG_CACHE_HOME to a folder that only you can write to.",
        stacklevel=2,
    )
    return Path(folder)


def exposure(path: Path) -> str | None:
    """Return how other users could replace this file or folder, or None if they cannot.

    Everything from the user's home, or else from the root, down to it must belong to the user or to root, and must not
    be writable by others, unless they cannot enter a folder above it. In a folder with the sticky bit, such as /tmp,
    users cannot replace each other's files.
    """
    if sys.platform == "win32":
        return None
    parts, is_closed = [path, *path.parents], False
    with contextlib.suppress(RuntimeError, ValueError):  # there is no home, or the path is elsewhere
        parts = parts[: parts.index(Path.home().resolve()) + 1]
    for part in reversed(parts):
        facts = part.stat()
        if facts.st_uid not in (0, os.getuid()):
            return f"{part} belongs to another user"
        is_sticky = part != path and facts.st_mode & stat.S_ISVTX
        if facts.st_mode & 0o022 and not is_sticky and not is_closed:
            return f"{part} can be written to by other users (chmod go-w prevents that)"
        is_closed |= stat.S_ISDIR(facts.st_mode) and not facts.st_mode & 0o011
    return None
