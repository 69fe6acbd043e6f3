"""The library of C++ kernels: compiled at first use for this processor, and kept in the user's cache directory.

XLA computes everything instead without a compiler, on a GPU, or with SMRL_KERNELS=xla in the environment. Results then
differ in their last bits.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from smrl.errors import require
from smrl.machine import cache_directory, processor, threads
from smrl.types import Array

SWITCH = "SMRL_KERNELS"
NATIVE = Path(__file__).parent / "native"
SOURCES = sorted((*NATIVE.glob("*.cc"), *NATIVE.glob("*.h")))
FLAGS = ("-std=c++20", "-O3", "-march=native", "-fno-math-errno", "-fPIC", "-pthread")
Results = jax.ShapeDtypeStruct | Sequence[jax.ShapeDtypeStruct]


@functools.cache
def load() -> ctypes.CDLL | None:
    """Load the library, compiling it first if needed; return None without a compiler or with SMRL_KERNELS=xla."""
    choice = os.environ.get(SWITCH) or "native"
    require(choice in ("native", "xla"), f"{SWITCH}={choice} in the environment is unknown; give native or xla.")
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if choice == "xla" or compiler is None:
        return None
    try:
        library = _load(compiler)
    except (OSError, subprocess.SubprocessError) as failure:
        reason = (getattr(failure, "stderr", None) or str(failure)).strip().splitlines()[0]
        warnings.warn(f"could not compile smrl's C++ kernels; falling back to XLA (slower): {reason}", stacklevel=2)
        return None
    library.smrl_threads(threads())
    return library


def _load(compiler: str) -> ctypes.CDLL:
    facts = [compiler, processor(), jax.__version__, *FLAGS, *(path.read_text(encoding="utf-8") for path in SOURCES)]
    name = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16] + ".so"
    try:
        folder = cache_directory() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists():
            with tempfile.TemporaryDirectory(dir=folder) as workplace:
                _compile(compiler, Path(workplace)).replace(folder / name)  # atomically
        return ctypes.CDLL(str(folder / name))
    except (OSError, RuntimeError):  # there is no home directory, or it is not writable
        with tempfile.TemporaryDirectory() as workplace:
            return ctypes.CDLL(str(_compile(compiler, Path(workplace))))


def _compile(compiler: str, folder: Path) -> Path:
    """Compile all sources in parallel and link them; return the path of the library in this folder."""
    command = (*compiler.split(), *FLAGS, f"-I{jax.ffi.include_dir()}")
    sources = [path for path in SOURCES if path.suffix == ".cc"]
    objects = [str(folder / f"{source.stem}.o") for source in sources]
    run = functools.partial(subprocess.run, check=True, capture_output=True, text=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(run, ((*command, "-c", "-o", *pair) for pair in zip(objects, map(str, sources), strict=True))))
    library = folder / "library.so"
    run((*command, "-shared", "-o", str(library), *objects))
    return library


@functools.cache
def is_available() -> bool:
    """Return whether compiled programs can call the kernels: the library is loaded, and JAX computes on the CPU."""
    library = load()
    if library is None or jax.default_backend() != "cpu":
        return False
    library.smrl_kernels.restype = ctypes.c_char_p
    for name in library.smrl_kernels().decode().split():
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
    return True


def supports(*arrays: Array) -> bool:
    """Return whether the kernels are available and can compute on these arrays, which must be float32."""
    return all(array.dtype == np.float32 for array in arrays) and is_available()


def like(*arrays: Array) -> list[jax.ShapeDtypeStruct]:
    """Return the shapes and types of arrays, to describe results of the same form."""
    return [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]


def call(
    name: str, results: Results, *arrays: Array, aliases: dict[int, int] | None = None, **attributes: int | float
) -> Any:
    """Call a kernel and return its results. An alias lets a result (value) be written over an argument (key)."""
    kernel = jax.ffi.ffi_call(name, results, vmap_method="sequential", input_output_aliases=aliases)
    numbers = {key: (np.float64 if isinstance(value, float) else np.int64)(value) for key, value in attributes.items()}
    return kernel(*arrays, **numbers)
