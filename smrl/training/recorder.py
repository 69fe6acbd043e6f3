"""Where a run's numbers go: tables, loggers and the display."""

import csv
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from smrl.runs.paths import RunDirectory
from smrl.runs.records import CsvLog, lines_until
from smrl.settings import Settings
from smrl.statistics import sample_sd
from smrl.training.loggers import Loggers
from smrl.training.progress import REFRESH_SECONDS, Progress


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
        columns += ("bias", "bias_sd") if settings.bias_every else ()
        self.evaluations = CsvLog(directory.evaluations, columns, continue_at=step)
        self.training: CsvLog | None = None  # opened when its columns are known
        self.loggers = Loggers(directory.path, config, step, wandb, progress.notify)
        rows = list(csv.DictReader(self.evaluations.lines))
        self.last = Evaluation(int(rows[-1]["step"]), float(rows[-1]["mean"])) if rows else None
        self.first_step = step
        self.shown_at = 0.0
        self.logged = (step, time.monotonic())
        progress.begin(step)

    def advance(self, step: int) -> None:
        """Show the step, a few times per second."""
        if time.monotonic() - self.shown_at > REFRESH_SECONDS:
            self.shown_at = time.monotonic()
            self.progress.advance(step)

    def evaluation(self, step: int, returns: np.ndarray, bias: Mapping[str, float]) -> dict[str, float]:
        """Record an evaluation and return its values; the sd is over episodes, NaN if there is only one."""
        values = {
            "mean": float(returns.mean()),
            "sd": float(sample_sd(returns)),
            "min": float(returns.min()),
            "max": float(returns.max()),
            **bias,
        }
        agent_steps = step // self.settings.action_repeat
        self.evaluations.write({"step": step, "agent_steps": agent_steps, "episodes": len(returns), **values})
        self.last = Evaluation(step, values["mean"])
        self.loggers.write("evaluation", step, values)
        self.progress.evaluated(step, values["mean"])
        return values

    def learning(
        self, step: int, values: dict[str, float], sometimes: Mapping[str, float | None], seconds: float
    ) -> None:
        """Record the mean losses and other metrics since the last row; what is None ``sometimes`` stays empty."""
        speed = (step - self.logged[0]) / (time.monotonic() - self.logged[1])
        values |= {"seconds": seconds, "steps_per_second": speed}
        self.logged = (step, time.monotonic())
        if self.training is None:
            columns = ("step", *values, *sometimes)
            self.training = CsvLog(self.directory.training, columns, continue_at=self.first_step)
        values |= {name: value for name, value in sometimes.items() if value is not None}
        self.training.write({"step": step, **values})
        self.loggers.write("training", step, values)

    def tables(self) -> dict[str, list[str]]:
        """Return the lines of the tables by file name, for a checkpoint; restore files that were truncated."""
        for log in filter(None, (self.evaluations, self.training)):
            log.restore()
        training = self.training.lines if self.training else lines_until(self.directory.training, self.first_step)
        return {self.directory.evaluations.name: [*self.evaluations.lines], self.directory.training.name: [*training]}
