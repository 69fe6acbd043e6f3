"""The pool of threads, tested by a C++ program."""

import os
import shutil
import subprocess
from pathlib import Path

import jax
import pytest

from smrl.kernels import library

DRIVER = Path(__file__).parent / "pool_driver.cc"


def run_driver(folder: Path, *options: str) -> None:
    """Compile the program with these options and run it, with threads that spin and with threads that sleep at once."""
    compiler = os.environ.get("CXX", "").split() or [shutil.which("g++") or shutil.which("c++") or ""]
    program, sources = str(folder / "driver"), [str(DRIVER), str(library.NATIVE / "pool.cc")]
    flags = ["-std=c++20", "-O1", "-pthread", *library.WARNINGS, "-Werror", f"-I{jax.ffi.include_dir()}"]
    command = [*compiler, *options, *flags, f"-I{library.NATIVE}", "-o", program, *sources]
    subprocess.run(command, check=True)
    for spin in ("500", "0"):
        ended = subprocess.run([program, spin], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr


@pytest.mark.usefixtures("kernels")
def test_pool(tmp_path: Path) -> None:
    run_driver(tmp_path)
