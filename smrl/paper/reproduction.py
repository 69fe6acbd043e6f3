"""What a study of the paper found, in the paper's layout: its numbers beside ours, and a verdict on each."""

from collections.abc import Iterable, Sequence

import numpy as np

from smrl.paper import bands
from smrl.paper.published import PaperNumber, task_name
from smrl.report.grids import NOT_KNOWN, Grid
from smrl.report.statistics import return_at, steps_to
from smrl.report.summary import Row
from smrl.report.text import number, spread

PAPER_TIMES = 6 / 1.5  # hours of SAC on Walker2d with reuse 10 over those without, in the paper's text


def verdict(value: float, mean: float, sd: float) -> str:
    """Where a mean over seeds lies with respect to the published mean ± one standard deviation.

    >>> verdict(5.0, 4.0, 1.5), verdict(1.0, 4.0, 1.5), verdict(6.0, 4.0, 1.5)
    ('inside', 'below', 'above')
    """
    if np.isnan(value):
        return NOT_KNOWN
    return "below" if value < mean - sd else "above" if value > mean + sd else "inside"


def curves_grid(rows: Sequence[Row]) -> Grid:
    """Returns at the last step of the runs, beside what is published there."""
    cells = []
    for row in rows:
        band = bands.find(row.curve.settings).band(row.step) if row.step else None
        ours = (row.curve.env, row.name, f"{row.step:,}", spread(row.returns), f"{len(row.returns)}")
        if band is None:
            cells.append((*ours, NOT_KNOWN, NOT_KNOWN, ""))
        else:
            size = max(abs(band.mean), abs(row.mean))
            theirs = f"{number(band.mean, size)} ± {number(band.sd, size)}"
            source = f"{band.name} of {band.source}, {band.seeds} seeds{'; ' * bool(band.remark)}{band.remark}"
            cells.append((*ours, theirs, verdict(row.mean, band.mean, band.sd), source))
    columns = ("task", "settings", "step", "return", "seeds", "published", "verdict", "source")
    note = (
        "The paper prints no numbers of its figures; published is what others report for the same algorithm and task."
    )
    return Grid("Returns at the end", columns, tuple(cells), note, ("task", "settings", "verdict", "source"))


def returns_grid(rows: Sequence[Row], at: Sequence[int], scale: float) -> Grid:
    """A table of the paper's: returns at some steps, a column per algorithm."""
    names, cells = _paper_names(rows), []
    for step in at:
        for env in dict.fromkeys(row.curve.env for row in rows):
            mine = {name: row for row in rows if row.curve.env == env and (name := _paper_name(row)) is not None}
            cell = [_return_cell(mine[name], step, scale) if name in mine else NOT_KNOWN for name in names]
            cells.append((f"{task_name(env).rpartition('/')[2]}@{step * scale / 1000:,g}K", *cell))
    return Grid("Returns, here and in the paper", ("task", *names), tuple(cells), _scale_note(scale), ("task", *names))


def ratios_grid(rows: Sequence[Row], at: Sequence[int], scale: float) -> Grid:
    """How many times the return of SAC the others have: by the ratio of means over tasks and the mean of ratios."""
    names, cells = _paper_names(rows), []
    for step in at:
        by_name = {name: [_mean_at(row, step * scale) for row in rows if _paper_name(row) == name] for name in names}
        base = np.array(by_name[names[0]])
        for name in names[1:]:
            values = np.array(by_name[name])
            if values.shape == base.shape:
                ratios = (float(values.mean() / base.mean()), float((values / base).mean()))
                cells.append((f"{name} over {names[0]}@{step * scale / 1000:,g}K", *(number(one, 1) for one in ratios)))
    note = "The paper says 2.5 and 2.0 of SAC-SMR at 250K and 500K; its numbers give 2.47 and 1.91, or 2.58 and 1.97."
    columns = ("returns", "ratio of means", "mean of ratios")
    return Grid("Returns over those of SAC", columns, tuple(cells), note, ("returns",))


def steps_grid(rows: Sequence[Row], scale: float) -> Grid:
    """The paper's table of sample efficiency: steps to a return on the mean curve, a column per algorithm."""
    names, cells = _paper_names(rows), []
    for env in dict.fromkeys(row.curve.env for row in rows):
        mine = {name: row for row in rows if row.curve.env == env and (name := _paper_name(row)) is not None}
        targets = {bands.step_of(printed) for printed in bands.paper_task(env)}
        for target in sorted(targets):
            cell = [_steps_cell(mine[name], target) if name in mine else NOT_KNOWN for name in names]
            cells.append((f"{env.partition('-')[0]}@{target}", *cell))
    note = f"Steps of the mean curve, and in brackets the seeds that arrived. {_scale_note(scale)}".strip()
    return Grid("Steps to a return, here and in the paper", ("task", *names), tuple(cells), note, ("task", *names))


def hours_grid(rows: Sequence[Row]) -> Grid:
    """How many times as long a run with reuse takes."""
    base = {row.curve.env: row.hours for row in rows if row.curve.records[0].reuse == "1"}
    cells = tuple(
        (row.curve.env, row.name, number(row.hours), f"{number(row.hours / base[row.curve.env], 10)}×")
        for row in rows
        if row.curve.env in base
    )
    note = (
        f"The paper's text: SAC on Walker2d took {PAPER_TIMES:g} times as long with reuse 10, typically 3 to 5 times."
    )
    return Grid("Training time", ("task", "settings", "hours", "over reuse 1"), cells, note, ("task", "settings"))


def _return_cell(row: Row, step: int, scale: float) -> str:
    ours = [float(return_at(step * scale, one.steps, one.returns)) for one in row.curve.records]
    printed = _printed(row, step)
    if printed is None or printed.sd is None:
        return spread(np.array(ours))
    judged = f": {verdict(float(np.mean(ours)), printed.value, printed.sd)}" if scale == 1 else ""
    return f"{spread(np.array(ours))} (paper {printed.value} ± {printed.sd}{judged})"


def _steps_cell(row: Row, target: int) -> str:
    steps = float(steps_to(target, row.curve.steps, row.curve.mean)) if row.step else np.nan
    seeds = [float(steps_to(target, one.steps, one.returns)) for one in row.curve.records]
    ours = "never" if np.isnan(steps) else f"{steps / 1000:,.0f}K"
    printed = _printed(row, target)
    theirs = f", paper {printed.value / 1000:,.0f}K" if printed else ""
    return f"{ours} ({np.isfinite(seeds).sum()} of {len(seeds)}{theirs})"


def _printed(row: Row, step: int) -> PaperNumber | None:
    return next((one for one in bands.find(row.curve.settings).numbers if bands.step_of(one) == step), None)


def _mean_at(row: Row, step: float) -> float:
    return float(np.mean([return_at(step, one.steps, one.returns) for one in row.curve.records]))


def _paper_name(row: Row) -> str | None:
    known = bands.counterpart(row.curve.settings)
    return known.paper if known else None


def _paper_names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows if (name := _paper_name(row))))


def _scale_note(scale: float) -> str:
    return (
        "" if scale == 1 else f"These runs have {scale:g} of the paper's steps, so its numbers are no measure of them."
    )
