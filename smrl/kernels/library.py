"""The library of C++ kernels: compiled at first use for this processor, and kept in the user's cache directory.

XLA computes everything instead without a compiler, on a GPU, or with SMRL_KERNELS=xla in the environment. Results then
differ in their last bits. With SMRL_SPIN=0 idle threads sleep at once, which leaves the cores to other processes.
"""

import contextlib
import ctypes
import functools
import hashlib
import operator
import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from smrl.errors import require
from smrl.machine import cache_directory, exposure, instruction_sets, processor, threads
from smrl.types import Array

SWITCH = "SMRL_KERNELS"
SPIN = "SMRL_SPIN"
SPIN_MICROSECONDS = 500  # longer than an environment step: waking a thread costs about one GEMM
NATIVE = Path(__file__).parent / "native"
SOURCES = sorted((*NATIVE.glob("*.cc"), *NATIVE.glob("*.h")))
FLAGS = ("-std=c++20", "-O3", "-march=native", "-fno-math-errno", "-fPIC", "-pthread", "-fvisibility=hidden")
WARNINGS = ("-Wall", "-Wextra")
MAX_COMPILE_SECONDS = 900.0  # compiling takes about 20 s of one core, and much longer on one that others use
RETRY_SECONDS = 24 * 3600  # age at which a compiler that failed is tried again
ABANDONED_SECONDS = 3600  # age at which a folder of object files is taken to be left over from a killed process
Results = jax.ShapeDtypeStruct | Sequence[jax.ShapeDtypeStruct]


def whole(value: Any) -> np.int64:
    """Return a whole number as the kernels read it; raise TypeError for any other number."""
    return np.int64(operator.index(value))


def real(value: Any) -> np.float64:
    """Return a number as the kernels read it."""
    return np.float64(value)


SIGNATURES: dict[str, dict[str, Callable[[Any], np.number[Any]]]] = {  # the attributes of every kernel
    "smrl_adam": dict.fromkeys(("rate", "beta1", "beta2", "epsilon", "decay"), real),
    "smrl_project": {},
    "smrl_polyak": {"tau": real},
    "smrl_mlp": dict.fromkeys(("layers", "form", "keep", "chosen"), whole) | {"epsilon": real},
    "smrl_mlp_backward": dict.fromkeys(("layers", "form", "inputs", "weights"), whole),
    "smrl_conv": {"stride": whole, "relu": whole},
    "smrl_conv_input_gradient": {"stride": whole, "relu": whole},
    "smrl_conv_weight_gradient": {"stride": whole},
}


@functools.cache
def load() -> ctypes.CDLL | None:
    """Load the library, compiling it first if needed; return None without a compiler or with SMRL_KERNELS=xla."""
    choice, spin = _switch(SWITCH, "native", "xla"), _switch(SPIN, "1", "0")
    compiler = os.environ.get("CXX", "").split() or [shutil.which("g++") or shutil.which("c++") or ""]
    if choice == "xla" or not compiler[0]:
        return None
    try:
        library = ctypes.CDLL(str(find_or_compile(compiler, cache_directory() / "kernels")))
    except (OSError, subprocess.SubprocessError) as failure:
        warnings.warn(f"could not compile smrl's C++ kernels; falling back to XLA (slower): {failure}", stacklevel=2)
        return None
    library.smrl_threads(threads(), SPIN_MICROSECONDS if spin == "1" else 0)
    return library


def _switch(name: str, default: str, other: str) -> str:
    choice = os.environ.get(name) or default
    known = f"give {default} or {other}."
    require(choice in (default, other), f"{name}={choice} in the environment is unknown; {known}")
    return choice


def find_or_compile(compiler: Sequence[str], folder: Path) -> Path:
    """Return the library in this folder that fits compiler, processor and sources; compile it if there is none.

    A compiler that fails is not tried again for a day, because it may take minutes to do so.
    """
    folder.mkdir(exist_ok=True)
    facts = [*compiler, processor(), instruction_sets(), jax.__version__, *FLAGS]
    facts += [path.read_text(encoding="utf-8") for path in SOURCES]
    failed = folder / f"{_digest(*facts)}.failed"
    with contextlib.suppress(FileNotFoundError):
        if abs(time.time() - failed.stat().st_mtime) < RETRY_SECONDS:
            raise subprocess.SubprocessError(
                f"{failed.read_text(encoding='utf-8', errors='replace')} (delete {failed} to try again)"
            )
    try:
        key = _digest(*facts, _run([*compiler, "--version"]))
        return _find(folder, key) or _compile(compiler, folder, key)
    except subprocess.SubprocessError as failure:
        failed.write_text(str(failure), encoding="utf-8")
        raise


def _digest(*facts: str) -> str:
    return hashlib.sha256("\0".join(facts).encode(errors="surrogateescape")).hexdigest()[:16]


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _find(folder: Path, key: str) -> Path | None:
    """Return the intact library with this key; remove damaged ones, which would crash the process."""
    for file in folder.glob(f"{key}-*.so"):
        if file.name == f"{key}-{_checksum(file)}.so" and exposure(file) is None:
            return file
        file.unlink(missing_ok=True)
    return None


def _compile(compiler: Sequence[str], folder: Path, key: str) -> Path:
    """Compile all sources in parallel and link them; return the library, whose name holds its checksum.

    The library is complete on the disk before it gets that name, so that a killed process leaves none that is damaged.
    """
    for leftover in folder.glob("build-*"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as build:
        command = [*compiler, *FLAGS, *WARNINGS, f"-I{jax.ffi.include_dir()}"]
        sources = [path for path in SOURCES if path.suffix == ".cc"]
        objects, library = [f"{build}/{source.stem}.o" for source in sources], Path(build, "library.so")
        _run(*([*command, "-c", "-o", *pair] for pair in zip(objects, map(str, sources), strict=True)))
        _run([*command, "-shared", "-o", str(library), *objects])
        _flush(library)
        named = library.replace(folder / f"{key}-{_checksum(library)}.so")
    _flush(folder)
    return named


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _run(*commands: Sequence[str]) -> str:
    """Run commands at the same time and return their output; raise SubprocessError if one fails or takes too long.

    Each is a process group, so that a compiler that hangs is ended with all processes that it started.
    """
    end = time.monotonic() + MAX_COMPILE_SECONDS
    running = list[subprocess.Popen[bytes]]()
    with tempfile.TemporaryFile() as file:
        try:
            for command in commands:
                running.append(
                    subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, process_group=0
                    )
                )
            codes = [each.wait(max(0.0, end - time.monotonic())) for each in running]
        except subprocess.TimeoutExpired:
            raise subprocess.SubprocessError(f"{commands[0][0]} takes longer than {MAX_COMPILE_SECONDS:g} s") from None
        finally:
            for each in running:
                if each.poll() is None:
                    os.killpg(each.pid, signal.SIGKILL)
                    each.wait()
        file.seek(0)
        output = file.read().decode(errors="replace")
    if any(codes):
        first = next(filter(str.strip, output.splitlines()), f"{commands[0][0]} fails without a message")
        raise subprocess.SubprocessError("".join(filter(str.isprintable, first))[:200])
    return output


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
    """Return whether the kernels are available and can compute on these arrays: float32, and none of them empty."""
    return all(array.dtype == np.float32 and array.size > 0 for array in arrays) and is_available()


def like(*arrays: Array) -> list[jax.ShapeDtypeStruct]:
    """Return the shapes and types of arrays, to describe results of the same form."""
    return [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]


def call(name: str, results: Results, *arrays: Array, aliases: dict[int, int] | None = None, **attributes: Any) -> Any:
    """Call a kernel and return its results. An alias lets a result (value) be written over an argument (key)."""
    kernel = jax.ffi.ffi_call(name, results, vmap_method="sequential", input_output_aliases=aliases)
    numbers = {key: SIGNATURES[name][key](value) for key, value in attributes.items()}
    return kernel(*arrays, **numbers)
