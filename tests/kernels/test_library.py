"""The library of kernels: compiling it, its cache, and the fallback to XLA."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from smrl.errors import SmrlError
from smrl.kernels import library

PROGRAM = """
from smrl.kernels import library
print(library.is_available())
"""
FIND_OR_COMPILE = """
import pathlib, sys
from smrl.kernels import library
library.find_or_compile(sys.argv[1:2], pathlib.Path(sys.argv[2]))
"""
COMPILER = """#!/bin/sh
echo "$@" >> "$0.calls"
[ "$1" = --version ] && exec cat "$0.version"
while [ "$1" != -o ]; do shift; done
echo code > "$2"
"""
HANGING = """#!/bin/sh
echo "$@" >> "$0.calls"
sleep 60 & echo $! > "$0.child"
wait
"""


class Compiler:
    """A program that is called as a compiler."""

    def __init__(self, folder: Path, program: str = COMPILER) -> None:
        self.file = folder / "compiler"
        self.file.write_text(program)
        self.file.chmod(0o700)
        self.set_version("1.0")

    def set_version(self, text: str) -> None:
        Path(f"{self.file}.version").write_text(text)

    def calls(self) -> int:
        return len(Path(f"{self.file}.calls").read_text().splitlines())

    def child_has_ended(self) -> bool:
        time.sleep(0.1)
        status = Path("/proc", Path(f"{self.file}.child").read_text().strip(), "stat")
        return not status.exists() or status.read_text().split()[2] == "Z"

    def library(self, folder: Path) -> Path:
        return library.find_or_compile([str(self.file)], folder)


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "kernels"


@pytest.fixture
def fresh_load() -> Iterator[None]:
    """Load the library again in this test, and the usual one after it."""
    library.load.cache_clear()
    yield
    library.load.cache_clear()


def available(*options: str, **variables: str) -> tuple[bool, str]:
    """Return whether a new process can call the kernels, and what it writes to stderr."""
    command = [sys.executable, *options, "-c", PROGRAM]
    ended = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip() == "True", ended.stderr


@pytest.mark.usefixtures("kernels")
def test_library_compiles_without_warnings_and_is_cached(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    variables = {"XDG_CACHE_HOME": str(tmp_path), "CXX": f"{compiler} -Werror"}
    assert available("-W", "error", **variables) == (True, "")
    (kept,) = (tmp_path / "smrl" / "kernels").iterdir()
    before = kept.stat().st_mtime_ns
    assert available("-W", "error", **variables) == (True, "")
    assert kept.stat().st_mtime_ns == before
    nm = shutil.which("nm")
    if nm and sys.platform == "linux":
        listed = subprocess.run([nm, "-D", "--defined-only", kept], capture_output=True, text=True, check=True).stdout
        names = {line.split()[-1] for line in listed.splitlines()}
        ours = {name for name in names if "smrl" in name}
        assert ours == {*library.SIGNATURES, "smrl_kernels", "smrl_threads"}, "the rest is hidden"


@pytest.mark.usefixtures("fresh_load")
def test_fallback_without_a_working_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.warns(UserWarning, match=r"could not compile .*; falling back to XLA \(slower\): .*no-such-compiler"):
        assert library.load() is None
    assert not any((tmp_path / "smrl" / "kernels").iterdir()), "nothing is left behind"


@pytest.mark.usefixtures("fresh_load")
def test_fallback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMRL_KERNELS", "xla")
    assert library.load() is None


@pytest.mark.usefixtures("fresh_load")
@pytest.mark.parametrize("name", [library.SWITCH, library.SPIN])
def test_unknown_switches_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "maybe")
    with pytest.raises(SmrlError, match=rf"^{name}=maybe in the environment is unknown; give \w+ or \w+\.$"):
        library.load()


@pytest.mark.parametrize("damage", ["truncated", "zeroed", "given away"])
def test_damaged_or_foreign_library_is_compiled_again(
    damage: str, compiler: Compiler, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    intact = compiler.library(cache)
    calls = compiler.calls()
    assert compiler.library(cache) == intact
    assert compiler.calls() == calls + 1, "only the version is asked for"
    if damage == "given away":
        with monkeypatch.context() as patch:
            patch.setattr(library, "exposure", lambda path: "it belongs to another user")
            again = compiler.library(cache)
    else:
        intact.write_bytes(b"" if damage == "truncated" else bytes(intact.stat().st_size))
        again = compiler.library(cache)
    assert compiler.calls() > calls + 2
    assert again == intact
    assert again.read_text() == "code\n"


def test_each_compiler_version_and_processor_has_its_own_library(
    compiler: Compiler, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {compiler.library(cache)}
    compiler.set_version("2.0")
    files.add(compiler.library(cache))
    monkeypatch.setattr(library, "instruction_sets", lambda: "sse avx512_fp16")
    files.add(compiler.library(cache))
    assert len(files) == 3


def test_hanging_compiler_is_ended_and_not_tried_again(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = Compiler(tmp_path, HANGING)
    monkeypatch.setattr(library, "MAX_COMPILE_SECONDS", 0.5)
    with pytest.raises(subprocess.SubprocessError, match=r"compiler takes longer than 0\.5 s$"):
        compiler.library(cache)
    assert compiler.child_has_ended()
    with pytest.raises(subprocess.SubprocessError, match=r"longer than 0\.5 s \(delete .*\.failed to try again\)$"):
        compiler.library(cache)
    assert compiler.calls() == 1
    (failed,) = cache.glob("*.failed")
    os.utime(failed, (0, time.time() - library.RETRY_SECONDS - 60))
    with pytest.raises(subprocess.SubprocessError):
        compiler.library(cache)
    assert compiler.calls() == 2


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (r"printf '\n\377\376 broken\033[2J\nmore\n'; exit 1", "�� broken[2J"),
        ("exit 3", "compiler fails without a message"),
    ],
    ids=["bytes", "nothing"],
)
def test_output_of_a_broken_compiler_is_made_printable(program: str, reason: str, tmp_path: Path, cache: Path) -> None:
    compiler = Compiler(tmp_path, f"#!/bin/sh\n{program}\n")
    with pytest.raises(subprocess.SubprocessError) as raised:
        compiler.library(cache)
    assert str(raised.value).endswith(reason)


def test_kill_while_kernels_compile(tmp_path: Path, cache: Path) -> None:
    slow = COMPILER.replace("echo code", 'printf co > "$2"; [ -e "$0.fast" ] || sleep 30; echo code')
    compiler = Compiler(tmp_path, slow)
    process = subprocess.Popen([sys.executable, "-c", FIND_OR_COMPILE, str(compiler.file), str(cache)])
    try:
        end = time.monotonic() + 120
        while not list(cache.glob("build-*/*.o")):
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert not list(cache.glob("*.so"))
    Path(f"{compiler.file}.fast").touch()
    assert compiler.library(cache).read_text() == "code\n"
    (leftover,) = cache.glob("build-*")
    os.utime(leftover, (0, time.time() - library.ABANDONED_SECONDS - 60))
    compiler.set_version("2.0")
    compiler.library(cache)
    assert not list(cache.glob("build-*")), "what the killed process left is removed"


def test_interrupt_ends_the_compiler(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, wait = Compiler(tmp_path, HANGING), subprocess.Popen.wait

    def interrupted_wait(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout is None:
            return wait(process)
        while not Path(f"{compiler.file}.child").exists():
            time.sleep(0.01)
        time.sleep(0.1)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted_wait)
    with pytest.raises(KeyboardInterrupt):
        compiler.library(cache)
    assert compiler.child_has_ended()
