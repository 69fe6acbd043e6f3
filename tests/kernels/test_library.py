"""The library of kernels: where it is kept, and what happens without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from smrl.kernels import library

pytestmark = pytest.mark.skipif(not library.is_available(), reason="there is no C++ compiler, or no CPU")
PROGRAM = """
import sys
from smrl.kernels import library
print(library.is_available())
"""


def available(*options: str, **variables: str) -> tuple[bool, str]:
    """Whether a new process can call the kernels, and what it complains about."""
    command = [sys.executable, *options, "-c", PROGRAM]
    ended = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip() == "True", ended.stderr


def test_the_library_is_kept_for_later_processes(tmp_path: Path) -> None:
    assert available("-W", "error", XDG_CACHE_HOME=str(tmp_path))[0]
    (kept,) = (tmp_path / "smrl" / "kernels").iterdir()
    before = kept.stat().st_mtime_ns
    assert available("-W", "error", XDG_CACHE_HOME=str(tmp_path))[0]
    assert kept.stat().st_mtime_ns == before


def test_a_place_that_cannot_be_written_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert available("-W", "error", XDG_CACHE_HOME=str(tmp_path / "file"))[0]


def test_without_a_working_compiler_xla_computes_all(tmp_path: Path) -> None:
    is_available, complaint = available(XDG_CACHE_HOME=str(tmp_path), CXX="no-such-compiler")
    assert not is_available
    assert "XLA computes all, more slowly" in complaint
    assert not any((tmp_path / "smrl" / "kernels").iterdir()), "nothing is left behind"


def test_the_user_can_leave_all_to_xla() -> None:
    assert available("-W", "error", SMRL_KERNELS="xla") == (False, "")
