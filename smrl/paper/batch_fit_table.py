"""batch_fit.csv in a run's folder: how well batches were fitted, as rows of numbers. Needs no JAX."""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smrl.errors import SmrlError
from smrl.runs.identity import flat
from smrl.runs.paths import RunDirectory
from smrl.runs.records import CsvLog, lines_until

FILE = "batch_fit.csv"
MEASURES = ("batch_fixed", "batch_moving", "held_out_fixed", "held_out_moving")  # RMS TD errors
COLUMNS = ("step", "batch", "updates", *MEASURES)


@dataclass(frozen=True, eq=False)
class Fit:
    """What was measured of one run at one step."""

    settings: dict[str, Any]  # of the run by name, the hyperparameters among them
    step: int
    updates: tuple[int, ...]  # 0 first
    errors: NDArray[np.float64]  # (batches, updates, measures)


def write(run: Path, fit: Fit) -> None:
    """Add the rows of a step; those of the same step or of later ones are replaced."""
    table = CsvLog(run / FILE, COLUMNS, continue_at=fit.step - 1)
    for batch, by_updates in enumerate(fit.errors):
        for updates, errors in zip(fit.updates, by_updates, strict=True):
            values = dict(zip(MEASURES, (f"{error:.9g}" for error in errors), strict=True))
            table.write({"step": fit.step, "batch": batch, "updates": updates, **values})


def read(run: Path, updates: Sequence[int], batches: int) -> list[Fit]:
    """The steps of which these numbers of updates were measured on so many batches; none without a table."""
    file = run / FILE
    try:
        rows = {
            tuple(int(row[name]) for name in ("step", "batch", "updates")): [float(row[name]) for name in MEASURES]
            for row in csv.DictReader(lines_until(file, sys.maxsize))
        }
    except (OSError, csv.Error, KeyError, TypeError, ValueError):
        raise SmrlError(f"{file} is damaged; delete it, and what can still be measured is measured again.") from None
    times, found = (0, *updates), []
    for step in sorted({step for step, _, _ in rows}):
        wanted = [(step, batch, number) for batch in range(batches) for number in times]
        if rows.keys() >= set(wanted):
            errors = np.array([rows[row] for row in wanted]).reshape(batches, len(times), len(MEASURES))
            found.append(Fit(flat(RunDirectory(run).read_config()["settings"]), step, times, errors))
    return found
