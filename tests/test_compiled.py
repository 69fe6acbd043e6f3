"""The cache of compiled programs: it saves compiling, changes no number, and survives whatever ends a process."""

import atexit
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from smrl import compiled

PROGRAM = """
import sys
from smrl.runs import runtime
runtime.start(1)
import jax
compiled = []
jax.monitoring.register_event_listener(lambda event, **_: compiled.append(event))
import numpy as np
result = jax.jit(lambda x: (x @ x + 1).sum())(np.full((8, 8), 0.1, np.float32))
hits = compiled.count("/jax/compilation_cache/cache_hits")
misses = compiled.count("/jax/compilation_cache/cache_misses")
print(float(result), hits, misses, flush=True)
if "die" in sys.argv:
    import os
    os._exit(1)
"""


def run(cache: Path, *words: str, threads: int = 1, **variables: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment |= {"XDG_CACHE_HOME": str(cache), "SMRL_KERNELS": "xla", **variables}
    command = [sys.executable, "-W", "error", "-c", PROGRAM.replace("start(1)", f"start({threads})"), *words]
    ended = subprocess.run(command, env=environment, capture_output=True)
    assert ended.stderr == b""
    return ended.stdout.decode().split()


def entries(cache: Path) -> list[str]:
    return sorted(str(file.relative_to(cache)) for file in cache.rglob("*") if file.is_file())


def test_a_program_is_compiled_by_the_first_process_only(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert first[1:] == ["0", "1"]
    assert second == [first[0], "1", "0"]
    assert len(entries(tmp_path)) == 1


def test_a_process_that_dies_adds_nothing_and_harms_nobody(tmp_path: Path) -> None:
    whole = run(tmp_path)
    run(tmp_path, "die")
    assert run(tmp_path) == [whole[0], "1", "0"]


def test_other_threads_have_another_folder(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, threads=2)
    assert len({Path(entry).parent for entry in entries(tmp_path)}) == 2


def test_jax_can_be_told_not_to_keep_programs(tmp_path: Path) -> None:
    run(tmp_path, JAX_ENABLE_COMPILATION_CACHE="false")
    assert not entries(tmp_path)


def test_a_place_that_cannot_be_written_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert len(run(tmp_path / "file")) == 3


def test_a_file_system_without_links_has_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "entry-cache").write_bytes(b"whole")
    staging = compiled.linked(tmp_path)
    assert (staging / "entry-cache").read_bytes() == b"whole"
    (staging / "new-cache").write_bytes(b"new")
    compiled.publish(staging, tmp_path)
    assert entries(tmp_path) == ["entry-cache", "new-cache"]


def test_folders_of_dead_processes_are_removed_after_a_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(atexit, "register", lambda *_: None)
    settings = {name: getattr(jax.config, name) for name in (*compiled.SWITCHES, compiled.DIRECTORY)}
    try:
        jax.config.update(compiled.DIRECTORY, None)
        compiled.remember("this machine")
        (old,) = (tmp_path / "smrl" / "compiled").glob("*/process-*")
        os.utime(old, (0, time.time() - compiled.ABANDONED_SECONDS - 60))
        jax.config.update(compiled.DIRECTORY, None)
        compiled.remember("this machine")
        (new,) = (tmp_path / "smrl" / "compiled").glob("*/process-*")
        assert new != old
    finally:
        for name, value in settings.items():
            jax.config.update(name, value)
