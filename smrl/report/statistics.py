"""What the seeds of an experiment have in common, in plain NumPy."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from smrl.report.records import Record


@dataclass(frozen=True, eq=False)
class Curve:
    """The runs of one (env, variant, reuse) on the steps that all of them have."""

    env: str
    variant: str
    reuse: str
    records: tuple[Record, ...]
    steps: NDArray[np.int64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]  # of the sample (n − 1); 0 for one run


@dataclass(frozen=True)
class Reached:
    """How soon runs reached a threshold: the mean over those that did, None if none did."""

    steps: float | None
    reached: int
    runs: int

    def __str__(self) -> str:
        steps = "never" if self.steps is None else f"{self.steps:,.0f}"
        return f"{steps} ({self.reached} of {self.runs})"


def curves(records: Sequence[Record]) -> list[Curve]:
    """One curve per env, variant and reuse, in this order; reuse 2 comes before reuse 10."""
    ordered = sorted(records, key=lambda record: (*_order(record), record.seed, record.path))
    return [_curve(tuple(group)) for _, group in groupby(ordered, key=_order)]


def final_return(record: Record) -> float:
    """The mean return of the last evaluation."""
    return float(record.returns[-1])


def best_return(record: Record) -> float:
    """The mean return of the best evaluation."""
    return float(record.returns.max())


def steps_to(record: Record, threshold: float) -> int | None:
    """The first step whose evaluation reached the threshold, or None."""
    reached = record.steps[record.returns >= threshold]
    return int(reached[0]) if reached.size else None


def mean_steps_to(records: Sequence[Record], threshold: float) -> Reached:
    """How soon these runs reached the threshold, and how many of them did."""
    reached = [steps for record in records if (steps := steps_to(record, threshold)) is not None]
    return Reached(float(np.mean(reached)) if reached else None, len(reached), len(records))


def sample_sd(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard deviation over the first axis (n − 1); 0 for one value."""
    return values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros_like(values[0])


def _order(record: Record) -> tuple[str, str, list[int], str]:
    return record.env, record.variant, [int(n) for n in re.findall(r"\d+", record.reuse)], record.reuse


def _curve(records: tuple[Record, ...]) -> Curve:
    first = records[0]
    steps = reduce(np.intersect1d, [record.steps for record in records])
    values = np.stack([record.returns[np.isin(record.steps, steps)] for record in records])
    return Curve(first.env, first.variant, first.reuse, records, steps, values.mean(axis=0), sample_sd(values))
