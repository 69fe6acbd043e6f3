"""A report: the runs below some folders, their statistics, and optionally published results beside them."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smrl.errors import SmrlError, require
from smrl.reading import refusal, unreadable
from smrl.report.results import Aggregate, Hours, ResultRow, aggregates, curves, summarise
from smrl.report.tables import aggregate_table, result_tables, settings_tables, target_table
from smrl.report.text import TextTable, number
from smrl.runs.config import read_rows
from smrl.runs.paths import CHECKPOINT, CONFIG, EVALUATIONS, TENSORBOARD, TRAINING, RunDirectory, find_files
from smrl.runs.records import Record, Table, read_run, read_table

PARTS = {CHECKPOINT, TENSORBOARD}  # folders of a run that a report does not need
CURVES = (  # columns of training.csv that are drawn, in this order
    *("reuse", "td_error_ratio", "dormant_critic", "dormant_actor", "critic_rank", "critic_weight_norm"),
    *("actor_weight_norm", "critic_gradient_norm", "actor_gradient_norm", "q_mean", "q_over_return"),
)
CONTROL_SUITE = ("dmc/", "dmc-pixels/", "dm_control/")  # tasks whose returns are at most 1,000


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """A run's record with its hours of training, its versions and its machine."""

    record: Record
    hours: NDArray[np.float64]  # of training at each evaluation; NaN where training.csv does not have them
    training: Table  # columns of training.csv that have curves, and its steps
    versions: dict[str, Any]
    machine: dict[str, Any]  # processor, threads, backend, git commit


@dataclass(frozen=True, eq=False)
class PublishedCurve:
    """Mean and sample standard deviation (n − 1) over seeds at environment steps as smrl counts them."""

    algorithm: str
    env: str
    steps: NDArray[np.float64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    seeds: NDArray[np.int64]  # runs at each step
    source: str  # a key of the sources @ the beginning of a commit


@dataclass(frozen=True)
class Published:
    """Published results to show beside runs, as functions of an environment's id or of a run's settings."""

    target: Callable[[str], float]  # environment → the return that sample efficiency is measured by, or NaN
    unit: Callable[[str], float | None]  # environment → the return that counts as a score of 1
    curves: Callable[[str], Sequence[PublishedCurve]]  # environment → all its curves
    curve: Callable[[Mapping[str, Any]], PublishedCurve | None]  # settings → the curve of the same algorithm
    remark: Callable[[Mapping[str, Any], str], str]  # settings and published algorithm → how their protocols differ
    tables: Callable[[Sequence[ResultRow]], list[TextTable]]  # results beside published ones
    sources: Callable[[], TextTable]


@dataclass(frozen=True, eq=False)
class Report:
    """Runs and their statistics; the page, the figures and all tables are made from it."""

    runs: tuple[ReportedRun, ...]
    excluded: tuple[str, ...]  # a message for each run that cannot be used
    truncated: tuple[str, ...]  # a message for each run that another repeats, and curve that ends before its runs
    rows: list[ResultRow]
    units: dict[str, float]  # the return that counts as a score of 1, by task
    aggregates: list[Aggregate]
    hours: Hours
    published: Published | None
    training: Mapping[Path, Table]  # of each run by its path: the columns of training.csv that have curves

    @property
    def problems(self) -> tuple[str, ...]:
        """Messages about excluded and truncated runs."""
        return self.excluded + self.truncated


def make_report(
    folders: Iterable[Path],
    target: float | None = None,
    published: Published | None = None,
    ends: Mapping[str, int] | None = None,
) -> Report:
    """Read all runs in these folders and compute their statistics; at least one run must be usable.

    Steps to a return are counted for ``target``, by default for the published target of each environment. With
    ``ends``, by identity, evaluations after that step are left out, and a run with an averaged policy that recorded
    those of the newest policy, too, is reported as the run without averaging if ``ends`` has that.
    """
    found, excluded = _read_runs(folders, ends or {})
    if not found:
        raise SmrlError(f"no run can be reported on: {' '.join(excluded)}")
    runs, repeated = _without_repetitions(found)

    def target_in(env: str) -> float:
        if target is not None:
            return target
        return published.target(env) if published else np.nan

    hours = {run.record.path: run.hours for run in runs}
    rows = summarise(curves([run.record for run in runs]), target_in, hours)
    names = [row.setting for row in rows]  # tasks follow the order of settings, which decides the bootstrap's draws
    envs = [row.curve.env for row in sorted(rows, key=lambda row: names.index(row.setting)) if row.step]
    units = {env: unit for env in envs if (unit := _unit(env, published)) is not None}
    truncated = (*repeated, *(message for row in rows for message in _truncation(row)))
    training = {run.record.path: run.training for run in runs}
    scores = aggregates(rows, units)
    return Report(tuple(runs), tuple(excluded), truncated, rows, units, scores, hours, published, training)


def sections(report: Report) -> dict[str, list[TextTable]]:
    """Return the tables by section, without empty ones."""
    rows = report.rows
    found = {
        "results": [*result_tables(rows), target_table(rows)],
        "aggregate": [aggregate_table(report.units, report.aggregates)],
        "published": report.published.tables(rows) if report.published else [],
        "runs": [*_run_tables(report.runs), *settings_tables(rows)],
    }
    return {name: [table for table in tables if table.rows] for name, tables in found.items()}


def _read_runs(folders: Iterable[Path], ends: Mapping[str, int]) -> tuple[list[ReportedRun], list[str]]:
    """Read the runs in these folders and below them; return them and one message for each unusable run."""
    runs, problems = list[ReportedRun](), list[str]()
    paths: dict[Path, Path] = {}  # by their resolved path, so that a run counts once
    for folder in folders:
        require(folder.is_dir(), f"{folder} is not a folder; give the folder of a run, or a folder with runs in it.")
        below = sorted({file.parent for file in find_files(folder, CONFIG, EVALUATIONS)})
        hidden = [path for path in unreadable(folder) if path.is_dir() and not PARTS & {*path.parts}]
        problems += [str(refusal(path)) for path in hidden]
        require(bool(below or hidden), f"{folder} holds no run; give the folder of a run, or a folder with runs in it.")
        paths |= {path.resolve(): path for path in below}
    for path in paths.values():
        try:
            runs += _read_run(path, ends)
        except SmrlError as error:
            problems.append(str(error))
    return runs, problems


def _without_repetitions(runs: Sequence[ReportedRun]) -> tuple[list[ReportedRun], list[str]]:
    """Keep one run of each seed and identity, and return a message for each other one: a seed counts once."""
    kept: dict[tuple[str, int], ReportedRun] = {}
    for run in sorted(runs, key=lambda run: (-run.record.steps[-1], -len(run.record.steps))):  # the longest first
        kept.setdefault((run.record.identity, run.record.seed), run)
    first = {id(run) for run in kept.values()}
    messages = [
        f"{run.record.path} is not counted: {kept[run.record.identity, run.record.seed].record.path} has the same "
        f"settings and seed {run.record.seed}."
        for run in runs
        if id(run) not in first
    ]
    return [run for run in runs if id(run) in first], messages


def _read_run(path: Path, ends: Mapping[str, int]) -> list[ReportedRun]:
    """Read a run, or those of its variants that ``ends`` names."""
    config, record = RunDirectory(path).read_config(), read_run(path)
    records = [one.until(ends[one.identity]) for one in record.variants() if one.identity in ends] or [record]
    machine = {"processor": config["cpu"], **{name: config[name] for name in ("threads", "backend", "git_commit")}}
    require(
        all(np.isfinite(one.returns).all() for one in records),
        f"{path / EVALUATIONS} holds a return that is no finite number; check the environment, or leave the run out.",
    )
    training, versions = _training(path / TRAINING), config["versions"]
    return [ReportedRun(one, _hours(path / TRAINING, one), training, versions, machine) for one in records]


def _hours(file: Path, record: Record) -> NDArray[np.float64]:
    """Return the hours of training at the record's steps, including those before the first evaluation."""
    try:
        rows = list(csv.DictReader(read_rows(file)))
        hours = {int(row["step"]): float(row["seconds"]) / 3600 for row in rows}
    except (SmrlError, csv.Error, KeyError, TypeError, ValueError, OverflowError):
        hours = {}  # a report without hours is better than none
    return np.array([hours.get(int(step), np.nan) for step in record.steps])


def _training(file: Path) -> Table:
    """Return the columns of training.csv that have curves, with the steps of rows; nothing without them."""
    try:
        table = read_table(file)
    except SmrlError:
        return {}  # a report without these curves is better than none
    found = {name: table[name] for name in CURVES if name in table}
    return found | {"step": table["step"]} if found else {}


def _unit(env: str, published: Published | None) -> float | None:
    """Return the return that counts as a score of 1 in an environment, or None if it has no scores."""
    if env.startswith(CONTROL_SUITE):
        return 1000.0
    return published.unit(env) if published else None


def _truncation(row: ResultRow) -> list[str]:
    """Describe the evaluations that a mean over seeds leaves out."""
    ends = [int(record.steps[-1]) for record in row.curve.records]
    title = f"{row.name}, {row.curve.env}"
    if not row.step:
        return [
            f"{title}: its seeds have no step in common, so they have no mean; evaluate all of them at equal steps."
        ]
    if max(ends) > row.step:
        seeds = ", ".join(f"{one.seed} at {one.steps[-1]:,}" for one in row.curve.records)
        return [f"{title}: means end at step {row.step:,}, the last that all seeds evaluated; seeds end: {seeds}."]
    return []


def _run_tables(runs: Iterable[ReportedRun]) -> list[TextTable]:
    """Make the table of runs, and that of the numbered versions and machines that made them."""
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
    made_with = tuple((f"{which}", *texts) for texts, which in made.items())
    return [
        TextTable("Runs", columns, tuple(cells), left=("run", "task")),
        TextTable(
            "Versions and machines", ("made with", "versions", "machine"), made_with, left=("versions", "machine")
        ),
    ]
