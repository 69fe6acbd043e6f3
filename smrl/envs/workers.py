"""Environments in processes of their own, so that slow simulators step at the same time.

Each worker process makes one `Environment` and answers over a pipe. Gymnasium's AsyncVectorEnv does not fit here: it
fails as a whole where one environment does, checks nothing that comes back, cannot tell the end of an episode from the
loss of a life, and neither replaces a process that dies nor limits the time of a step.

A worker is a new interpreter: forking is unsafe beside JAX's threads, and the start methods of multiprocessing would
run the user's script again. It imports no JAX, leads a session of its own, so that Ctrl-C reaches the run only, and
ends with the run, also if that is killed.
"""

import contextlib
import ctypes
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeVar, final

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from smrl import output
from smrl.envs.environment import SUCCESS, Environment, EnvironmentFault, Finding, Step
from smrl.errors import SmrlError, require
from smrl.plugins import in_words
from smrl.types import Spec

START = "import sys, json; sys.path[:] = json.loads(sys.argv[2]); import smrl.envs.workers as w; w.serve(sys.argv[1])"
THREAD_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # of libraries that use all cores
LOOK_SECONDS = 0.5  # between two looks at a process that does not answer
CLOSE_SECONDS = 5.0  # that a worker has to close its environment, and then to end
PR_SET_PDEATHSIG = 1  # of Linux

Result = TypeVar("Result")


class WorkerDied(EnvironmentFault):
    """Fault of an environment whose process has ended, or was ended because it did not answer in time."""

    def __init__(self, message: str, worker: "Worker") -> None:
        super().__init__(message)
        self.worker = worker


@dataclass
class Restarts:
    """How often the workers of a run may be replaced, and how often they were."""

    allowed: int
    notify: Callable[[str], None]
    used: int = 0


class _Facts(NamedTuple):
    spec: Spec
    name: str
    notes: tuple[Finding, ...]
    is_device: bool


class _Answer(NamedTuple):
    call: str
    value: Any
    error: type[SmrlError] | None  # of which the value is the message
    over: bool = False
    info: dict[str, Any] | None = None  # None where nothing was asked for and nothing says whether an episode succeeded


@final
class Worker:
    """An environment in a process of its own, as the training loop sees it; see `Environment`.

    `begin_reset` and `begin_step` return functions that wait for the result. Making the environment is not waited for
    before its first use, so that several are made at the same time.
    """

    def __init__(
        self,
        make_env: Callable[[], Environment],
        restarts: Restarts,
        timeout: float | None = None,
        registered: EnvSpec | None = None,
        sends_info: bool = False,
    ) -> None:
        """``registered`` is an id of Gymnasium that this program has registered and its workers must know.

        Without ``sends_info``, ``info`` has at most the entry is_success.
        """
        self._restarts, self._timeout, self.over = restarts, timeout, False
        self.info: dict[str, Any] = {}
        try:
            self._recipe = cloudpickle.dumps((make_env, registered, sends_info))
        except Exception as error:
            raise SmrlError(
                f"the environment cannot be sent to a worker process ({in_words(error)}): create what cannot be copied "
                "inside the function that makes it, or use --env-workers none."
            ) from error
        self._start()

    @property
    def spec(self) -> Spec:
        """Observations and actions."""
        return self._made().spec

    @property
    def name(self) -> str:
        """The environment's name."""
        return self._made().name

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What the user should read about the environment."""
        return self._made().notes

    @property
    def is_device(self) -> bool:
        """Whether the environment's metadata says that it is a device."""
        return self._made().is_device

    def begin_reset(self, seed: int | None) -> Callable[[], np.ndarray]:
        """Start an episode; the result is its first observation."""
        return self._begin("reset", seed)

    def begin_step(self, action: np.ndarray) -> Callable[[], Step]:
        """Take a step; the result is the observation, the reward, terminated and truncated."""
        return self._begin("step", action)

    def replace(self, died: WorkerDied, consequence: str) -> None:
        """Start a new process for one that died; raise the fault again if that is not allowed."""
        if self._restarts.used >= self._restarts.allowed:
            raise died
        self._restarts.used += 1
        count = f"restart {self._restarts.used} of {self._restarts.allowed}"
        self._restarts.notify(f"{died}; it is replaced ({count}), and {consequence}.")
        self._start()

    def close(self) -> None:
        """Close the environment and end the process, by force if it takes too long."""
        self._send("close", None)
        last, is_hanging = None, False
        with contextlib.suppress(EOFError, OSError):  # of a worker that has ended
            while self._connection.poll(CLOSE_SECONDS):
                last = self._connection.recv()
            is_hanging = True
        self._end(by_force=is_hanging)
        if last is not None and last.call == "close" and last.error is not None:
            raise last.error(last.value)

    def _start(self) -> None:
        self._facts: _Facts | None = None
        self._connection, theirs = Pipe()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", START, str(theirs.fileno()), json.dumps(sys.path)],
                    env=dict.fromkeys(THREAD_POOLS, "1") | os.environ,
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                raise SmrlError(f"a worker process cannot be started ({in_words(error)}): lower --envs.") from error
        with contextlib.suppress(OSError):  # it has ended, which is noticed when the result is waited for
            self._connection.send_bytes(self._recipe)

    def _made(self) -> _Facts:
        if self._facts is None:
            self._facts = _Facts(*self._receive("its construction", None))
        return self._facts

    def _begin(self, call: str, argument: Any) -> Callable[[], Any]:
        self._send(call, argument)
        return partial(self._result, call)

    def _result(self, call: str) -> Any:
        self._made()
        return self._receive(f"{call}()", self._timeout)

    def _send(self, call: str, argument: Any) -> None:
        with contextlib.suppress(OSError):  # as above
            self._connection.send((call, argument))

    def _receive(self, where: str, timeout: float | None) -> Any:
        limit = None if timeout is None else time.monotonic() + timeout
        while not self._connection.poll(LOOK_SECONDS if limit is None else min(LOOK_SECONDS, limit - time.monotonic())):
            if self._process.poll() is not None and not self._connection.poll():
                raise self._died(where)  # what the environment has started may keep the pipe open
            if limit is not None and time.monotonic() >= limit:
                self._end(by_force=True)
                raise self._fault(f"did not return from {where} within {timeout:g} s (--env-timeout)")
        try:
            answer: _Answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._died(where) from error
        if answer.error is not None:
            raise answer.error(answer.value)
        self.over, self.info = answer.over, answer.info or {}
        return answer.value

    def _died(self, where: str) -> WorkerDied:
        self._end()
        code = self._process.returncode
        how = f"exit code {code}" if code >= 0 else f"{signal.Signals(-code).name}"
        return self._fault(f"ended in {where} with {how}")

    def _fault(self, what: str) -> WorkerDied:
        return WorkerDied(
            f"the worker process of {self._facts.name if self._facts else 'the environment'} {what}", self
        )

    def _end(self, by_force: bool = False) -> None:
        """Wait for the end of the process, or kill it together with what it has started."""
        try:
            self._process.wait(0 if by_force else CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._connection.close()


Env = Environment | Worker


def in_workers(
    make_env: Callable[..., Environment],
    name: str,
    restarts: Restarts,
    timeout: float | None,
    sends_info: bool = False,
) -> Callable[..., Worker]:
    """Return a function that makes environments in processes of their own; ``name`` is that of the environment."""
    require(os.name == "posix", "--env-workers process needs Linux or macOS: use --env-workers none.")
    registered = gymnasium.registry.get(name)
    return lambda **options: Worker(partial(make_env, **options), restarts, timeout, registered, sends_info)


def insist(
    finish: Callable[[], Result],
    again: Callable[[], Callable[[], Result]],
    consequence: str = "its episode starts again",
) -> Result:
    """Return the result of a call that was begun; if its worker dies, replace it and begin the call ``again``."""
    while True:
        try:
            return finish()
        except WorkerDied as died:
            died.worker.replace(died, consequence)
            finish = again()


def serve(descriptor: str) -> None:
    """Make an environment in this process and answer what its run asks; see `Worker`."""
    os.set_inheritable(int(descriptor), False)  # or what the environment starts would keep the pipe open
    connection: Connection[_Answer, Any] = Connection(int(descriptor))
    _end_with_parent(int(descriptor))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the run saves itself, and then ends this process
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which programs that an environment starts would inherit
    output.guard_streams()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the run has ended
        made = _answer("make", partial(_make, connection.recv_bytes()))
        if made.error is not None:
            connection.send(made)
            return
        env, sends_info = made.value
        connection.send(made._replace(value=_Facts(env.spec, env.name, env.notes, env.is_device)))
        while True:
            call, argument = connection.recv()
            answer = _answer(call, partial(getattr(env, call), *(() if call == "close" else (argument,))))
            info = env.info if sends_info else {SUCCESS: env.info[SUCCESS]} if SUCCESS in env.info else None
            answer = answer._replace(over=env.over, info=info)
            try:
                connection.send(answer)
            except OSError:
                raise
            except Exception:  # an entry of the info cannot be copied to another process
                connection.send(answer._replace(info=_picklable(env.info)))
            if call == "close":
                return


def _picklable(info: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for name, value in info.items():
        with contextlib.suppress(Exception):
            pickle.dumps((name, value))
            kept[name] = value
    return kept


def _make(recipe: bytes) -> tuple[Environment, bool]:
    """Make the environment; return also whether its infos are sent."""
    try:
        make_env, registered, sends_info = pickle.loads(recipe)
    except Exception as error:
        raise SmrlError(
            f"the environment cannot be made in a worker process ({in_words(error)}): define it in a module that "
            "Python finds, or use --env-workers none."
        ) from error
    if registered is not None:
        gymnasium.registry.setdefault(registered.id, registered)
    return make_env(), sends_info


def _answer(call: str, function: Callable[[], Any]) -> _Answer:
    try:
        return _Answer(call, function(), None)
    except SmrlError as error:
        return _Answer(call, str(error), EnvironmentFault if isinstance(error, EnvironmentFault) else SmrlError)


def _end_with_parent(descriptor: int) -> None:
    """End this process when the other end of the pipe is closed."""

    def watch() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)  # reports only that it was hung up
        poll.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if sys.platform == "linux":  # the thread does not run while a simulator holds Python's lock
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
