"""A run on another machine: a worker there, its sentences in output.log, and its news from the shared folder."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from smrl.errors import SmrlError
from smrl.runs.paths import EVALUATIONS
from smrl.runs.records import read_run
from smrl.studies.launchers.local import Local, Worker
from smrl.studies.launchers.protocol import Ending, Task
from smrl.training.progress import Progress


class LogMeter:
    """Writes what a run says to a file; steps and returns are in its tables."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def begin(self, step: int) -> None:
        """Nothing: the run says where it continues."""

    def advance(self, step: int) -> None:
        """Nothing."""

    def evaluated(self, step: int, mean: float) -> None:
        """Nothing: evaluations.csv has it."""

    def notify(self, message: str) -> None:
        """Add a line."""
        with self._file.open("a", encoding="utf-8") as log:
            print(message, file=log)


def begin(task: Task, width: int) -> Worker:
    """Start the process of a run on this machine, far from whoever asked for it."""
    return Worker(task, width, LogMeter(task.folder / "output.log"))


def attend(worker: Worker) -> Ending:
    """Wait for the process of a run; how it ended."""
    while (ending := worker.ending()) is None:
        time.sleep(Local.poll_seconds)
    return ending


class News:
    """The newest evaluation of a run, read from its folder: what survives the death of any machine."""

    def __init__(self, folder: Path, progress: Callable[[], Progress]) -> None:
        self._folder, self._progress = folder, progress
        self._seen = self._stamp()  # what is there already is no news

    def tell(self) -> None:
        """Pass on the newest evaluation, if it is a new one."""
        stamp = self._stamp()
        if stamp == self._seen:
            return
        with contextlib.suppress(SmrlError):  # half a line, or none yet
            record = read_run(self._folder)
            self._progress().evaluated(int(record.steps[-1]), float(record.returns[-1]))
            self._seen = stamp

    def _stamp(self) -> tuple[int, int]:
        try:
            found = (self._folder / EVALUATIONS).stat()
        except OSError:
            return 0, 0
        return found.st_size, found.st_mtime_ns
