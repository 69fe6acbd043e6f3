"""The machine that this process runs on: its cores, its processor and its cache directory. Imports no JAX."""

import os
import platform
import re
import sys
from pathlib import Path

from smrl.errors import require

THREADS = "SMRL_THREADS"


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Return the number of threads to compute with: SMRL_THREADS, or one per core."""
    text = os.environ.get(THREADS) or str(cores())
    is_count = text.isascii() and text.isdecimal() and int(text) > 0
    require(is_count, f"{THREADS}={text} in the environment is not a number of threads; unset it, or give at least 1.")
    return int(text)


def processor() -> str:
    """Return the processor's model and its widest vector instructions, on which the last bits of results depend."""
    try:
        facts = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    model = re.search(r"^model name\s*:\s*(.+)$", facts, re.MULTILINE)
    known = re.search(r"^flags\s*:\s*(.+)$", facts, re.MULTILINE)
    flags = set(known[1].split()) if known else set()
    widest = next((name for name in ("avx512f", "avx2", "avx") if name in flags), "")
    return " ".join(filter(None, (model[1].strip() if model else platform.machine(), widest)))


def cache_directory() -> Path:
    """Return the user's folder for files that can be made again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "smrl"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smrl"
