"""A run on another machine: a worker process there logs to output.log, and progress is read from the shared folder."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from smrl.errors import SmrlError
from smrl.runs.paths import EVALUATIONS
from smrl.runs.records import read_run
from smrl.studies.launchers.local import Local, WorkerProcess
from smrl.studies.launchers.protocol import JobResult, RunRequest
from smrl.training.progress import Progress


class LogProgress(Progress):
    """Write the messages of a run to a file; its tables hold steps and returns."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def notify(self, message: str) -> None:
        with self._file.open("a", encoding="utf-8") as log:
            print(message, file=log)

    inform = notify


class RemoteWorker(WorkerProcess):
    """The process of a run on a node of a cluster."""

    def __init__(self, request: RunRequest, threads: int) -> None:
        super().__init__(request, threads, LogProgress(request.folder / "output.log"))

    def wait(self) -> JobResult:
        """Wait until the process ends and return its result."""
        while (result := self.poll()) is None:
            time.sleep(Local.poll_seconds)
        return result


class EvaluationWatcher:
    """Report new evaluations of a run from its folder, which outlives any machine."""

    def __init__(self, folder: Path, progress: Callable[[], Progress]) -> None:
        self._folder, self._progress = folder, progress
        self._seen = self._stamp()  # earlier evaluations are not reported

    def report(self) -> None:
        """Report the newest evaluation if there is a new one."""
        stamp = self._stamp()
        if stamp == self._seen:
            return
        with contextlib.suppress(SmrlError):  # a line may be incomplete
            record = read_run(self._folder)
            self._progress().evaluated(int(record.steps[-1]), float(record.returns[-1]))
            self._seen = stamp

    def _stamp(self) -> tuple[int, int]:
        try:
            found = (self._folder / EVALUATIONS).stat()
        except OSError:
            return 0, 0
        return found.st_size, found.st_mtime_ns
