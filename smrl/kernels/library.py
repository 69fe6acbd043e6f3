"""The library of C++ kernels: compiled at first use, for the processor at hand, and kept in the user's cache directory.

Without a compiler, on a GPU, or with SMRL_KERNELS=xla in the environment, XLA computes everything; last bits differ.
"""

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from smrl.errors import require
from smrl.machine import cache_directory, processor, threads
from smrl.types import Array

SWITCH = "SMRL_KERNELS"
HOME = Path(__file__).parent / "native"
SOURCES = sorted((*HOME.glob("*.cc"), *HOME.glob("*.h")))
FLAGS = ("-std=c++20", "-O3", "-march=native", "-fno-math-errno", "-fPIC", "-pthread")
Results = jax.ShapeDtypeStruct | Sequence[jax.ShapeDtypeStruct]


@functools.cache
def load() -> ctypes.CDLL | None:
    """The library, compiled unless it has been before; None without a compiler, or where the user wants XLA alone."""
    choice = os.environ.get(SWITCH) or "native"
    require(choice in ("native", "xla"), f"{SWITCH}={choice} in the environment is unknown; give native or xla.")
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if choice == "xla" or compiler is None:
        return None
    try:
        library = _load(compiler)
    except (OSError, subprocess.SubprocessError) as failure:
        reason = (getattr(failure, "stderr", None) or str(failure)).strip().splitlines()[0]
        warnings.warn(f"XLA computes all, more slowly, for smrl's kernels cannot be compiled: {reason}", stacklevel=2)
        return None
    library.smrl_threads(threads())
    return library


def _load(compiler: str) -> ctypes.CDLL:
    facts = [compiler, processor(), jax.__version__, *FLAGS, *(path.read_text() for path in SOURCES)]
    name = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16] + ".so"
    try:
        folder = cache_directory() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists():
            with tempfile.TemporaryDirectory(dir=folder) as workplace:
                compiled(compiler, Path(workplace)).replace(folder / name)  # whole, or not at all
        return ctypes.CDLL(str(folder / name))
    except (OSError, RuntimeError):  # there is no home, or it cannot be written to
        with tempfile.TemporaryDirectory() as workplace:
            return ctypes.CDLL(str(compiled(compiler, Path(workplace))))


def compiled(compiler: str, folder: Path) -> Path:
    """The library, compiled into a folder; its units are compiled side by side."""
    command = (*compiler.split(), *FLAGS, f"-I{jax.ffi.include_dir()}")
    units = [path for path in SOURCES if path.suffix == ".cc"]
    objects = [str(folder / f"{unit.stem}.o") for unit in units]
    calls = [(*command, "-c", "-o", target, str(unit)) for unit, target in zip(units, objects, strict=True)]
    with ThreadPoolExecutor() as together:
        list(together.map(_run, calls))
    library = folder / "library.so"
    _run((*command, "-shared", "-o", str(library), *objects))
    return library


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


@functools.cache
def is_available() -> bool:
    """Whether programs can call the kernels: they are loaded, and JAX computes on the CPU."""
    library = load()
    if library is None or jax.default_backend() != "cpu":
        return False
    for name in re.findall(r"^KERNEL\((\w+)\)", "".join(path.read_text() for path in SOURCES), re.MULTILINE):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
    return True


def fits(*arrays: Array) -> bool:
    """Whether the kernels can compute on these arrays: they are there, and everything is float32."""
    return all(array.dtype == np.float32 for array in arrays) and is_available()


def call(
    name: str, results: Results, *arrays: Array, aliases: dict[int, int] | None = None, **attributes: int | float
) -> Any:
    """Results of a kernel. Aliases tell which result (the value) may be written over which array (the key)."""
    kernel = jax.ffi.ffi_call(name, results, vmap_method="sequential", input_output_aliases=aliases)
    numbers = {key: (np.float64 if isinstance(value, float) else np.int64)(value) for key, value in attributes.items()}
    return kernel(*arrays, **numbers)
