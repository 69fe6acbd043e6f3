"""The recorder: where a run's numbers go, in files and on the screen."""

import csv
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from smrl.runs.paths import RunDirectory
from smrl.runs.records import CsvLog, lines_until
from smrl.settings import Settings
from smrl.statistics import sample_sd
from smrl.training.loggers import Curves
from smrl.training.progress import REFRESH_SECONDS, Progress


class Recorder:
    """Writes evaluations.csv, training.csv and the curves of one run, and tells its meter."""

    def __init__(
        self,
        settings: Settings[Any],
        directory: RunDirectory,
        config: dict[str, Any],
        progress: Progress,
        wandb: str | None,
        step: int,
    ) -> None:
        """Open the files of a run that begins or goes on after ``step``; later rows are dropped."""
        self.settings, self.directory, self.progress = settings, directory, progress
        columns: tuple[str, ...] = ("step", "episodes", "mean", "sd", "min", "max")
        columns += ("agent_steps",) if settings.action_repeat > 1 else ()
        columns += ("bias", "bias_sd") if settings.bias_every else ()
        self.evaluations = CsvLog(directory.evaluations, columns, continue_at=step)
        self.training: CsvLog | None = None  # opened when its columns are known
        self.curves = Curves(directory.path, config, step, wandb, progress.notify)
        self.first_step = step
        self.shown_at = 0.0
        self.logged = (step, time.monotonic())
        progress.begin(step)

    def last_evaluation(self) -> tuple[int, float] | None:
        """Step and mean return of the last evaluation, if there is one."""
        with self.directory.evaluations.open() as file:
            rows = list(csv.DictReader(file))
        return (int(rows[-1]["step"]), float(rows[-1]["mean"])) if rows else None

    def advance(self, step: int) -> None:
        """Show the step, a few times per second."""
        if time.monotonic() - self.shown_at > REFRESH_SECONDS:
            self.shown_at = time.monotonic()
            self.progress.advance(step)

    def evaluation(self, step: int, returns: np.ndarray, bias: Mapping[str, float]) -> dict[str, float]:
        """Record an evaluation; its values by name. The sd is over episodes, NaN where there is only one."""
        values = {
            "mean": float(returns.mean()),
            "sd": float(sample_sd(returns)),
            "min": float(returns.min()),
            "max": float(returns.max()),
            **bias,
        }
        agent_steps = step // self.settings.action_repeat
        self.evaluations.write({"step": step, "agent_steps": agent_steps, "episodes": len(returns), **values})
        self.curves.write("evaluation", step, values)
        self.progress.evaluated(step, values["mean"])
        return values

    def learning(self, step: int, values: dict[str, float], episode_return: float | None, seconds: float) -> None:
        """Record the means of the losses and the like since the last row."""
        if not values:
            return  # still warming up
        speed = (step - self.logged[0]) / (time.monotonic() - self.logged[1])
        values |= {"seconds": seconds, "steps_per_second": speed}
        self.logged = (step, time.monotonic())
        if self.training is None:
            columns = ("step", *values, "episode_return")
            self.training = CsvLog(self.directory.training, columns, continue_at=self.first_step)
        if episode_return is not None:
            values["episode_return"] = episode_return
        self.training.write({"step": step, **values})
        self.curves.write("training", step, values)

    def tables(self) -> dict[str, list[str]]:
        """The lines of the tables by their files' names, for a checkpoint; files that were cut are written anew."""
        for log in filter(None, (self.evaluations, self.training)):
            log.restore()
        training = self.training.lines if self.training else lines_until(self.directory.training, self.first_step)
        return {self.directory.evaluations.name: [*self.evaluations.lines], self.directory.training.name: [*training]}

    def sync(self) -> None:
        """Wait until the evaluations are on the disk; another thread may call it."""
        self.evaluations.sync()

    def close(self) -> None:
        """Write out what the curves still hold back."""
        self.curves.close()
