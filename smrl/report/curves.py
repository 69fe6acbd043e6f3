"""Runs that differ in their seeds only, joined to learning curves."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smrl.report.statistics import mean_sd, steps_to
from smrl.runs.identity import varying
from smrl.runs.records import Record


@dataclass(frozen=True, eq=False)
class Curve:
    """Runs of one identity (all settings but seed and steps), at the steps that all of them evaluated."""

    settings: dict[str, Any]  # of the first run; the others differ in seed and steps at most
    records: tuple[Record, ...]
    steps: NDArray[np.int64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]  # sample standard deviation (n − 1); NaN for one run

    @property
    def env(self) -> str:
        """Id of the environment."""
        return self.records[0].env


@dataclass(frozen=True)
class Reached:
    """How soon runs reached a score: the mean over those that did, None if none did."""

    steps: float | None
    reached: int
    runs: int

    def __str__(self) -> str:
        steps = "never" if self.steps is None else f"{self.steps:,.0f}"
        return f"{steps} ({self.reached} of {self.runs})"


def curves(records: Sequence[Record]) -> list[Curve]:
    """One curve per identity, ordered by environment, algorithm, reuse and the other settings that vary."""
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: (record.seed, record.path)):
        groups.setdefault(record.identity, []).append(record)
    names = ("env", "algorithm", "reuse", *varying([record.settings for record in records]))
    found = [_curve(tuple(group)) for group in groups.values()]
    return sorted(found, key=lambda curve: [_rank(curve.settings.get(name)) for name in names])


def mean_steps_to(records: Sequence[Record], score: float) -> Reached:
    """How soon these runs reached the score, each by its evaluations, and how many of them did."""
    steps = np.array([steps_to(score, record.steps, record.returns) for record in records])
    reached = steps[~np.isnan(steps)]
    return Reached(float(reached.mean()) if reached.size else None, reached.size, len(records))


def _rank(value: Any) -> tuple[Any, ...]:
    """Sort key of a setting: None, numbers, lists, texts; digits within a text compare as numbers."""
    if value is None:
        return (0,)
    if isinstance(value, int | float):
        return 1, value
    if isinstance(value, list):
        return 2, [_rank(item) for item in value]
    return 3, [(0, int(part)) if part.isdecimal() else (1, part) for part in re.findall(r"\d+|\D+", str(value))]


def _curve(records: tuple[Record, ...]) -> Curve:
    steps = reduce(np.intersect1d, [record.steps for record in records])
    values = np.stack([record.returns[np.isin(record.steps, steps)] for record in records])
    return Curve(records[0].settings, records, steps, *mean_sd(values))
