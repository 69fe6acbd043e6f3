"""The interface of launchers, which start runs somewhere and report how they ended."""

import dataclasses
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions, Settings
from smrl.training.progress import Progress
from smrl.training.signals import STOP_MESSAGE


@dataclass(frozen=True)
class RunRequest:
    """A run to train, as text that another machine with smrl can read."""

    folder: Path  # of the run; absolute, because another machine, or a job, may start in another folder
    payload: str  # JSON: settings, options and lock_timeout

    @classmethod
    def of(cls, settings: Settings[Any], options: RunOptions, lock_timeout: float) -> "RunRequest":
        """Return the request for a run, which waits up to ``lock_timeout`` seconds for its locked folder."""
        options = dataclasses.replace(options, runs=options.runs.absolute())
        content = {
            "settings": settings.to_json(),
            "options": dataclasses.asdict(options) | {"runs": str(options.runs)},
            "lock_timeout": lock_timeout,
        }
        return cls(RunDirectory.of(settings, options).path, json.dumps(content))


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
    """A place where runs are trained; a context manager, which raises SmrlError where it cannot be entered."""

    max_jobs: int = sys.maxsize
    """Jobs that may be queued or running at the same time."""
    poll_seconds: float
    """Seconds between two polls of the jobs."""
    stop_message: str = STOP_MESSAGE
    """Message of the command when a signal arrives."""
    exit_message: str = "stopped; every run is saved, and the same command resumes them."
    """Message of the command when a signal has ended it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def start(self, request: RunRequest, progress: Callable[[], Progress]) -> Job:
        """Start or queue a run; ``progress()`` is called when there is something to show."""
