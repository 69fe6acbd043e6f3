"""What all tests share: one thread, and a cache of compiled programs."""

import os
import signal
from pathlib import Path

import jax
import pytest

from smrl import machine, runtime
from smrl.kernels import library
from smrl.training import recorder

recorder.ROWS = 1e-9  # no rows by time in training.csv, because a slow machine has more of them
os.environ.setdefault(machine.THREADS, "1")
os.environ.setdefault(runtime.XLA_THREADS, "1")
# A shell starts background jobs with Ctrl-C ignored, and nohup with SIGHUP. Children inherit that, so commands under
# test would ignore them too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _compilation_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # one cache for all workers
    settings = {
        "jax_compilation_cache_dir": str(shared / "compiled"),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)  # for the processes that tests start


@pytest.fixture(scope="session")
def kernels() -> None:
    """Skip tests of the C++ kernels where these are not available, or fail them if SMRL_REQUIRE_KERNELS=1."""
    if os.environ.get(library.SWITCH) == "xla":
        pytest.skip("XLA computes everything")
    if not library.is_available():
        is_required = os.environ.get("SMRL_REQUIRE_KERNELS") == "1"
        (pytest.fail if is_required else pytest.skip)("the C++ kernels are not available")


@pytest.fixture
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
