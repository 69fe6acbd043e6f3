"""The tests of the kernels with other builds: with sanitizers, with fewer vector instructions and with clang."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_pool import run_driver

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kernels")]
HERE = Path(__file__).parent
TESTS = [HERE / f"test_{name}.py" for name in ("call", "convolution", "mlp", "optimizer", "winograd")]
ADDRESS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
# TSan does not see how XLA, which is not instrumented, synchronises its threads, and would report its arrays as races.
SANITIZERS = {"address": ADDRESS, "thread": "-fsanitize=thread"}
OPTIONS = {  # uninstrumented Python never frees some of its memory, and one test asks for more memory than there is
    "ASAN_OPTIONS": "detect_leaks=0,allocator_may_return_null=1",
    "TSAN_OPTIONS": "allocator_may_return_null=1",
}
needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="needs an x86-64 processor")


def run_tests(cache: Path, compiler: str, **variables: str) -> None:
    """Run the tests of the kernels in a process with its own cache, on two threads."""
    own = {"CXX": compiler, "XDG_CACHE_HOME": str(cache), "SMRL_REQUIRE_KERNELS": "1", "SMRL_THREADS": "2"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-s",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *map(str, TESTS),
    ]
    ended = subprocess.run(command, env=os.environ | own | variables, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@needs_gcc
def test_address_sanitizer_finds_nothing(tmp_path: Path) -> None:
    # Python must load the sanitizers first, and libstdc++ after them, so that they find its __cxa_throw.
    files = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so", "libstdc++.so.6")
    ]
    run_tests(tmp_path, f"g++ {ADDRESS} -g1", LD_PRELOAD=" ".join(files), **OPTIONS)


@needs_gcc
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_sanitizers_find_nothing_in_the_pool(sanitizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OPTIONS.items():
        monkeypatch.setenv(name, value)
    run_driver(tmp_path, *SANITIZERS[sanitizer].split(), "-g1")


@needs_gcc
@needs_x86
@pytest.mark.parametrize("options", ["-mno-avx512f", "-mno-avx"], ids=["AVX2", "x86-64"])
def test_fewer_vector_instructions(options: str, tmp_path: Path) -> None:
    run_tests(tmp_path, f"g++ {options}")


def test_clang(tmp_path: Path) -> None:
    if shutil.which("clang++") is None:
        pytest.skip("needs clang++")
    run_tests(tmp_path, "clang++")
