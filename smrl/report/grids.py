"""The tables of a report as texts: what the page, Markdown and LaTeX show."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from smrl.paper.bands import find, remark, step_of
from smrl.report.aggregate import Aggregate, unit
from smrl.report.gather import Run
from smrl.report.statistics import Interval, return_at, steps_to
from smrl.report.summary import Row, steps_words
from smrl.report.text import number, spread
from smrl.runs.identity import ALWAYS_SHOWN, identity, words

NOT_KNOWN = "–"


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    left: tuple[str, ...] = ("settings",)  # columns of words; the others are of numbers


def result_grids(rows: Sequence[Row]) -> list[Grid]:
    """One table per environment."""
    envs = dict.fromkeys(row.curve.env for row in rows)
    return [_results(env, [row for row in rows if row.curve.env == env]) for env in envs]


def _results(env: str, rows: Sequence[Row]) -> Grid:
    columns = ("settings", "return", "IQM", "best", "mean over training", "seeds", "step", "hours")
    cells = [
        (
            row.name,
            spread(row.returns),
            between(row.iqm, row.iqm_low, row.iqm_high),
            number(row.best),
            number(row.area),
            f"{len(row.returns)}",
            steps_words(row) if row.step else NOT_KNOWN,
            number(row.hours),
        )
        for row in rows
    ]
    return Grid(env, columns, tuple(cells))


def times_grid(rows: Sequence[Row]) -> Grid:
    """How soon a return was reached."""
    cells = tuple(
        (
            *(row.curve.env, row.name, number(row.target, 100), str(row.reached), _steps(row.steps_to)),
            *(_times(row.speed_up), number(row.hours_to), _times(row.speed_up_hours)),
        )
        for row in rows
        if not np.isnan(row.target)
    )
    columns = (
        "task",
        "settings",
        "return",
        "steps, by seed",
        "steps, mean curve",
        "speed-up",
        "hours",
        "speed-up in hours",
    )
    note = (
        "The first evaluation that reached the return: by seed, as the mean over the seeds that did, and on the mean "
        "curve, as are hours. The speed-up is that of the mean curve over the same settings with reuse 1."
    )
    return Grid("Steps to a return", columns, cells, note, ("task", "settings"))


def published_grid(rows: Sequence[Row]) -> Grid:
    """Returns beside the published curve of the same algorithm and task at the same step."""
    cells = []
    for row in rows:
        known = find(row.curve.settings)
        found = known.band(row.step) if row.step and known.curve else None
        if found is not None:
            size = max(abs(found.mean), abs(row.mean))
            cells.append(
                (
                    *(row.curve.env, row.name, f"{row.step:,}", spread(row.returns)),
                    f"{number(found.mean, size)} ± {number(found.sd, size)}",
                    *(f"{found.name}, {found.seeds} seeds", found.source, found.remark),
                )
            )
    columns = ("task", "settings", "step", "return", "published", "as", "source", "remark")
    note, left = "± is the sample standard deviation over seeds.", ("task", "settings", "as", "source", "remark")
    return Grid("Published curves", columns, tuple(cells), note, left)


def paper_grid(rows: Sequence[Row]) -> Grid:
    """The numbers of the paper's tables beside ours."""
    cells = []
    for row in rows:
        for printed in find(row.curve.settings).numbers:
            if printed.table == "sample_efficiency":
                ours, theirs = _steps(_steps_to(row, step_of(printed))), f"{printed.value:,.0f}"
                what = f"steps to {step_of(printed):,}"
            else:
                ours, theirs = _at(row, step_of(printed)), f"{printed.value} ± {printed.sd}"
                what = f"return at {step_of(printed):,}"
            note = remark(row.curve.settings, printed.algorithm)
            cells.append((row.curve.env, row.name, what, ours, theirs, printed.algorithm, note))
    columns = ("task", "settings", "measure", "here", "paper", "as", "remark")
    note = (
        "Steps here are those of the mean curve. The paper has six seeds and says neither whether its steps are by "
        "seed or of the mean curve, nor of which kind its deviations are."
    )
    return Grid("The paper's tables", columns, tuple(cells), note, ("task", "settings", "measure", "as", "remark"))


def aggregate_grid(tasks: Sequence[str], found: Sequence[Aggregate]) -> Grid:
    """Statistics over tasks."""
    units = ", ".join(f"{number(unit(env) or np.nan)} on {env}" for env in tasks)
    first = found[0].name if found else ""
    cells = tuple(
        (
            one.name,
            f"{len(one.scores)} × {one.scores.shape[1]}",
            *(_interval(each) for each in (one.iqm, one.gap, one.improvement)),
        )
        for one in found
    )
    columns = ("settings", "seeds × tasks", "IQM", "optimality gap", f"probability of improvement over {first}")
    note = f"A score of 1 is a return of {units}. In brackets: 95 % stratified bootstrap interval over seeds."
    return Grid("Over all tasks", columns, cells, note)


def run_grids(runs: Iterable[Run]) -> list[Grid]:
    """One row per run, and the versions and machines that they were made with, which are numbered."""
    made: dict[tuple[str, str], int] = {}
    cells = []
    for run in runs:
        versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
        machine = ", ".join(f"{name} {value}" for name, value in run.machine.items() if value is not None)
        which = made.setdefault((versions, machine), len(made) + 1)
        record = run.record
        steps = f"{record.steps[-1]:,} of {record.budget:,}"
        last = number(record.returns[-1])
        cells.append((str(record.path), record.env, f"{record.seed}", steps, last, number(run.hours[-1]), f"{which}"))
    columns = ("run", "task", "seed", "steps", "last return", "hours", "made with")
    return [
        Grid("Runs", columns, tuple(cells), left=("run", "task")),
        Grid(
            "Versions and machines",
            ("made with", "versions", "machine"),
            tuple((f"{which}", *texts) for texts, which in made.items()),
            left=("versions", "machine"),
        ),
    ]


def settings_grids(rows: Sequence[Row]) -> list[Grid]:
    """The settings that all runs share, and for each row those that are not shared."""
    several = [identity(row.curve.settings) for row in rows]
    texts = [{name: words(value) for name, value in settings.items()} for settings in several]
    names = list(dict.fromkeys(name for settings in texts for name in settings))
    shared = [name for name in names if len({settings.get(name) for settings in texts}) == 1]
    common = tuple((name, texts[0][name]) for name in shared)
    others = tuple(
        (
            row.curve.env,
            row.name,
            ", ".join(f"{name} {text}" for name, text in settings.items() if name not in (*shared, *ALWAYS_SHOWN)),
        )
        for row, settings in zip(rows, texts, strict=True)
    )
    return [
        Grid("Settings of all runs", ("setting", "value"), common, left=("setting", "value")),
        Grid("Settings that differ", ("task", "settings", "in detail"), others, left=("task", "settings", "in detail")),
    ]


def between(value: float, low: float, high: float) -> str:
    """A value with its interval; the interval is left out where it is unknown.

    >>> between(2.0, 1.0, 3.5), between(2.0, np.nan, np.nan)
    ('2.00 [1.00, 3.50]', '2.00')
    """
    if np.isnan(low):
        return number(value)
    size = max(abs(low), abs(high))
    return f"{number(value, size)} [{number(low, size)}, {number(high, size)}]"


def _interval(found: Interval) -> str:
    return between(float(found.value), float(found.low), float(found.high))


def _steps(steps: float) -> str:
    return "never" if np.isnan(steps) else f"{steps:,.0f}"


def _times(ratio: float) -> str:
    return NOT_KNOWN if np.isnan(ratio) else f"{number(ratio, 1)}×"


def _steps_to(row: Row, score: float) -> float:
    return float(steps_to(score, row.curve.steps, row.curve.mean)) if row.step else np.nan


def _at(row: Row, step: int) -> str:
    if not row.step or not row.curve.steps[0] <= step <= row.step:
        return NOT_KNOWN
    return spread(np.array([return_at(step, one.steps, one.returns) for one in row.curve.records]))
