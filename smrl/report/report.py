"""Everything that a report shows, computed once: the page, the figures and all tables are made of this."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from smrl.errors import SmrlError
from smrl.report.aggregate import Aggregate, aggregates
from smrl.report.curves import curves
from smrl.report.gather import Run, gather
from smrl.report.grids import (
    Grid,
    aggregate_grid,
    paper_grid,
    published_grid,
    result_grids,
    run_grids,
    settings_grids,
    times_grid,
)
from smrl.report.summary import Hours, Row, summarise


@dataclass(frozen=True, eq=False)
class Report:
    """Runs and their statistics."""

    runs: tuple[Run, ...]
    problems: tuple[str, ...]  # one sentence for each run that is left out and each curve that is cut short
    rows: list[Row]
    tasks: list[str]  # that the aggregates are over
    aggregates: list[Aggregate]
    hours: Hours
    target: float | None


def make_report(folders: Iterable[Path], target: float | None = None) -> Report:
    """Read all runs in these folders and compute; at least one run must be usable."""
    gathered = gather(folders)
    if not gathered.runs:
        raise SmrlError(f"no run can be reported on: {' '.join(gathered.problems)}")
    hours = {run.record.path: run.hours for run in gathered.runs}
    rows = summarise(curves(gathered.records), target, hours)
    tasks, found = aggregates(rows)
    short = [message for row in rows for message in _cut_short(row)]
    return Report(gathered.runs, (*gathered.problems, *short), rows, tasks, found, hours, target)


def sections(report: Report) -> dict[str, list[Grid]]:
    """The tables by section; those without a row are left out."""
    rows = report.rows
    found = {
        "results": [*result_grids(rows), times_grid(rows)],
        "aggregate": [aggregate_grid(report.tasks, report.aggregates)],
        "published": [published_grid(rows), paper_grid(rows)],
        "runs": [*run_grids(report.runs), *settings_grids(rows)],
    }
    return {name: [grid for grid in grids if grid.rows] for name, grids in found.items()}


def _cut_short(row: Row) -> list[str]:
    """What a mean over seeds leaves out."""
    ends = [int(record.steps[-1]) for record in row.curve.records]
    title = f"{row.name}, {row.curve.env}"
    if not row.step:
        return [
            f"{title}: its seeds have no step in common, so there is no mean over them; evaluate all at equal steps."
        ]
    if max(ends) > row.step:
        seeds = ", ".join(f"{one.seed} at {one.steps[-1]:,}" for one in row.curve.records)
        return [f"{title}: means end at step {row.step:,}, the last that all seeds evaluated; seeds end: {seeds}."]
    return []
