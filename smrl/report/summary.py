"""The numbers of a report, one row per environment and identity: all tables, files and the page show these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from smrl.paper.bands import paper_task, step_of
from smrl.report.curves import Curve, Reached, mean_steps_to
from smrl.report.statistics import area_under_curve, bootstrap_interval, iqm, mean_sd, steps_to
from smrl.runs.identity import canonical, label, varying


class Times(NamedTuple):
    """A target, and the steps and hours that the mean curve takes to it; NaN if it never gets there."""

    target: float = np.nan
    steps: float = np.nan
    hours: float = np.nan


Hours = Mapping[Path, NDArray[np.float64]]  # of a run's folder: hours at each of its evaluations


@dataclass(frozen=True, eq=False)
class Row:
    """Runs of one identity in numbers; NaN where something is unknown or never happened."""

    curve: Curve
    name: str
    step: int  # the last step that all runs evaluated; 0 where they have none in common
    budget: int
    returns: NDArray[np.float64]  # of each run at that step
    mean: float
    sd: float
    iqm: float
    iqm_low: float  # 95 % stratified bootstrap interval over seeds
    iqm_high: float
    best: float  # mean over runs of their best evaluation
    area: float  # mean over runs of the mean return up to that step
    hours: float  # of training up to that step, mean over runs
    target: float  # a return
    reached: Reached  # by each run on its own
    steps_to: float  # on the mean curve
    hours_to: float
    speed_up: float  # steps to the target of the same settings with reuse 1 ÷ those of these
    speed_up_hours: float  # the same in hours


def names(curves: Sequence[Curve]) -> list[str]:
    """What to call each curve: the algorithm, the reuse and the settings that vary among all of them."""
    shown = varying([curve.settings for curve in curves])
    return [label(curve.settings, shown) for curve in curves]


def summarise(curves: Sequence[Curve], target: float | None = None, hours: Hours | None = None) -> list[Row]:
    """One row per curve; without a target it is the return that the paper's table of sample efficiency names."""
    by_curve = [mean_hours(curve, hours or {}) for curve in curves]
    times = [
        _times(curve, _paper_target(curve.env) if target is None else target, axis)
        for curve, axis in zip(curves, by_curve, strict=True)
    ]
    bases = {
        _without_reuse(curve): found
        for curve, found in zip(curves, times, strict=True)
        if curve.records[0].reuse == "1"
    }
    return [
        _row(curve, name, found, bases.get(_without_reuse(curve), Times()), axis)
        for curve, name, found, axis in zip(curves, names(curves), times, by_curve, strict=True)
    ]


def mean_hours(curve: Curve, hours: Hours) -> NDArray[np.float64]:
    """Hours at the steps of a curve, mean over its runs; NaN where one of them does not say."""
    own = [
        hours.get(record.path, np.full(record.steps.shape, np.nan))[np.isin(record.steps, curve.steps)]
        for record in curve.records
    ]
    return np.mean(own, axis=0)


def _row(curve: Curve, name: str, times: Times, base: Times, hours: NDArray[np.float64]) -> Row:
    values = np.array([record.returns[np.isin(record.steps, curve.steps)] for record in curve.records])
    has_steps = curve.steps.size > 0
    final = values[:, -1] if has_steps else np.full(len(values), np.nan)
    mean, sd = mean_sd(final)
    middle = bootstrap_interval(iqm, final[:, None])
    return Row(
        curve=curve,
        name=name,
        step=int(curve.steps[-1]) if has_steps else 0,
        budget=max(record.budget for record in curve.records),
        returns=final,
        mean=float(mean),
        sd=float(sd),
        iqm=float(middle.value),
        iqm_low=float(middle.low),
        iqm_high=float(middle.high),
        best=float(np.mean([record.returns.max() for record in curve.records])),
        area=float(np.mean(area_under_curve(curve.steps, values))) if has_steps else np.nan,
        hours=float(hours[-1]) if has_steps else np.nan,
        target=times.target,
        reached=mean_steps_to(curve.records, times.target),
        steps_to=times.steps,
        hours_to=times.hours,
        speed_up=_ratio(base.steps, times.steps),
        speed_up_hours=_ratio(base.hours, times.hours),
    )


def _times(curve: Curve, target: float, hours: NDArray[np.float64]) -> Times:
    if not curve.steps.size:
        return Times(target)
    return Times(target, *(float(steps_to(target, axis, curve.mean)) for axis in (curve.steps, hours)))


def _paper_target(env: str) -> float:
    scores = [step_of(number) for number in paper_task(env) if number.table == "sample_efficiency"]
    return float(scores[0]) if scores else np.nan


def _ratio(one: float, other: float) -> float:
    return one / other if other else np.nan


def _without_reuse(curve: Curve) -> str:
    return canonical({**curve.settings, "reuse": ""})


def steps_words(row: Row) -> str:
    """The last step that all runs evaluated, and what they are still to make."""
    return f"{row.step:,}" if row.step >= row.budget else f"{row.step:,} of {row.budget:,}"
