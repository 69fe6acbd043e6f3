"""Processes of this machine, one for each run."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from smrl import machine
from smrl.runs.atomic import writing
from smrl.studies.launchers.protocol import Ending, Task
from smrl.training.progress import Progress
from smrl.training.signals import STOP_MESSAGE


class Worker:
    """One run in a process of its own; news come over a socket, and what it prints goes to output.log."""

    def __init__(self, task: Task, width: int, progress: Progress) -> None:
        self._log, self._progress = task.folder / "output.log", progress
        self._failure: str | None = None
        self._unread = b""
        self._connection, theirs = socket.socketpair()
        self._connection.setblocking(False)
        with writing(task.folder):
            task.folder.mkdir(parents=True, exist_ok=True)
            log = self._log.open("ab")
        with theirs, log:
            self.process = subprocess.Popen(
                # -P: what lies in the working directory is imported only if the settings name it
                [sys.executable, "-P", "-m", "smrl.studies.worker", task.text, str(theirs.fileno())],
                env=os.environ | {machine.THREADS: str(width)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C reaches the launcher only, which asks the runs to save themselves
            )

    def ending(self) -> Ending | None:
        """Pass on the news; how the process ended, or None while it runs."""
        code = self.process.poll()  # first, so that the last news are not missed
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while chunk := self._connection.recv(65536):
                *lines, self._unread = (self._unread + chunk).split(b"\n")
                for line in lines:
                    name, *news = json.loads(line)
                    if name == "fail":
                        self._failure = news[0]
                    else:
                        getattr(self._progress, name)(*news)
        if code is None:
            return None
        self._connection.close()
        return self._ending(code)

    def _ending(self, code: int) -> Ending:
        if code == 0:
            return Ending()
        if code == 128 + signal.SIGTERM and self._failure:
            return Ending(self._failure, is_death=True)  # somebody has ended it, and it has saved itself
        if self._failure:
            return Ending(self._failure)
        reason = _death(-code) if code < 0 else _last_line(self._log)
        return Ending(f"{reason}; all that it printed is in {self._log}.", is_death=code < 0)

    def stop(self) -> None:
        """Ask the run to save itself and to end."""
        self.process.terminate()

    def kill(self) -> None:
        """End the process and those that it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._connection.close()


class Local:
    """As many processes at a time as the cores of this machine can serve, with ``width`` threads each."""

    poll_seconds = 0.1
    stopping = STOP_MESSAGE
    parting = "stopped; every run is saved, and the same command continues them."

    def __init__(self, width: int) -> None:
        self._width = width
        self.places = max(1, machine.cores() // width)

    def __enter__(self) -> "Local":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def start(self, task: Task, progress: Callable[[], Progress]) -> Worker:
        """Start the process of a run."""
        return Worker(task, self._width, progress())


def _death(number: int) -> str:
    """Which signal ended a process, in words."""
    name = signal.Signals(number).name
    hint = " (the system may have run out of memory)" if name == "SIGKILL" else ""
    return f"the process was ended by {name}{hint}"


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "the process ended without a word"
