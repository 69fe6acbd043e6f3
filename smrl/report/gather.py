"""All runs below some folders, with their hours and versions; what cannot be used is named and left out."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smrl.errors import SmrlError, require
from smrl.runs.config import read_text
from smrl.runs.paths import CONFIG, EVALUATIONS, TRAINING, RunDirectory
from smrl.runs.records import Record, read_run


@dataclass(frozen=True, eq=False)
class Run:
    """A run's record, with its hours of training, its versions and its machine."""

    record: Record
    hours: NDArray[np.float64]  # of training at each evaluation; NaN where training.csv does not say
    versions: dict[str, Any]
    machine: dict[str, Any]  # processor, threads, backend, git commit


@dataclass(frozen=True)
class Gathered:
    """The runs that can be used, and one sentence for each that cannot."""

    runs: tuple[Run, ...]
    problems: tuple[str, ...]

    @property
    def records(self) -> list[Record]:
        """The records of the runs."""
        return [run.record for run in self.runs]


def gather(folders: Iterable[Path]) -> Gathered:
    """Read the runs in these folders and below them."""
    runs, problems = [], []
    for path in _places(folders):
        try:
            runs.append(_read(path))
        except SmrlError as error:
            problems.append(str(error))
    return Gathered(tuple(runs), tuple(problems))


def _places(folders: Iterable[Path]) -> list[Path]:
    """The folders of runs, each once."""
    found: dict[Path, Path] = {}
    for folder in folders:
        require(folder.is_dir(), f"{folder} is not a folder; give the folder of a run, or a folder with runs in it.")
        below = sorted({file.parent for name in (CONFIG, EVALUATIONS) for file in folder.rglob(name)})
        require(bool(below), f"{folder} holds no run; give the folder of a run, or a folder with runs in it.")
        found |= {path.resolve(): path for path in below}
    return list(found.values())


def _read(path: Path) -> Run:
    config, record = RunDirectory(path).read_config(), read_run(path)
    require(
        bool(np.isfinite(record.returns).all()),
        f"{path / EVALUATIONS} holds a return that is no finite number; check the environment, or leave the run out.",
    )
    machine = {"processor": config["cpu"], **{name: config[name] for name in ("threads", "backend", "git_commit")}}
    return Run(record, _hours(path / TRAINING, record), config["versions"], machine)


def _hours(file: Path, record: Record) -> NDArray[np.float64]:
    """Hours of training at the steps of the record; seconds before the first evaluation count too."""
    try:
        rows = list(csv.DictReader(read_text(file).rpartition("\n")[0].split("\n")))
        hours = {int(row["step"]): float(row["seconds"]) / 3600 for row in rows}
    except (SmrlError, csv.Error, KeyError, TypeError, ValueError, OverflowError):
        hours = {}  # a report without hours is better than none
    return np.array([hours.get(int(step), np.nan) for step in record.steps])
