"""Many runs at once: a process each, as many as the machine has cores."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smrl.algorithms import registry
from smrl.envs.make import make
from smrl.errors import SmrlError, require
from smrl.runs import runtime
from smrl.runs.directory import RunDirectory
from smrl.runs.files import writing
from smrl.runs.records import Record, read_run
from smrl.runs.settings import Settings
from smrl.studies.sweep import titles
from smrl.training.interruption import Interrupted, Interruption
from smrl.training.progress import Board, Meter
from smrl.training.session import Session

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Outcome:
    """What came of several runs."""

    records: list[Record]
    failures: dict[str, str]  # title of the run → what went wrong, in one sentence


class Worker:
    """One run in a process of its own; news come over a socket, and what it prints goes to output.log."""

    def __init__(self, settings: Settings[Any], session: Session, width: int, meter: Meter) -> None:
        self.folder, self.meter = RunDirectory.of(settings, session.runs).path, meter
        self.log = self.folder / "output.log"
        self._failure: str | None = None
        self._unread = b""
        task = {
            "settings": settings.to_json(),
            "session": dataclasses.asdict(session) | {"runs": str(session.runs)},
        }
        self._connection, theirs = socket.socketpair()
        self._connection.setblocking(False)
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            log = self.log.open("ab")
        with theirs, log:
            self.process = subprocess.Popen(
                # -P: what lies in the working directory is imported only if the settings name it
                [sys.executable, "-P", "-m", "smrl.studies.worker", json.dumps(task), str(theirs.fileno())],
                env=os.environ | {runtime.THREADS: str(width)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C reaches the launcher only, which asks the runs to save themselves
            )

    def is_over(self) -> bool:
        """Pass on the news; whether the process has ended."""
        is_over = self.process.poll() is not None  # first, so that the last news are not missed
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while chunk := self._connection.recv(65536):
                *lines, self._unread = (self._unread + chunk).split(b"\n")
                for line in lines:
                    name, *news = json.loads(line)
                    if name == "fail":
                        self._failure = news[0]
                    else:
                        getattr(self.meter, name)(*news)
        if is_over:
            self._connection.close()
        return is_over

    def result(self) -> Record:
        """The record of the run, or a sentence that says why it failed."""
        code = self.process.returncode
        if code == 0:
            return read_run(self.folder)
        if self._failure is None:
            reason = self.death() if self.was_killed() else _last_line(self.log)
            self._failure = f"{reason}; all that it printed is in {self.log}."
        raise SmrlError(self._failure)

    def was_killed(self) -> bool:
        """Whether a signal has ended the process."""
        return self.process.returncode is not None and self.process.returncode < 0

    def death(self) -> str:
        """Which signal ended the process, in words."""
        name = signal.Signals(-self.process.returncode).name
        hint = " (the system may have run out of memory)" if name == "SIGKILL" else ""
        return f"the process was ended by {name}{hint}"

    def kill(self) -> None:
        """End the process and those that it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._connection.close()


def run_all(several: Sequence[Settings[Any]], session: Session, retries: int = 1) -> Outcome:
    """Train several runs, or continue them; what cannot run is refused before any of them starts.

    A run whose process the system has killed, as for want of memory, is continued up to ``retries`` times.
    """
    require(len(several) > 0, "there is nothing to run.")
    _refuse_unfit(several)
    cores = runtime.cores()
    width = session.threads or max(1, cores // len(several))  # one thread each, unless cores would lie idle
    by_title = dict(zip(titles(several), several, strict=True))
    waiting, meters, left = list(by_title.items()), dict[str, Meter](), dict.fromkeys(by_title, retries)
    running: dict[str, Worker] = {}
    records: dict[str, Record] = {}
    failures: dict[str, str] = {}
    is_stopping = False
    try:
        with Board(session.quiet) as board, Interruption(board.say) as interruption:
            while running or (waiting and not interruption.is_noted()):
                while waiting and len(running) < max(1, cores // width) and not interruption.is_noted():
                    title, settings = waiting.pop(0)
                    if title not in meters:
                        meters[title] = board.meter(title, settings.steps)
                    running[title] = Worker(settings, session, width, meters[title])
                if interruption.is_noted() and not is_stopping:
                    is_stopping = True
                    for worker in running.values():
                        worker.process.terminate()
                time.sleep(POLL_SECONDS)
                for title in [title for title, worker in running.items() if worker.is_over()]:
                    worker = running.pop(title)
                    if worker.was_killed() and left[title] > 0 and not interruption.is_noted():
                        left[title] -= 1
                        worker.meter.say(f"{worker.death()}; it is continued.")
                        waiting.insert(0, (title, by_title[title]))
                        continue
                    try:
                        records[title] = worker.result()
                    except SmrlError as error:
                        failures[title] = str(error)
    finally:
        for worker in running.values():
            worker.kill()
    if interruption.signal is not None:
        raise Interrupted(interruption.signal, "stopped; every run is saved, and the same command continues them.")
    return Outcome(list(records.values()), failures)


def _refuse_unfit(several: Sequence[Settings[Any]]) -> None:
    """Make every environment and algorithm once, here, and not in as many processes."""
    specs = {}
    for settings in several:
        task = (settings.env, *settings.env_options.values())
        if task not in specs:
            with contextlib.closing(make(settings.env, **settings.env_options)) as env:
                specs[task] = env.spec
        registry.find(settings.algorithm).make(settings.hyper, specs[task])


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "the process ended without a word"
