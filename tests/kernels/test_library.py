"""The library of kernels: its cache, and the fallback to XLA."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("kernels")
PROGRAM = """
from smrl.kernels import library
print(library.is_available())
"""


def available(*options: str, **variables: str) -> tuple[bool, str]:
    """Return whether a new process can call the kernels, and what it writes to stderr."""
    command = [sys.executable, *options, "-c", PROGRAM]
    ended = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip() == "True", ended.stderr


def test_library_is_cached(tmp_path: Path) -> None:
    assert available("-W", "error", XDG_CACHE_HOME=str(tmp_path))[0]
    (kept,) = (tmp_path / "smrl" / "kernels").iterdir()
    before = kept.stat().st_mtime_ns
    assert available("-W", "error", XDG_CACHE_HOME=str(tmp_path))[0]
    assert kept.stat().st_mtime_ns == before


def test_unwritable_cache_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert available("-W", "error", XDG_CACHE_HOME=str(tmp_path / "file"))[0]


def test_fallback_without_a_working_compiler(tmp_path: Path) -> None:
    is_available, warning = available(XDG_CACHE_HOME=str(tmp_path), CXX="no-such-compiler")
    assert not is_available
    assert "could not compile smrl's C++ kernels; falling back to XLA (slower): " in warning
    assert not any((tmp_path / "smrl" / "kernels").iterdir()), "nothing is left behind"


def test_fallback_on_request() -> None:
    assert available("-W", "error", SMRL_KERNELS="xla") == (False, "")
