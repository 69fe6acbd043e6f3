"""The cache of compiled programs saves compiling, changes no result and survives killed processes."""

import atexit
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from smrl import runtime

PROGRAM = """
import sys
from smrl import runtime
runtime.start(1)
import jax
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
import numpy as np
result = jax.jit(lambda x: (x @ x + 1).sum())(np.full((8, 8), 0.1, np.float32))
hits = events.count("/jax/compilation_cache/cache_hits")
misses = events.count("/jax/compilation_cache/cache_misses")
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


def test_only_the_first_process_compiles_a_program(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert first[1:] == ["0", "1"]
    assert second == [first[0], "1", "0"]
    assert len(entries(tmp_path)) == 1


def test_a_killed_process_leaves_the_cache_intact(tmp_path: Path) -> None:
    intact = run(tmp_path)
    run(tmp_path, "die")
    assert run(tmp_path) == [intact[0], "1", "0"]


def test_each_number_of_threads_has_its_own_folder(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, threads=2)
    assert len({Path(entry).parent for entry in entries(tmp_path)}) == 2


def test_a_disabled_cache_stays_disabled(tmp_path: Path) -> None:
    run(tmp_path, JAX_ENABLE_COMPILATION_CACHE="false")
    assert not entries(tmp_path)


def test_entries_of_other_users_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("own-cache", "foreign-cache"):
        (tmp_path / name).touch()
    monkeypatch.setattr(runtime, "exposure", lambda path: "another user" if path.name == "foreign-cache" else None)
    assert [file.name for file in runtime.stage_programs(tmp_path).iterdir()] == ["own-cache"]


def test_entries_are_copied_where_there_are_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "entry-cache").write_bytes(b"old")
    staging = runtime.stage_programs(tmp_path)
    assert (staging / "entry-cache").read_bytes() == b"old"
    (staging / "new-cache").write_bytes(b"new")
    runtime.publish_programs(staging, tmp_path)
    assert entries(tmp_path) == ["entry-cache", "new-cache"]


def test_abandoned_folders_are_removed_after_a_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(atexit, "register", lambda *_: None)
    settings = {name: getattr(jax.config, name) for name in (*runtime.CACHE_SWITCHES, runtime.CACHE_FOLDER)}
    try:
        jax.config.update(runtime.CACHE_FOLDER, None)
        runtime.keep_compiled_programs("this machine")
        (old,) = (tmp_path / "smrl" / "compiled").glob("*/process-*")
        os.utime(old, (0, time.time() - runtime.ABANDONED_SECONDS - 60))
        jax.config.update(runtime.CACHE_FOLDER, None)
        runtime.keep_compiled_programs("this machine")
        (new,) = (tmp_path / "smrl" / "compiled").glob("*/process-*")
        assert new != old
    finally:
        for name, value in settings.items():
            jax.config.update(name, value)
