"""The library of C++ kernels: compiled at first use, for the processor at hand, and kept in the user's cache directory.

Without a compiler, on a GPU, or with SMRL_KERNELS=xla in the environment, XLA computes everything; last bits differ.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from smrl.errors import require
from smrl.machine import cache_directory, processor, threads
from smrl.types import Array

SWITCH = "SMRL_KERNELS"
HOME = Path(__file__).parent
FLAGS = ("-std=c++20", "-O3", "-march=native", "-fPIC", "-shared", "-pthread")
Results = jax.ShapeDtypeStruct | Sequence[jax.ShapeDtypeStruct]
KERNELS = tuple(f"smrl_{layer}{part}" for layer in ("dense", "conv") for part in ("", "_inputs", "_weights"))


def wanted() -> str:
    """The user's choice of kernels: native (where possible) or xla."""
    choice = os.environ.get(SWITCH) or "native"
    require(choice in ("native", "xla"), f"{SWITCH}={choice} in the environment is unknown; give native or xla.")
    return choice


@functools.cache
def is_available() -> bool:
    """Whether the kernels can be called in this process. The first call compiles and loads them."""
    if wanted() == "xla" or jax.default_backend() != "cpu":
        return False
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return False
    try:
        library = ctypes.CDLL(str(compiled(compiler)))
    except (OSError, subprocess.SubprocessError) as failure:
        reason = getattr(failure, "stderr", None) or str(failure)
        warnings.warn(
            f"smrl's C++ kernels could not be compiled, so XLA computes all (slower): {reason.strip().splitlines()[0]}",
            stacklevel=2,
        )
        return False
    library.smrl_threads(threads())
    for name in KERNELS:
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
    return True


def compiled(compiler: str) -> Path:
    """The library for this compiler and this processor, compiled unless it has been before."""
    sources = sorted((*HOME.glob("*.cc"), *HOME.glob("*.h")))
    facts = [compiler, processor(), jax.__version__, *FLAGS, *(path.read_text() for path in sources)]
    name = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    path = cache_directory() / "kernels" / f"{name}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            whole = Path(folder) / path.name
            units = [path for path in sources if path.suffix == ".cc"]
            command = (*compiler.split(), *FLAGS, f"-I{jax.ffi.include_dir()}", "-o", whole, *units)
            subprocess.run(command, check=True, capture_output=True, text=True)
            whole.replace(path)
    return path


def fits(*arrays: Array) -> bool:
    """Whether the kernels can compute on these arrays: they are there, and everything is float32."""
    return all(array.dtype == np.float32 for array in arrays) and is_available()


def call(
    name: str, results: jax.ShapeDtypeStruct | Sequence[jax.ShapeDtypeStruct], *arrays: Array, **attributes: int
) -> Any:
    """Results of a kernel."""
    kernel = jax.ffi.ffi_call(name, results, vmap_method="sequential")
    return kernel(*arrays, **{key: np.int64(value) for key, value in attributes.items()})
