"""What a launcher is: it starts runs somewhere and tells how each of them ended."""

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
class Task:
    """One run to train, in JSON, so that another machine needs nothing but smrl."""

    folder: Path  # of the run
    text: str  # settings, session and patience

    @classmethod
    def of(cls, settings: Settings[Any], options: RunOptions, patience: float) -> "Task":
        """The task of a run; for ``patience`` seconds it waits for another process to let go of the run's folder."""
        runs = options.runs.absolute()  # another machine, or a job, may start in another folder
        text = {
            "settings": settings.to_json(),
            "session": dataclasses.asdict(options) | {"runs": str(runs)},
            "patience": patience,
        }
        return cls(RunDirectory.of(settings, options.runs).path, json.dumps(text))


@dataclass(frozen=True)
class Ending:
    """How the work on a run ended."""

    failure: str | None = None  # a sentence, unless all went well
    is_death: bool = False  # whether the worker or its node died, so that the run can be continued


class Job(Protocol):
    """The work on one run, somewhere."""

    def ending(self) -> Ending | None:
        """Pass on the news; how the work ended, or None while it goes on."""

    def stop(self) -> None:
        """Ask the run to save itself and to end; does not wait for it."""

    def kill(self) -> None:
        """End the work at once."""


class Launcher(Protocol):
    """A place where runs are trained, for use in a ``with`` statement."""

    places: int
    """Jobs that may be under way or queued there at the same time."""
    poll_seconds: float
    """Seconds between two looks at the jobs."""
    stopping: str
    """What the command says when a signal comes."""
    parting: str
    """What the command says when a signal has ended it, after that."""

    def __enter__(self) -> "Launcher":
        """Get ready, or say in one sentence why that is impossible."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave."""

    def start(self, task: Task, progress: Callable[[], Progress]) -> Job:
        """Begin or queue the work on a run; the meter is made when there are news."""
