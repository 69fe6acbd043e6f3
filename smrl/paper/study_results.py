"""The results of the paper's studies in its layout: its numbers beside ours with verdicts, and the bias figure."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from smrl.paper.bands import counterpart, paper_task, reference, step_of
from smrl.paper.frontier import score_table
from smrl.paper.published import PaperNumber, task_name
from smrl.paper.studies import Study
from smrl.presets import known_values
from smrl.report.figures import COLOURS
from smrl.report.results import ResultRow
from smrl.report.text import UNKNOWN, TextTable, mean_and_sd, number, spread
from smrl.runs.config import read_rows
from smrl.runs.identity import identity, label
from smrl.runs.paths import EVALUATIONS
from smrl.runs.records import Record
from smrl.statistics import Array, area_under_curve, bootstrap_interval, mean_sd, return_at, steps_to

PAPER_TIMES = 6 / 1.5  # hours of SAC on Walker2d with reuse 10 over those without, in the paper's text


def study_tables(study: Study, rows: Sequence[ResultRow], scale: float) -> list[TextTable]:
    """Make the tables of a study; results that its layout does not show are in the table of final returns."""
    final = final_returns(rows)
    if study.layout == "steps":
        return [steps_to_returns(rows, scale), final]
    if study.layout == "returns":
        ratios = return_ratios(rows, study.at, scale)
        return [returns_at_steps(rows, study.at, scale), *([ratios] if study.shows == "Tab. 2" else [])]
    if study.layout == "bias":
        return [final_bias(rows), final]
    if study.layout == "gain":
        return [shares_of_gain(rows), final]
    if study.layout == "scores":
        return [score_table(rows), final]
    return [training_time(rows), final] if study.layout == "hours" else [final]


def position(value: float, mean: float, sd: float) -> str:
    """Return where a mean over seeds lies relative to the published mean ± one standard deviation.

    >>> position(5.0, 4.0, 1.5), position(1.0, 4.0, 1.5), position(6.0, 4.0, 1.5)
    ('inside', 'below', 'above')
    """
    if np.isnan(value):
        return UNKNOWN
    return "below" if value < mean - sd else "above" if value > mean + sd else "inside"


def final_returns(rows: Sequence[ResultRow]) -> TextTable:
    """Make the table of returns at the last step of the runs, beside what is published there."""
    cells = []
    for row in rows:
        band = reference(row.curve.settings).band(row.step) if row.step else None
        step, seeds = f"{row.step:,}", f"{len(row.returns)}"
        ours = (row.curve.env, row.name, step, spread(row.returns), number(row.area), seeds)
        if band is None:
            cells.append((*ours, UNKNOWN, UNKNOWN, ""))
        else:
            theirs = mean_and_sd(band.mean, band.sd, max(abs(band.mean), abs(row.mean)))
            source = f"{band.name} of {band.source}, {band.seeds} seeds{'; ' * bool(band.remark)}{band.remark}"
            cells.append((*ours, theirs, position(row.mean, band.mean, band.sd), source))
    columns = ("task", "settings", "step", "return", "mean over the run", "seeds", "published", "verdict", "source")
    note = (
        "The paper prints no numbers of its figures; published is what others report for the same algorithm and task."
    )
    return TextTable("Returns at the end", columns, tuple(cells), note, ("task", "settings", "verdict", "source"))


def returns_at_steps(rows: Sequence[ResultRow], at: Sequence[int], scale: float) -> TextTable:
    """Make a table of the paper: returns at some steps, with a column per algorithm."""
    names, cells = _paper_names(rows), []
    for step in at:
        for env in dict.fromkeys(row.curve.env for row in rows):
            by_name = _by_paper_name(rows, env)
            cell = [_return_cell(by_name[name], step, scale) if name in by_name else UNKNOWN for name in names]
            cells.append((f"{task_name(env).rpartition('/')[2]}@{step * scale / 1000:,g}K", *cell))
    columns = ("task", *names)
    return TextTable("Returns, here and in the paper", columns, tuple(cells), _scale_note(scale), columns)


def return_ratios(rows: Sequence[ResultRow], at: Sequence[int], scale: float) -> TextTable:
    """Make the table of returns relative to SAC: the ratio of means over tasks and the mean of ratios."""
    names, cells = _paper_names(rows), []

    def mean_at(row: ResultRow, step: float) -> float:
        return float(np.mean([return_at(step, one.steps, one.returns) for one in row.curve.records]))

    for step in at:
        by_name = {name: [mean_at(row, step * scale) for row in rows if _paper_name(row) == name] for name in names}
        base = np.array(by_name[names[0]])
        for name in names[1:]:
            values = np.array(by_name[name])
            if values.shape == base.shape:
                ratios = (float(values.mean() / base.mean()), float((values / base).mean()))
                cells.append((f"{name} over {names[0]}@{step * scale / 1000:,g}K", *(number(one, 1) for one in ratios)))
    note = "The paper says 2.5 and 2.0 of SAC-SMR at 250K and 500K; its numbers give 2.47 and 1.91, or 2.58 and 1.97."
    columns = ("returns", "ratio of means", "mean of ratios")
    return TextTable("Returns over those of SAC", columns, tuple(cells), note, ("returns",))


def steps_to_returns(rows: Sequence[ResultRow], scale: float) -> TextTable:
    """Make the paper's table of sample efficiency: steps to a return on the mean curve, a column per algorithm."""
    names, cells = _paper_names(rows), []
    for env in dict.fromkeys(row.curve.env for row in rows):
        by_name = _by_paper_name(rows, env)
        for target in sorted({step_of(printed) for printed in paper_task(env)}):
            cell = [_steps_cell(by_name[name], target) if name in by_name else UNKNOWN for name in names]
            cells.append((f"{env.partition('-')[0]}@{target}", *cell))
    note = f"Steps of the mean curve, and in brackets the seeds that arrived. {_scale_note(scale)}".strip()
    columns = ("task", *names)
    return TextTable("Steps to a return, here and in the paper", columns, tuple(cells), note, columns)


def training_time(rows: Sequence[ResultRow]) -> TextTable:
    """Make the table of hours of training, also relative to reuse 1."""
    base = {row.curve.env: row.hours for row in rows if row.curve.records[0].reuse == "1"}
    cells = tuple(
        (row.curve.env, row.name, number(row.hours), f"{number(row.hours / base[row.curve.env], 10)}×")
        for row in rows
        if row.curve.env in base
    )
    note = (
        f"The paper's text: SAC on Walker2d took {PAPER_TIMES:g} times as long with reuse 10, typically 3 to 5 times."
    )
    return TextTable("Training time", ("task", "settings", "hours", "over reuse 1"), cells, note, ("task", "settings"))


def shares_of_gain(rows: Sequence[ResultRow]) -> TextTable:
    """Make the table of what each control keeps of the gain of reuse 10 over reuse 1.

    The mean return A over the first steps, as many as all runs of a task have, gives the share (A − A₁) / (A₁₀ − A₁).
    """

    def share(areas: Array, first: Array, tenth: Array) -> Array:  # (…, seeds, 1) each
        low, high = first.mean(axis=(-2, -1)), tenth.mean(axis=(-2, -1))
        return (areas.mean(axis=(-2, -1)) - low) / (high - low)

    cells = []
    for env in dict.fromkeys(row.curve.env for row in rows):
        here = [row for row in rows if row.curve.env == env]
        end = min(row.step for row in here)
        areas = {row.name: _areas(row, end) for row in here}
        base = {row.curve.settings["reuse"]: areas[row.name] for row in here if _is_usual(row)}
        for row in here:
            area, text = areas[row.name], UNKNOWN
            if _is_usual(row):
                text = {"1": "0", "10": "1"}.get(row.curve.settings["reuse"], UNKNOWN)
            elif "1" in base and "10" in base:
                value, low, high = (float(one) for one in bootstrap_interval(share, area, base["1"], base["10"]))
                text = f"{value:.2f}" + ("" if np.isnan(low) else f" [{low:.2f}, {high:.2f}]")
            cells.append((env, row.name, f"{len(area)}", f"{end:,}", spread(area[:, 0]), text))
    columns = ("task", "settings", "seeds", "steps", "mean return until then", "share of the gain")
    note = "Reuse 1 is 0 and reuse 10 is 1 by definition. Brackets: 95 % bootstrap interval over seeds."
    return TextTable("Share of the gain of reuse", columns, tuple(cells), note, ("task", "settings"))


def _is_usual(row: ResultRow) -> bool:
    """Return whether all settings but the reuse are those of the preset."""
    settings = row.curve.settings
    return label(settings, list(identity(settings)), known_values(settings)) == label(settings, [])


def _areas(row: ResultRow, end: int) -> Array:
    """Return the mean return of each run until a step, (seeds, 1)."""
    until = row.curve.steps <= end
    return area_under_curve(row.curve.steps[until], row.curve.values[:, until])[:, None]


class Bias(NamedTuple):
    """Mean and standard deviation of a run's normalised bias, at the steps at which it was measured."""

    steps: NDArray[np.float64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]


def read_bias(record: Record) -> Bias:
    """Read the bias from a run's evaluations until the record's end; it is empty where none was measured."""
    rows = csv.DictReader(read_rows(record.path / EVALUATIONS))
    found = [[float(row[name]) for name in ("step", "bias", "bias_sd")] for row in rows if row.get("bias")]
    return Bias(*np.array([row for row in found if row[0] <= record.budget]).reshape(-1, 3).T)


def final_bias(rows: Sequence[ResultRow]) -> TextTable:
    """Make the table of the estimation bias at the end: its normalised mean and standard deviation."""
    cells = []
    for row in rows:
        found = [read_bias(record) for record in row.curve.records]
        last = np.array([(one.mean[-1], one.sd[-1]) for one in found if len(one.steps)])
        if len(last):
            cells.append((row.curve.env, row.name, f"{row.step:,}", spread(last[:, 0]), spread(last[:, 1])))
    columns = ("task", "settings", "step", "mean of the bias", "sd of the bias")
    return TextTable(
        "Normalised estimation bias", columns, tuple(cells), "The paper prints no numbers.", ("task", "settings")
    )


def bias_figure(rows: Sequence[ResultRow], path: Path) -> Path:
    """Draw Fig. 8: the mean and the standard deviation of the normalised bias over steps, with bands over seeds."""
    figure = Figure(figsize=(7.8, 3.4), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    for panel, title in enumerate(("mean of the normalised bias", "standard deviation of the normalised bias")):
        axes = figure.add_subplot(1, 2, panel + 1, title=title, xlabel="environment steps")
        for row, colour in zip(rows, COLOURS, strict=False):
            found = [read_bias(record) for record in row.curve.records]
            length = min(len(one.steps) for one in found)
            if length:
                steps = found[0].steps[:length]
                mean, sd = mean_sd([one[1 + panel][:length] for one in found])
                axes.plot(steps, mean, color=colour, label=row.name)
                axes.fill_between(steps, mean - np.nan_to_num(sd), mean + np.nan_to_num(sd), color=colour, alpha=0.2)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    return path


def _return_cell(row: ResultRow, step: int, scale: float) -> str:
    ours = [float(return_at(step * scale, one.steps, one.returns)) for one in row.curve.records]
    printed = _printed(row, step)
    if printed is None or printed.sd is None:
        return spread(np.array(ours))
    where = f": {position(float(np.mean(ours)), printed.value, printed.sd)}" if scale == 1 else ""
    return f"{spread(np.array(ours))} (paper {printed.value} ± {printed.sd}{where})"


def _steps_cell(row: ResultRow, target: int) -> str:
    steps = float(steps_to(target, row.curve.steps, row.curve.mean)) if row.step else np.nan
    seeds = [float(steps_to(target, one.steps, one.returns)) for one in row.curve.records]
    ours = "never" if np.isnan(steps) else f"{steps / 1000:,.0f}K"
    printed = _printed(row, target)
    theirs = f", paper {printed.value / 1000:,.0f}K" if printed else ""
    return f"{ours} ({np.isfinite(seeds).sum()} of {len(seeds)}{theirs})"


def _printed(row: ResultRow, step: int) -> PaperNumber | None:
    return next((one for one in reference(row.curve.settings).numbers if step_of(one) == step), None)


def _paper_name(row: ResultRow) -> str:
    known = counterpart(row.curve.settings)
    return known.paper if known else ""


def _paper_names(rows: Iterable[ResultRow]) -> list[str]:
    return list(dict.fromkeys(name for row in rows if (name := _paper_name(row))))


def _by_paper_name(rows: Iterable[ResultRow], env: str) -> dict[str, ResultRow]:
    return {name: row for row in rows if row.curve.env == env and (name := _paper_name(row))}


def _scale_note(scale: float) -> str:
    if scale == 1:
        return ""
    return f"These runs have {scale:g} of the paper's steps, so its numbers are no measure of them."
