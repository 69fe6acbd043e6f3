"""Statistics over all tasks of a report, of scores that make returns of different tasks comparable."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smrl.paper import published
from smrl.report.statistics import (
    Interval,
    bootstrap_interval,
    iqm,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    return_at,
)
from smrl.report.summary import Row

POINTS = 41  # of a performance profile


@dataclass(frozen=True, eq=False)
class Aggregate:
    """One name over all tasks that have a score."""

    name: str
    scores: NDArray[np.float64]  # (seeds, tasks)
    iqm: Interval
    gap: Interval  # to a score of 1
    improvement: Interval  # probability of beating a run of the first name; NaN for the first itself
    thresholds: NDArray[np.float64]
    profile: Interval


def unit(env: str) -> float | None:
    """The return that is a score of 1; None where no published number suggests one.

    It is 1,000, the highest possible, on the DeepMind Control suite and else the last mean of the published SAC curve.
    """
    if published.suite_of(env).startswith("dmc"):
        return 1000.0
    curve = published.curve("sac", env)
    return None if curve is None else float(curve.mean[-1])


def aggregates(rows: Sequence[Row]) -> tuple[list[str], list[Aggregate]]:
    """The tasks that have a score, and one aggregate per name with runs on all of them; none below two tasks.

    All names are compared at the last step that all of them reached on a task, with equally many seeds per task.
    """
    by_name: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.step and unit(row.curve.env) is not None:
            by_name.setdefault(row.name, {})[row.curve.env] = row
    tasks = list(dict.fromkeys(env for known in by_name.values() for env in known))
    whole = {name: known for name, known in by_name.items() if len(known) == len(tasks)}
    if len(tasks) < 2 or not whole:
        return tasks, []
    steps = {env: min(known[env].step for known in whole.values()) for env in tasks}
    scores = {name: _scores([known[env] for env in tasks], steps) for name, known in whole.items()}
    top = max(1.0, *(float(values.max()) for values in scores.values()))
    thresholds = np.linspace(0.0, top, POINTS)
    first = next(iter(scores.values()))
    return tasks, [_aggregate(name, values, first, thresholds) for name, values in scores.items()]


def _scores(rows: Sequence[Row], steps: dict[str, int]) -> NDArray[np.float64]:
    seeds = min(len(row.curve.records) for row in rows)
    columns = []
    for row in rows:
        env = row.curve.env
        returns = [float(return_at(steps[env], one.steps, one.returns)) for one in row.curve.records[:seeds]]
        columns.append(np.array(returns) / (unit(env) or np.nan))
    return np.stack(columns, axis=1)


def _aggregate(
    name: str, scores: NDArray[np.float64], first: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> Aggregate:
    nothing = np.array(np.nan)
    return Aggregate(
        name=name,
        scores=scores,
        iqm=bootstrap_interval(iqm, scores),
        gap=bootstrap_interval(optimality_gap, scores),
        improvement=Interval(nothing, nothing, nothing)
        if scores is first
        else bootstrap_interval(probability_of_improvement, scores, first),
        thresholds=thresholds,
        profile=bootstrap_interval(lambda drawn: performance_profile(drawn, thresholds), scores),
    )
