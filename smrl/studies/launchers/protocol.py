"""The interface of launchers, which start runs somewhere and report how they ended."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions, Settings
from smrl.training.progress import Progress


@dataclass(frozen=True)
class RunRequest:
    """A run to train, as text that another machine with smrl can read."""

    folder: Path  # of the run
    payload: str  # JSON: settings, options and lock_timeout

    @classmethod
    def of(cls, settings: Settings[Any], options: RunOptions, lock_timeout: float) -> "RunRequest":
        """Return the request for a run, which waits up to ``lock_timeout`` seconds for its locked folder."""
        runs = options.runs.absolute()  # another machine, or a job, may start in another folder
        content = {
            "settings": settings.to_json(),
            "options": dataclasses.asdict(options) | {"runs": str(runs)},
            "lock_timeout": lock_timeout,
        }
        return cls(RunDirectory.of(settings, options.runs).path, json.dumps(content))

    def absolute(self) -> "RunRequest":
        """Return the request with an absolute folder, for a process with another working directory."""
        return dataclasses.replace(self, folder=self.folder.absolute())


@dataclass(frozen=True)
class JobResult:
    """How the training of a run ended."""

    error: str | None = None  # the message, unless all went well
    worker_died: bool = False  # whether the worker or its node died, so that the run can be resumed


class Job(Protocol):
    """A run that is queued or being trained."""

    def poll(self) -> JobResult | None:
        """Report progress; return the result, or None until the job has ended."""

    def stop(self) -> None:
        """Ask the run to save itself and end, without waiting for it."""

    def kill(self) -> None:
        """End the job at once."""


class Launcher(Protocol):
    """A place where runs are trained; a context manager."""

    max_jobs: int
    """Jobs that may be queued or running at the same time."""
    poll_seconds: float
    """Seconds between two polls of the jobs."""
    stop_message: str
    """Message of the command when a signal arrives."""
    exit_message: str
    """Message of the command when a signal has ended it."""

    def __enter__(self) -> "Launcher":
        """Prepare, or raise SmrlError if that is impossible."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release what was prepared."""

    def start(self, request: RunRequest, progress: Callable[[], Progress]) -> Job:
        """Start or queue a run; ``progress()`` is called when there is something to show."""
