"""The numbers of a report: learning curves over seeds, one result per curve, and scores over all tasks."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from smrl.presets import known_values
from smrl.report.text import steps_text
from smrl.runs.identity import canonical, label, varying
from smrl.runs.records import Record
from smrl.statistics import (
    RESAMPLES,
    Interval,
    area_under_curve,
    bootstrap_interval,
    iqm,
    mean_sd,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    return_at,
    steps_to,
)

Floats = NDArray[np.float64]
Hours = Mapping[Path, Floats]  # a run's folder → hours of training at each of its evaluations
PROFILE_POINTS = 41
BOOTSTRAP_NUMBERS = 10_000_000  # that a bootstrap of a curve may hold at a time
Band = Literal["sd", "ci", "iqm"]


@dataclass(frozen=True, eq=False)
class Curve:
    """Runs that differ only in seed, steps and how they are evaluated, at the steps that all of them evaluated."""

    settings: dict[str, Any]  # of the first run
    records: tuple[Record, ...]
    steps: NDArray[np.int64]
    mean: Floats
    sd: Floats  # sample standard deviation (n − 1); NaN for one run

    @property
    def values(self) -> Floats:
        """Returns of all runs, (runs, steps)."""
        return _at(self.records, self.steps)

    @property
    def env(self) -> str:
        """Id of the environment."""
        return self.records[0].env

    @property
    def note(self) -> str:
        """What to add to the name of a curve whose returns are not those of evaluations."""
        return " (training episodes)" if self.records[0].episodes == 0 else ""


@dataclass(frozen=True)
class Reached:
    """How soon runs reached a return."""

    steps: float  # mean over the runs that reached it; NaN if none did
    reached: int
    runs: int

    def __str__(self) -> str:
        return f"{steps_text(self.steps)} ({self.reached} of {self.runs})"


@dataclass(frozen=True, eq=False)
class ResultRow:
    """The results of one curve; NaN where a number is unknown or a return was never reached."""

    curve: Curve
    name: str  # within its task
    setting: str  # the same on all tasks
    step: int  # the last step that all runs evaluated; 0 where they have none in common
    budget: int
    returns: Floats  # of each run at that step
    mean: float
    sd: float
    iqm: Interval  # 95 % stratified bootstrap interval over seeds
    best: float  # mean over runs of their best evaluation
    area: float  # mean over runs of the mean return up to that step
    hours: float  # of training up to that step, mean over runs
    target: float  # a return
    reached: Reached  # by each run on its own
    steps_to: float  # on the mean curve
    hours_to: float
    speed_up: float = np.nan  # steps to the target with reuse 1 and otherwise the same settings ÷ those of this row
    speed_up_hours: float = np.nan  # the same in hours

    @property
    def progress(self) -> str:
        """The last common step and, if the runs are unfinished, their budget."""
        return f"{self.step:,}" if self.step >= self.budget else f"{self.step:,} of {self.budget:,}"


@dataclass(frozen=True, eq=False)
class Aggregate:
    """The results of one setting over all tasks that have scores."""

    setting: str
    scores: Floats  # (seeds, tasks)
    iqm: Interval
    gap: Interval  # to a score of 1
    improvement: Interval  # probability of beating a run of the first aggregate; NaN for the first itself
    thresholds: Floats
    profile: Interval


def curves(records: Sequence[Record]) -> list[Curve]:
    """Group runs into curves, ordered by environment, algorithm, reuse and the other settings that vary."""
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: (record.seed, record.path)):
        groups.setdefault(record.identity, []).append(record)
    names = ("env", "algorithm", "reuse", *varying([record.settings for record in records]))
    found = [_curve(tuple(group)) for group in groups.values()]
    return sorted(found, key=lambda curve: [_rank(curve.settings.get(name)) for name in names])


def curve_names(curves: Sequence[Curve]) -> list[str]:
    """Name each curve by its algorithm, its reuse, and what else differs on its task among curves of its algorithm.

    Settings that have the values of the preset are left out, unless two names would be the same.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for curve in curves:
        groups.setdefault((curve.env, curve.settings["algorithm"]), []).append(curve.settings)
    shown = {key: varying(group) for key, group in groups.items()}
    return _labels(curves, [shown[curve.env, curve.settings["algorithm"]] for curve in curves])


def setting_names(curves: Sequence[Curve]) -> list[str]:
    """Name the settings of each curve by what differs among all curves, so that names hold for all tasks."""
    shown = varying([curve.settings for curve in curves])
    return _labels(curves, [shown] * len(curves))


def colour_numbers(curves: Sequence[Curve], settings: Sequence[str]) -> dict[str, int]:
    """Assign a colour number to each of the settings, which are named as `setting_names` does.

    Settings on a common task get different numbers. Runs on other tasks do not change them, so a setting has the same
    colour in `smrl compare` and in a report on more tasks.
    """
    names = ("algorithm", "reuse", *varying([curve.settings for curve in curves]))
    first = dict(zip(reversed(settings), reversed(curves), strict=True))
    envs: dict[str, set[str]] = {}
    for curve, setting in zip(curves, settings, strict=True):
        envs.setdefault(setting, set()).add(curve.env)
    numbers: dict[str, int] = {}
    for setting in sorted(first, key=lambda one: [_rank(first[one].settings.get(name)) for name in names]):
        taken = {number for other, number in numbers.items() if envs[other] & envs[setting]}
        numbers[setting] = next(number for number in itertools.count() if number not in taken)
    return numbers


def band(curve: Curve, kind: Band) -> Interval:
    """Return a curve's middle and band: mean ± standard deviation, or mean or IQM with its 95 % bootstrap interval.

    Intervals are those of each step alone, and unknown for a single run.
    """
    if kind == "sd" or not curve.steps.size:
        return Interval(curve.mean, curve.mean - curve.sd, curve.mean + curve.sd)

    def statistic(values: Floats) -> Floats:  # (…, runs, steps) → (…, steps)
        return np.mean(values, axis=-2) if kind == "ci" else iqm(np.swapaxes(values, -1, -2)[..., None])

    values = curve.values
    pieces = -(-values.size * RESAMPLES // BOOTSTRAP_NUMBERS)
    found = [bootstrap_interval(statistic, piece) for piece in np.array_split(values, pieces, axis=1) if piece.size]
    return Interval(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def mean_steps_to(records: Sequence[Record], score: float) -> Reached:
    """Return how soon and how many of these runs reached the score."""
    steps = np.array([steps_to(score, record.steps, record.returns) for record in records])
    reached = steps[~np.isnan(steps)]
    return Reached(float(reached.mean()) if reached.size else np.nan, reached.size, len(records))


def mean_hours(curve: Curve, hours: Hours) -> Floats:
    """Return the hours at a curve's steps, averaged over its runs; NaN where a run did not record them."""
    of_runs = [
        hours.get(record.path, np.full(record.steps.shape, np.nan))[np.isin(record.steps, curve.steps)]
        for record in curve.records
    ]
    return np.mean(of_runs, axis=0)


def summarise(
    curves: Sequence[Curve], target: Callable[[str], float] = lambda env: np.nan, hours: Hours | None = None
) -> list[ResultRow]:
    """Compute one row per curve; ``target`` gives the return to reach in an environment, or NaN."""
    rows = [
        _row(curve, name, setting, target(curve.env), mean_hours(curve, hours or {}))
        for curve, name, setting in zip(curves, curve_names(curves), setting_names(curves), strict=True)
    ]
    baselines = {_without_reuse(row.curve): row for row in rows if row.curve.records[0].reuse == "1"}
    return [_with_speed_up(row, baselines.get(_without_reuse(row.curve))) for row in rows]


def aggregates(rows: Sequence[ResultRow], units: Mapping[str, float]) -> list[Aggregate]:
    """Compute one aggregate per setting that has runs on all tasks of ``units``; none for fewer than two tasks.

    A score is a return divided by the unit of its task. All settings are compared at the last step that all of them
    reached on a task, with the same number of seeds on every task.
    """
    by_setting: dict[str, dict[str, ResultRow]] = {}
    for row in rows:
        if row.step and row.curve.env in units:
            by_setting.setdefault(row.setting, {})[row.curve.env] = row
    complete = {name: by_env for name, by_env in by_setting.items() if len(by_env) == len(units)}
    if len(units) < 2 or not complete:
        return []
    steps = {env: min(by_env[env].step for by_env in complete.values()) for env in units}
    scores = {name: _scores([by_env[env] for env in units], steps, units) for name, by_env in complete.items()}
    top = max(1.0, *(float(values.max()) for values in scores.values()))
    thresholds = np.linspace(0.0, top, PROFILE_POINTS)
    first = next(iter(scores.values()))
    return [_aggregate(name, values, first, thresholds) for name, values in scores.items()]


def _curve(records: tuple[Record, ...]) -> Curve:
    steps = reduce(np.intersect1d, [record.steps for record in records])
    return Curve(records[0].settings, records, steps, *mean_sd(_at(records, steps)))


def _at(records: Sequence[Record], steps: NDArray[np.int64]) -> Floats:
    return np.stack([record.returns[np.isin(record.steps, steps)] for record in records])


def _labels(curves: Sequence[Curve], shown: Sequence[Sequence[str]]) -> list[str]:
    """Return a label per curve with the settings of these names, without usual values where it is distinct anyway."""
    pairs = list(zip(curves, shown, strict=True))
    short = [label(curve.settings, names, known_values(curve.settings)) for curve, names in pairs]
    count = Counter((curve.env, name) for curve, name in zip(curves, short, strict=True))
    return [
        (name if count[curve.env, name] == 1 else label(curve.settings, names)) + curve.note
        for (curve, names), name in zip(pairs, short, strict=True)
    ]


def _rank(value: Any) -> tuple[Any, ...]:
    """Return a setting's sort key: None, numbers, lists, texts; digits within a text compare as numbers."""
    if value is None:
        return (0,)
    if isinstance(value, int | float):
        return 1, value
    if isinstance(value, list):
        return 2, [_rank(item) for item in value]
    return 3, [(0, int(part)) if part.isdecimal() else (1, part) for part in re.findall(r"\d+|\D+", str(value))]


def _without_reuse(curve: Curve) -> str:
    return canonical({**curve.settings, "reuse": ""})


def _with_speed_up(row: ResultRow, baseline: ResultRow | None) -> ResultRow:
    if baseline is None:
        return row
    in_steps = baseline.steps_to / row.steps_to if row.steps_to else np.nan
    in_hours = baseline.hours_to / row.hours_to if row.hours_to else np.nan
    return replace(row, speed_up=in_steps, speed_up_hours=in_hours)


def _row(curve: Curve, name: str, setting: str, target: float, hours: Floats) -> ResultRow:
    values = curve.values
    has_steps = curve.steps.size > 0
    final = values[:, -1] if has_steps else np.full(len(values), np.nan)
    mean, sd = mean_sd(final)
    return ResultRow(
        curve=curve,
        name=name,
        setting=setting,
        step=int(curve.steps[-1]) if has_steps else 0,
        budget=max(record.budget for record in curve.records),
        returns=final,
        mean=float(mean),
        sd=float(sd),
        iqm=bootstrap_interval(iqm, final[:, None]),
        best=float(np.mean([record.returns.max() for record in curve.records])),
        area=float(np.mean(area_under_curve(curve.steps, values))) if has_steps else np.nan,
        hours=float(hours[-1]) if has_steps else np.nan,
        target=target,
        reached=mean_steps_to(curve.records, target),
        steps_to=float(steps_to(target, curve.steps, curve.mean)) if has_steps else np.nan,
        hours_to=float(steps_to(target, hours, curve.mean)) if has_steps else np.nan,
    )


def _scores(rows: Sequence[ResultRow], steps: Mapping[str, int], units: Mapping[str, float]) -> Floats:
    seeds = min(len(row.curve.records) for row in rows)
    columns = [
        [return_at(steps[row.curve.env], one.steps, one.returns) for one in row.curve.records[:seeds]] for row in rows
    ]
    return np.stack(columns, axis=1) / [units[row.curve.env] for row in rows]


def _aggregate(setting: str, scores: Floats, first: Floats, thresholds: Floats) -> Aggregate:
    unknown = np.array(np.nan)
    return Aggregate(
        setting=setting,
        scores=scores,
        iqm=bootstrap_interval(iqm, scores),
        gap=bootstrap_interval(optimality_gap, scores),
        improvement=Interval(unknown, unknown, unknown)
        if scores is first
        else bootstrap_interval(probability_of_improvement, scores, first),
        thresholds=thresholds,
        profile=bootstrap_interval(lambda drawn: performance_profile(drawn, thresholds), scores),
    )
