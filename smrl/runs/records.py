"""What a run's folder says, as one frozen record. Needs no JAX."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smrl.errors import SmrlError, require
from smrl.runs.config import CONFIG, damaged, read_config, read_text
from smrl.runs.identity import canonical, flat

EVALUATIONS = "evaluations.csv"


@dataclass(frozen=True, eq=False)
class Record:
    """One run: its settings, and the mean return of every evaluation."""

    path: Path
    settings: dict[str, Any]  # by name, the hyperparameters among them
    steps: NDArray[np.int64]  # strictly increasing, at least one
    returns: NDArray[np.float64]
    episodes: int  # per evaluation

    @property
    def env(self) -> str:
        """Id of the environment."""
        return str(self.settings["env"])

    @property
    def algorithm(self) -> str:
        """Name of the algorithm."""
        return str(self.settings["algorithm"])

    @property
    def reuse(self) -> str:
        """The reuse rule: "10", or a schedule such as "10:300000,1"."""
        return str(self.settings["reuse"])

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.settings["seed"])

    @property
    def budget(self) -> int:
        """Environment steps that the run is to make."""
        return int(self.settings["steps"])

    @property
    def identity(self) -> str:
        """A text that is equal for runs which differ in nothing but seed and steps."""
        return canonical(self.settings)


def read_run(path: Path) -> Record:
    """The record of a run's folder that has at least one evaluation."""
    record = _read(path)
    if record is None:
        raise SmrlError(f"{path / EVALUATIONS} holds no evaluation yet; wait for the first one of the run.")
    return record


def read_runs(folder: Path) -> list[Record]:
    """The records of all runs in a folder and below it; runs without an evaluation yet are left out."""
    require(folder.is_dir(), f"{folder} is not a folder; give a folder with runs in it.")
    paths = [file.parent for file in sorted(folder.rglob(EVALUATIONS)) if (file.parent / CONFIG).exists()]
    return [record for record in map(_read, paths) if record is not None]


def _read(path: Path) -> Record | None:
    settings, file = flat(read_config(path)["settings"]), path / EVALUATIONS
    if not file.exists():
        return None
    complete, _, _ = read_text(file).rpartition("\n")  # what follows the last newline was cut off by a kill
    try:
        rows = list(csv.DictReader(complete.split("\n")))
        if not rows:
            return None
        steps = np.array([int(row["step"]) for row in rows], np.int64)
        returns = np.array([float(row["mean"]) for row in rows], np.float64)
        episodes = int(rows[-1]["episodes"])
    except (csv.Error, KeyError, TypeError, ValueError, OverflowError):
        raise damaged(file, "its columns step, episodes and mean must hold numbers") from None
    if (np.diff(steps) <= 0).any():
        raise damaged(file, "its steps do not increase")
    return Record(path, settings, steps, returns, episodes)
