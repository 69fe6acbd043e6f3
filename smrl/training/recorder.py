"""Where a run's numbers go: tables, loggers and the display."""

import csv
import re
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from smrl.errors import require, short_repr
from smrl.runs.paths import RunDirectory
from smrl.runs.records import NEWEST, CsvLog, lines_until
from smrl.settings import Settings
from smrl.statistics import sample_sd
from smrl.training.loggers import Loggers
from smrl.training.progress import REFRESH_SECONDS, Progress

NAME = re.compile(r"\w[\w./-]{0,99}", re.ASCII)  # of a value that a callback logs
ROWS: float = 2_000  # of training.csv in the time that a run has taken, besides those of evaluations
MAX_LOGGED = 200  # names that callbacks may log


class Evaluation(NamedTuple):
    """An evaluation that was recorded."""

    step: int
    mean: float  # return


class Recorder:
    """Writes evaluations.csv and training.csv of a run, and passes its values on to loggers and display."""

    def __init__(
        self,
        settings: Settings[Any],
        directory: RunDirectory,
        config: dict[str, Any],
        progress: Progress,
        wandb: str | None,
        step: int,
    ) -> None:
        """Open the files of a run that starts or continues after ``step``; later rows are dropped."""
        self.settings, self.directory, self.progress = settings, directory, progress
        columns: tuple[str, ...] = ("step", "episodes", "mean", "sd", "min", "max")
        columns += ("agent_steps",) if settings.action_repeat > 1 else ()
        columns += (NEWEST,) if settings.average_policy is not None and not settings.real_time else ()
        columns += ("bias", "bias_sd") if settings.bias_every else ()
        self.evaluations = CsvLog(directory.evaluations, columns, continue_at=step)
        self.training: CsvLog | None = None  # opened when its columns are known
        self.loggers = Loggers(directory.path, config, step, wandb, progress.notify)
        rows = list(csv.DictReader(self.evaluations.lines))
        self.last = Evaluation(int(rows[-1]["step"]), float(rows[-1]["mean"])) if rows else None
        self.first_step = step
        self.shown_at = 0.0
        self.logged = (step, time.monotonic())  # the step and the time of the last row of training.csv
        self._own = {"step"}  # columns of training.csv that are smrl's
        self._logged: dict[str, tuple[float, int]] = {}  # sum and count of what callbacks logged since the last row
        self._names = set[str]()  # of all that callbacks have logged
        self._lock = threading.Lock()  # in real time, callbacks and rows are in different threads
        progress.begin(step)

    def advance(self, step: int) -> None:
        """Show the step, a few times per second."""
        if time.monotonic() - self.shown_at > REFRESH_SECONDS:
            self.shown_at = time.monotonic()
            self.progress.advance(step)

    def evaluation(self, step: int, returns: np.ndarray, more: Mapping[str, float]) -> dict[str, float]:
        """Record an evaluation and return its values, ``more`` among them; the sd of one episode is NaN."""
        values = {
            "mean": float(returns.mean()),
            "sd": float(sample_sd(returns)),
            "min": float(returns.min()),
            "max": float(returns.max()),
            **more,
        }
        repeat = self.settings.action_repeat
        agent_steps = {"agent_steps": step // repeat} if repeat > 1 else {}
        self.evaluations.write({"step": step, **agent_steps, "episodes": len(returns), **values})
        self.last = Evaluation(step, values["mean"])
        self.loggers.write("evaluation", step, values)
        self.progress.evaluated(step, values["mean"])
        return values

    def log(self, name: str, value: Any) -> None:
        """Add a value of a callback to the next row of training.csv."""
        is_name = isinstance(name, str) and NAME.fullmatch(name) is not None
        require(is_name, f"a name to log must be of letters, digits and _ . / -, at most 100, not {short_repr(name)}.")
        scalar = np.asarray(value) if np.isscalar(value) or hasattr(value, "dtype") else np.empty(0)
        is_number = scalar.shape == () and scalar.dtype.kind in "biuf"
        require(is_number, f"the value to log as {name} must be one number, not {short_repr(value)}.")
        require(name not in self._own, f"training.csv has a column {name} of its own; choose another name to log.")
        if name not in self._names:
            require(len(self._names) < MAX_LOGGED, f"a run logs at most {MAX_LOGGED} names; {name} is one too many.")
            self._names.add(name)
        with self._lock:
            total, count = self._logged.get(name, (0.0, 0))
            self._logged[name] = (total + float(scalar), count + 1)

    @property
    def has_logged(self) -> bool:
        """Whether callbacks have logged anything since the last row."""
        return bool(self._logged)

    def is_row_due(self, step: int, now: float, log_seconds: float, seconds: float) -> bool:
        """Return whether training.csv needs a row between evaluations; rarely in long runs, so that it stays small."""
        before, then = self.logged
        return step > before and now - then > max(log_seconds, seconds / ROWS)

    def learning(self, step: int, values: dict[str, float | None], seconds: float) -> None:
        """Record means since the last row: metrics, and what callbacks logged; the cell of a None stays empty."""
        speed = (step - self.logged[0]) / (time.monotonic() - self.logged[1])
        values |= {"seconds": seconds, "steps_per_second": speed}
        self.logged = (step, time.monotonic())
        with self._lock:
            logged, self._logged = self._logged, {}
        self._own |= values.keys()
        for name in logged.keys() & self._own:  # logged before the first row showed its columns
            self.progress.notify(f"training.csv has a column {name} of its own; choose another name to log.")
            del logged[name]
        if self.training is None:
            self.training = CsvLog(self.directory.training, ("step", *values), continue_at=self.first_step)
        row = {name: value for name, value in values.items() if value is not None}
        row |= {name: total / count for name, (total, count) in logged.items()}
        self.training.write({"step": step, **row})
        self.loggers.write("training", step, row)

    def tables(self) -> dict[str, list[str]]:
        """Return the lines of the tables by file name, for a checkpoint; restore files that were truncated."""
        for log in filter(None, (self.evaluations, self.training)):
            log.restore()
        training = self.training.lines if self.training else lines_until(self.directory.training, self.first_step)
        return {self.directory.evaluations.name: [*self.evaluations.lines], self.directory.training.name: [*training]}
