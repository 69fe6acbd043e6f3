"""Train on this machine, one process per run."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from smrl import machine
from smrl.runs.atomic import writing
from smrl.studies.launchers.protocol import JobResult, Launcher, RunRequest
from smrl.training.progress import Progress, Unfailing


class WorkerProcess:
    """A process that trains one run. It sends events over a socket; what it prints goes to output.log."""

    def __init__(self, request: RunRequest, threads: int, progress: Progress) -> None:
        self._log, self._progress = request.folder / "output.log", Unfailing(progress)
        self._error: str | None = None
        self._unread = b""
        self._connection, theirs = socket.socketpair()
        self._connection.setblocking(False)
        with writing(request.folder):
            request.folder.mkdir(parents=True, exist_ok=True)
            log = self._log.open("ab")
        with theirs, log:
            self.process = subprocess.Popen(
                # -P: a file in the working directory is imported only if the settings name it
                [sys.executable, "-P", "-m", "smrl.studies.worker", request.payload, str(theirs.fileno())],
                env=os.environ | {machine.THREADS: str(threads)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C reaches only the launcher, which asks the runs to save themselves
            )

    def poll(self) -> JobResult | None:
        """Pass on events; return the result, or None while the process runs."""
        code = self.process.poll()  # before reading, so that the last events are not missed
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while chunk := self._connection.recv(65536):
                *lines, self._unread = (self._unread + chunk).split(b"\n")
                for line in lines:
                    name, *arguments = json.loads(line)
                    if name == "fail":
                        self._error = arguments[0]
                    else:
                        getattr(self._progress, name)(*arguments)
        if code is None:
            return None
        self._connection.close()
        return self._result(code)

    def _result(self, code: int) -> JobResult:
        if code == 0:
            return JobResult()
        if self._error:  # a run that was ended by SIGTERM has saved itself
            return JobResult(self._error, worker_died=code == 128 + signal.SIGTERM)
        reason = _describe_signal(-code) if code < 0 else _last_line(self._log)
        return JobResult(f"{reason}; all that it printed is in {self._log}.", worker_died=code < 0)

    def stop(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        """Kill the process and those that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._connection.close()


class Local(Launcher):
    """Launch as many processes at a time as this machine has cores for, each with this number of threads."""

    poll_seconds = 0.1

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self.max_jobs = max(1, machine.cores() // threads)

    def start(self, request: RunRequest, progress: Callable[[], Progress]) -> WorkerProcess:
        return WorkerProcess(request, self._threads, progress())


def _describe_signal(number: int) -> str:
    name = signal.Signals(number).name
    hint = " (the system may have run out of memory)" if name == "SIGKILL" else ""
    return f"the process was ended by {name}{hint}"


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "the process exited without output"
