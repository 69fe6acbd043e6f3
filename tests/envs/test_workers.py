"""Environments in processes of their own: what goes over, what comes back, and how they end."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from broken_envs import Exits, Raises, RaisesInConstructor, Toy
from commands import PYTHONPATH
from slow_envs import Curious, Mortal

from smrl.envs import workers
from smrl.envs.environment import EnvironmentFault
from smrl.envs.make import make
from smrl.envs.workers import Restarts, Worker, WorkerDied, in_workers, insist
from smrl.errors import SmrlError

PUSH = np.ones(1, np.float32)


def worker(env: Any, restarts: int = 0, timeout: float | None = None) -> Worker:
    return Worker(partial(make, env), Restarts(restarts, lambda message: None), timeout)


@pytest.fixture
def deaths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEATHS", str(tmp_path))
    return tmp_path


@pytest.fixture
def curious() -> Iterator[Worker]:
    found = worker(Curious)
    yield found
    found.close()


def test_a_worker_is_the_environment() -> None:
    there, here = worker("Pendulum-v1"), make("Pendulum-v1")
    assert (there.spec, there.name, there.notes) == (here.spec, here.name, here.notes)
    for seed in (3, 4):
        np.testing.assert_array_equal(there.begin_reset(seed)(), here.reset(seed))
        assert not there.over
        for _ in range(200):
            mine, other = there.begin_step(PUSH)(), here.step(PUSH)
            np.testing.assert_array_equal(mine[0], other[0])
            assert mine[1:] == other[1:]
            assert there.over == here.over
        assert there.over
    there.close()


def test_the_process_of_a_worker(curious: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    has_jax, omp, blas, steps, process = curious.begin_reset(0)()
    assert (has_jax, omp, blas, steps) == (0, 1, 1, 0)
    assert process != os.getpid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(int(process), number)  # as Ctrl-C, a cluster and a terminal that is closed do
    assert curious.begin_step(PUSH)()[0][3] == 1
    assert os.getsid(int(process)) == process, "Ctrl-C does not reach it"
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    other = worker(Curious)
    assert other.begin_reset(0)()[1] == 2
    other.close()


@pytest.mark.parametrize("env", [Raises, Exits])
def test_faults_come_back_as_they_are_and_the_worker_lives(env: Any) -> None:
    there, here = worker(env), make(env)
    there.begin_reset(0)()
    here.reset(0)
    for _ in range(4 if env is Raises else 0):
        there.begin_step(PUSH)()
        here.step(PUSH)
    with pytest.raises(EnvironmentFault) as mine:
        there.begin_step(PUSH)()
    with pytest.raises(EnvironmentFault) as other:
        here.step(PUSH)
    assert str(mine.value) == str(other.value)
    assert type(mine.value) is EnvironmentFault
    assert there.begin_reset(0)().shape == (2,)
    there.close()


@pytest.mark.parametrize("env", [RaisesInConstructor, "broken_envs:no_such_function", "Pendulum-v9"])
def test_an_environment_that_cannot_be_made_is_refused_as_without_workers(env: Any) -> None:
    there = worker(env)
    with pytest.raises(SmrlError) as mine:
        there.begin_reset(0)()
    with pytest.raises(SmrlError) as other:
        make(env)
    assert str(mine.value) == str(other.value)
    there.close()


def test_what_cannot_be_sent_is_refused() -> None:
    lock = threading.Lock()

    def make_env() -> Toy:
        with lock:
            return Toy()

    with pytest.raises(SmrlError, match=r"cannot be sent to a worker process \(TypeError: .*lock.*\): create what"):
        worker(make_env)


def test_what_cannot_be_found_again_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere.py").write_text("from broken_envs import Toy\ndef make_env(): return Toy()\n")
    with monkeypatch.context() as found:
        found.syspath_prepend(tmp_path)
        import elsewhere  # type: ignore[import-not-found]
    there = worker(elsewhere.make_env)
    with pytest.raises(SmrlError, match=r"cannot be made in a worker process \(ModuleNotFoundError: .*\): define"):
        there.begin_reset(0)()
    there.close()


@pytest.mark.parametrize(
    ("how", "words"), [("kill", "SIGKILL"), pytest.param("exit", "exit code 3", marks=pytest.mark.slow)]
)
def test_a_worker_that_dies_is_a_fault_or_is_replaced(deaths: Path, how: str, words: str) -> None:
    there = worker(Mortal, restarts=1)
    first = there.begin_reset(5)()
    for _ in range(6):
        there.begin_step(PUSH)()
    for name in ("first", "second"):
        (deaths / name).write_text(how)
    obs = insist(there.begin_step(PUSH), partial(there.begin_reset, 5))
    np.testing.assert_array_equal(obs, first)
    for _ in range(6):
        there.begin_step(PUSH)()
    finish = there.begin_step(PUSH)
    with pytest.raises(WorkerDied, match=rf"the worker process of Mortal ended in step\(\) with {words}$"):
        insist(finish, partial(there.begin_step, PUSH))
    there.close()
    there.close()


def test_a_worker_that_hangs_is_killed(deaths: Path) -> None:
    there = worker(Mortal, timeout=0.3)
    there.begin_reset(0)()
    (deaths / "only").write_text("hang")
    for _ in range(6):
        there.begin_step(PUSH)()
    finish = there.begin_step(PUSH)
    with pytest.raises(WorkerDied, match=r"did not return from step\(\) within 0\.3 s \(--env-timeout\)"):
        finish()
    there.close()


def test_a_child_of_a_dead_worker_does_not_hide_its_death(tmp_path: Path) -> None:
    """It inherits the pipe, which therefore stays open."""

    class Parent(Toy):
        def step(self, action: Any) -> Any:
            if child := os.fork():
                (tmp_path / "child").write_text(str(child))
                os._exit(7)
            time.sleep(60)

    there = worker(Parent)
    there.begin_reset(0)()
    with pytest.raises(WorkerDied, match="exit code 7"):
        there.begin_step(PUSH)()
    child = int((tmp_path / "child").read_text())
    assert is_alive(child)
    os.kill(child, signal.SIGKILL)
    there.close()


def test_closing_a_hanging_worker_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clinging(Curious):
        def close(self) -> None:
            time.sleep(1000)

    monkeypatch.setattr(workers, "CLOSE_SECONDS", 0.2)
    there = worker(Clinging)
    process = int(there.begin_reset(0)()[4])
    there.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_an_exit_in_close_is_a_fault() -> None:
    class Leaving(Toy):
        def close(self) -> None:
            raise SystemExit(1)

    there = worker(Leaving)
    there.begin_reset(0)()
    with pytest.raises(EnvironmentFault, match=r"failed in close\(\) with SystemExit"):
        there.close()


def test_an_id_that_the_program_has_registered_is_known_to_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(Toy):
        pass

    monkeypatch.setattr(gymnasium, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", gymnasium.registry)
    gymnasium.register("Local-v0", lambda **_: Local())
    there = in_workers(partial(make, "Local-v0"), "Local-v0", Restarts(0, print), None)()
    assert there.name == "Local-v0"
    there.close()


SCRIPT = """
    import ctypes
    from functools import partial
    from broken_envs import Toy
    from smrl.envs.make import make
    from smrl.envs.workers import Restarts, Worker

    class Mine(Toy):
        def step(self, action):
            print(f"stepping {LABEL}", flush=True)
            ctypes.PyDLL(None).sleep(1000)  # holds Python's lock, so that no other thread runs

    LABEL = "in the script"
    worker = Worker(partial(make, Mine), Restarts(0, print))
    worker.begin_reset(0)()
    print(worker._process.pid, flush=True)  # before the step, which prints to the same pipe
    worker.begin_step(worker.spec.action.array.zeros())()
"""


def test_a_worker_ends_with_a_killed_parent_also_in_the_midst_of_a_step() -> None:
    """The environment is a class of the script itself, which has no guard against being run again."""
    script = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    with subprocess.Popen(script, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        assert parent.stdout.readline() == "stepping in the script\n"
        parent.kill()
    limit = time.monotonic() + 30
    while time.monotonic() < limit and is_alive(process):
        time.sleep(0.02)
    assert not is_alive(process)


def is_alive(process: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
