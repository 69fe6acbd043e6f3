"""`smrl reproduce NAME`: run a figure or a table of the paper and show it in the paper's layout."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich import box
from rich.table import Table
from rich.text import Text

from smrl import machine, runtime
from smrl.cli import tabular
from smrl.cli.failures import leave_if_failed
from smrl.cli.parsing import out, parse
from smrl.errors import SmrlError, nearest, require
from smrl.paper import bias_figure as bias
from smrl.paper import reproduction, reproductions
from smrl.paper.reproductions import STUDIES, Study
from smrl.report.export import as_markdown
from smrl.report.figures import learning_curves
from smrl.report.grids import Grid
from smrl.report.report import make_report
from smrl.runs.atomic import writing
from smrl.runs.identity import algorithm_words, flat, words
from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions, Settings
from smrl.studies.launch import Outcome, done_steps, run_all
from smrl.studies.presets import resolve
from smrl.validation import Count, PositiveShare, validate

WITHOUT_RUNS = {  # name → place in the paper, title
    "q-smr": ("Fig. 3", "Q-learning and Q-SMR in tables"),
    "hyperparameters": ("Tab. 4 and others", "hyperparameters of all algorithms"),
}
EXAMPLES = {  # algorithms and the tasks whose settings stand for theirs
    **dict.fromkeys(("ddpg", "td3", "sac", "darc", "tqc", "redq"), "Hopper-v4"),
    **dict.fromkeys(("sac_pixels", "drqv2"), "dmc-pixels/cartpole-swingup"),
    "dqn": "PongNoFrameskip-v4",
}
RETRIES = 3


@dataclass(frozen=True)
class Command:
    """Run a figure or a table of the paper; show its numbers beside ours.

    The same command goes on where it was stopped; finished runs are skipped.
    """

    name: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = ()
    """What to reproduce; --list shows all."""
    list: bool = False
    """Show everything that can be reproduced, and how many of its runs are there already."""
    scale: Annotated[PositiveShare, tyro.conf.arg(metavar="SHARE")] = 1.0
    """Share of the paper's steps to train for; what is counted in steps shrinks alike, with 20 evaluations per run."""
    seeds: Annotated[Count | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the paper's)")] = None
    """Runs of each combination, with the seeds 0, 1, 2, …"""
    tasks: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TASK…", help_behavior_hint="(default: all)")] = ()
    """Tasks of the study to run; * stands for any letters, as in dmc/*."""
    yes: bool = False
    """Start without asking; where there is no terminal, nothing is asked."""
    runs: Path = Path("runs")
    """Folder of all runs; its subfolder reproduced gets the picture and the table."""
    quiet: bool = False
    """Print results and errors only."""

    def __post_init__(self) -> None:
        validate(self)


def run(given: Sequence[str]) -> None:
    """Parse, estimate, ask, run, show."""
    command: Command = parse(given, "reproduce", Command)
    if command.list:
        out.print(_overview(command))
        return
    known = [*WITHOUT_RUNS, *STUDIES]
    require(len(command.name) == 1, f"write smrl reproduce NAME, with one of {', '.join(known)}.")
    (name,) = command.name
    if name == "q-smr":
        tabular.run(["--runs", str(command.runs), *(["--seeds", str(command.seeds)] if command.seeds else [])])
    elif name == "hyperparameters":
        out.print(_terminal(_hyperparameters()))
    elif name in STUDIES:
        _carry_out(name, STUDIES[name], command)
    else:
        raise SmrlError(f"there is no study '{name}' among {', '.join(known)}{nearest(name, known)}")


def _carry_out(name: str, study: Study, command: Command) -> None:
    several = reproductions.runs(study, command.scale, command.seeds, command.tasks)
    due = [one for one in several if _done(one, command.runs) < one.steps]
    out.print(Text(f"{study.shows}: {study.title}", "bold"))
    if study.ours:
        out.print(f"The paper does not say, and we chose: {study.ours}.", markup=False)
    if due:
        _announce(several, due)
        if not (command.yes or _agreed()):
            return
    outcome = run_all(several, RunOptions(runs=command.runs, quiet=command.quiet, threads=1), RETRIES)
    _show(name, study, command, outcome)


def _announce(several: Sequence[Settings[Any]], due: Sequence[Settings[Any]]) -> None:
    """How many runs there are and how long the missing ones will take."""
    from smrl.paper.cost import core_hours  # here, as it starts JAX

    runtime.start(1)
    with out.status("measuring"):
        hours = core_hours(due)
    cores = machine.cores()
    out.print(
        f"{len(several)} runs, {len(several) - len(due)} of them finished already; the others take about {hours:,.1f} "
        f"core-hours on this machine, so {hours / min(cores, len(due)):,.1f} hours on its {cores} cores.",
        markup=False,
    )


def _agreed() -> bool:
    """Whether the user wants to go on; without a terminal there is nobody to ask."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    return input("Start? [y/N] ").strip().lower() in ("y", "yes")


def _show(name: str, study: Study, command: Command, outcome: Outcome) -> None:
    if outcome.records:
        folder = command.runs / "reproduced"
        report = make_report([record.path for record in outcome.records])
        grids = _grids(study, report.rows, command.scale)
        place = folder / (name if command.scale == 1 else f"{name}-scale{command.scale:g}")
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            picture = place.with_name(f"{place.name}.png")
            if study.layout == "bias":
                bias.bias_figure(report.rows, picture)
            else:
                learning_curves(outcome.records, picture)
            table = place.with_name(f"{place.name}.md")
            table.write_text(as_markdown(grids), encoding="utf-8")
        for grid in grids:
            out.print(_terminal(grid))
        out.print(f"picture: {picture}\ntable: {table}", markup=False)
    leave_if_failed(outcome)


def _grids(study: Study, rows: Sequence[Any], scale: float) -> list[Grid]:
    """The tables of a study; what its layout does not show is in the table of returns at the end."""
    at_the_end = reproduction.curves_grid(rows)
    if study.layout == "steps":
        return [reproduction.steps_grid(rows, scale), at_the_end]
    if study.layout == "returns":
        ratios = reproduction.ratios_grid(rows, study.at, scale)
        return [reproduction.returns_grid(rows, study.at, scale), *([ratios] if study.shows == "Tab. 2" else [])]
    if study.layout == "bias":
        return [bias.bias_grid(rows), at_the_end]
    return [reproduction.hours_grid(rows), at_the_end] if study.layout == "hours" else [at_the_end]


def _overview(command: Command) -> Table:
    """All studies with how many of their runs are finished."""
    table = _empty("name", "in the paper", "shows", "runs finished", "ours")
    for name, (place, title) in WITHOUT_RUNS.items():
        table.add_row(name, place, title, "–", "")
    for name, study in STUDIES.items():
        several = reproductions.runs(study, command.scale, command.seeds)
        finished = sum(_done(one, command.runs) >= one.steps for one in several)
        table.add_row(name, study.shows, study.title, f"{finished} of {len(several)}", study.ours)
    return table


def _done(settings: Settings[Any], runs: Path) -> int:
    return done_steps(RunDirectory.of(settings, runs)) or 0


def _hyperparameters() -> Grid:
    """The settings of all algorithms, in one table."""
    values = {name: flat(resolve(name, env).to_json()) for name, env in EXAMPLES.items()}
    hidden = {"algorithm", "env", "seed"}
    rows = [name for name in dict.fromkeys(key for known in values.values() for key in known) if name not in hidden]
    cells = tuple((name, *(words(known[name]) if name in known else "–" for known in values.values())) for name in rows)
    columns = ("setting", *map(algorithm_words, values))
    tasks = ", ".join(dict.fromkeys(EXAMPLES.values()))
    note = f"Those of the preset paper on {tasks}; smrl list --presets shows what other tasks change."
    return Grid("Hyperparameters", columns, cells, note, columns)


def _terminal(grid: Grid) -> Table:
    table = _empty(*grid.columns)
    table.title, table.title_style, table.title_justify = Text(grid.title), "bold", "left"
    table.caption, table.caption_justify = (Text(grid.note) if grid.note else None), "left"
    for column, name in zip(table.columns, grid.columns, strict=True):
        column.justify = "left" if name in grid.left else "right"
    for row in grid.rows:
        table.add_row(*map(Text, row))
    return table


def _empty(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
