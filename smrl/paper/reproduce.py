"""Run a study of the paper, estimate how long it takes, and show it in the paper's layout."""

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from smrl import machine, runtime
from smrl.errors import require
from smrl.paper.studies import STUDIES, Study, labels, runs, to_train
from smrl.paper.study_results import bias_figure, study_tables
from smrl.presets import resolve
from smrl.report.figures import learning_curves
from smrl.report.report import make_report
from smrl.report.results import ResultRow
from smrl.report.text import UNKNOWN, TextTable, as_markdown, as_terminal, plain_table
from smrl.runs.atomic import writing
from smrl.runs.identity import algorithm_words, canonical, flat, words
from smrl.runs.paths import RunDirectory
from smrl.runs.records import Record, read_runs
from smrl.settings import RunOptions, Settings
from smrl.studies.launch import Outcome, done_steps, run_all
from smrl.training.estimate import core_seconds
from smrl.validation import Few, PositiveShare, validate

WITHOUT_STUDY = {  # name → place in the paper, title
    "q-smr": ("Fig. 3", "Q-learning and Q-SMR in tables"),
    "batch-fit": ("Fig. 2", "TD error on a batch, and on held-out data, after M updates"),
    "theory": ("theorems", "the paper's statements, checked numerically"),
    "hyperparameters": ("Tab. 4 and others", "hyperparameters of all algorithms"),
}
EXAMPLES = {  # algorithms and the tasks whose settings represent them
    **dict.fromkeys(("ddpg", "td3", "sac", "darc", "tqc", "redq"), "Hopper-v4"),
    **dict.fromkeys(("sac_pixels", "drqv2"), "dmc-pixels/cartpole-swingup"),
    "dqn": "PongNoFrameskip-v4",
}
RETRIES = 3


@dataclass(frozen=True)
class Options:
    """Reproduce a figure or a table of the paper; show its numbers beside ours.

    smrl reproduce --list shows the names.
    The same command resumes where it was stopped; finished runs are skipped.
    q-smr, theory and batch-fit have their own flags: smrl reproduce NAME --help.
    """

    list: bool = False
    """Show everything that can be reproduced, and how many of its runs are finished."""
    show: bool = False
    """Show the results of the runs that exist anywhere in --runs, finished or not; train nothing.

    Of a longer run, the study's steps are shown.
    """
    scale: PositiveShare = 1.0
    """Fraction of the paper's steps to train for; everything counted in steps shrinks alike, with 20 evaluations."""
    seeds: Few | None = None
    """Runs of each combination, with the seeds 0, 1, 2, … (critics: 10, 11, …); by default the paper's."""
    tasks: tuple[str, ...] = ()
    """Tasks of the study to run, by default all; * stands for any characters, as in dmc/*."""
    yes: bool = False
    """Start without asking; nothing is asked without a terminal either."""
    runs: Path = Path("runs")
    """Folder of all runs; its subfolder reproduced gets the picture and the table."""
    quiet: bool = False
    """Print results and errors only."""

    def __post_init__(self) -> None:
        validate(self)


def run_study(name: str, options: Options, out: Console) -> Outcome | None:
    """Announce a study, run what is missing of it and show its results; return None if the user declines."""
    study = STUDIES[name]
    several = to_train(runs(study, options.scale, options.seeds, options.tasks))
    due = [one for one in several if _done(one, options.runs) < one.steps]
    _announce(study, out)
    if due:
        runtime.start(1)
        with out.status("measuring"):
            hours = sum(core_seconds(due)) / 3600
        cores = machine.cores()
        out.print(
            f"{len(several)} runs, {len(several) - len(due)} of them finished already; the others take about "
            f"{hours:,.1f} core-hours on this machine, so {hours / min(cores, len(due)):,.1f} hours on its {cores} "
            "cores.",
            markup=False,
        )
        if not (options.yes or _agreed()):
            return None
    outcome = run_all(several, RunOptions(runs=options.runs, quiet=options.quiet, threads=1), RETRIES)
    if outcome.records:
        _show(name, options, outcome.records, out)
    return outcome


def show_study(name: str, options: Options, out: Console) -> None:
    """Show the results of a study's runs in a folder and below it, in folders of any name."""
    _announce(STUDIES[name], out)
    _show(name, options, read_runs(options.runs), out)


def overview(options: Options) -> Table:
    """Make the table of everything that can be reproduced, with the number of finished runs."""
    table = plain_table()
    for column in ("name", "in the paper", "shows", "runs finished", "ours"):
        table.add_column(column, overflow="fold")
    for name, (place, title) in WITHOUT_STUDY.items():
        table.add_row(name, place, title, UNKNOWN, "")
    for name, study in STUDIES.items():
        seeds = options.seeds or study.seeds
        count, finished = len(to_train(runs(study, options.scale, 1))) * seeds, 0
        if options.runs.exists():  # otherwise the runs of all seeds need not be named
            several = to_train(runs(study, options.scale, seeds))
            finished = sum(_done(one, options.runs) >= one.steps for one in several)
        table.add_row(name, study.shows, study.title, f"{finished} of {count}", study.ours)
    return table


def hyperparameters() -> TextTable:
    """Make the table of the settings of all algorithms."""
    values = {name: flat(resolve(name, env).to_json()) for name, env in EXAMPLES.items()}
    hidden = {"algorithm", "env", "seed"}
    rows = [name for name in dict.fromkeys(key for known in values.values() for key in known) if name not in hidden]
    cells = tuple(
        (name, *(words(known[name]) if name in known else UNKNOWN for known in values.values())) for name in rows
    )
    columns = ("setting", *map(algorithm_words, values))
    tasks = ", ".join(dict.fromkeys(EXAMPLES.values()))
    note = f"Those of the preset paper on {tasks}; smrl list --presets shows what other tasks change."
    return TextTable("Hyperparameters", columns, cells, note, columns)


def _announce(study: Study, out: Console) -> None:
    out.print(Text(f"{study.shows}: {study.title}", "bold"))
    if study.ours:
        out.print(f"The paper leaves open, and we chose: {study.ours}.", markup=False)


def _show(name: str, options: Options, several: Sequence[Record], out: Console) -> None:
    """Show the evaluations of these runs that belong to a study."""
    study, folder = STUDIES[name], options.runs / "reproduced"
    wanted = runs(study, options.scale, options.seeds, options.tasks)
    ends = {canonical(one.to_json()): one.steps for one in wanted}
    seeds = {one.seed for one in wanted}
    paths = [
        one.path
        for one in several
        if one.seed in seeds and any(one.steps[0] <= ends.get(same.identity, 0) for same in one.variants())
    ]
    require(bool(paths), f"{options.runs} holds no evaluated run of {name}; smrl reproduce {name} trains them.")
    report, known = make_report(paths, ends=ends), labels(study, options.scale)
    rows = [_labelled(row, known.get(row.curve.records[0].identity)) for row in report.rows]
    names = {before.name: after.name for before, after in zip(report.rows, rows, strict=True)}
    tables = study_tables(study, rows, options.scale)
    stem = name if options.scale == 1 else f"{name}-scale{options.scale:g}"
    picture, markdown = folder / f"{stem}.png", folder / f"{stem}.md"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if study.layout == "bias":
            bias_figure(rows, picture)
        else:
            learning_curves([run.record for run in report.runs], picture, names=names)
        markdown.write_text(as_markdown(tables), encoding="utf-8")
    for table in tables:
        out.print(as_terminal(table))
    out.print(f"picture: {picture}\ntable: {markdown}", markup=False)


def _labelled(row: ResultRow, label: str | None) -> ResultRow:
    return dataclasses.replace(row, name=label, setting=label) if label else row


def _done(settings: Settings[Any], runs: Path) -> int:
    return done_steps(RunDirectory.of(settings, RunOptions(runs=runs))) or 0


def _agreed() -> bool:
    """Ask the user whether to start; without a terminal there is nobody to ask."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    return input("Start? [y/N] ").strip().lower() in ("y", "yes")
