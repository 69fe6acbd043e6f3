"""`smrl report RUNS… -o FILE…`: an HTML page, tables, and figures, also for papers, of runs."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from smrl.cli.common import out
from smrl.cli.curves import FIGURES, require_ending
from smrl.cli.flags import parse
from smrl.errors import SmrlError, nearest, printable, require
from smrl.paper.bands import PUBLISHED, verdict
from smrl.reading import read_toml
from smrl.report.figures import BANDS, COLUMN, Design, learning_curves
from smrl.report.page import page
from smrl.report.report import Report, make_report, sections
from smrl.report.tables import as_csv
from smrl.report.text import TextTable, as_latex, as_markdown
from smrl.runs.atomic import writing
from smrl.runs.identity import file_name
from smrl.runs.records import Record
from smrl.validation import Inches, Name, convert, validate

TEXTS: dict[str, Callable[[Report], str]] = {
    ".html": page,
    ".csv": lambda report: as_csv(report.rows),
    ".md": lambda report: as_markdown(_tables(report)),
    ".tex": lambda report: as_latex(_tables(report)),
}
PAGE = Path("report.html")


@dataclass(frozen=True)
class Command:
    """Write an HTML page about runs, with learning curves and tables, or other files."""

    runs: tuple[Path, ...]
    """Folders of runs, or folders with runs in them, such as runs/Hopper-v4."""
    output: tuple[Path, ...] = ()
    """Files to write: .html for the page, .png, .pdf or .svg for curves, .csv, .md or .tex for tables. By default the
    page report.html, unless --figure is given.
    """
    target: float | None = None
    """A return: tables show how many steps are needed to reach it; with --published by default the paper's."""
    published: bool = False
    """Compare the runs with published results (mean ± 2 standard deviations); exit with code 1 if one is below."""
    figure: Path | None = None
    """A figure for a paper, .pdf, .svg or .png: text of 8 points, fonts that can be embedded. A file per task."""
    panels: bool = False
    """Draw one figure with a panel per task instead of a file per task."""
    width: Inches | None = None
    """Width of the figure in inches; by default 3.3, one of two columns."""
    band: Literal["sd", "ci", "iqm"] | None = None
    """What the figure shows over seeds: mean ± standard deviation (sd, the default), the mean (ci) or the interquartile
    mean (iqm) with its 95 % bootstrap interval.
    """
    labels: Path | None = None
    """TOML file for the figure: the table [curves] maps names in the legend to others, [tasks] the titles of panels."""

    def __post_init__(self) -> None:
        validate(self)
        for name in ("panels", "width", "band", "labels"):
            require(
                self.figure is not None or not getattr(self, name),
                f"--{name} concerns the figure of --figure FILE: give one, or leave --{name} out.",
            )


def run(words: Sequence[str]) -> None:
    """Write the files; with --published, print a line per run and exit with code 1 if a run is below its band."""
    command = parse(words, "report RUNS…", Command)
    outputs = command.output or (() if command.figure else (PAGE,))
    for file in outputs:
        require_ending(file, (*TEXTS, *FIGURES))
    if command.figure:
        require_ending(command.figure, FIGURES)
    names, titles = _read_labels(command.labels) if command.labels else ({}, {})
    report = make_report(command.runs, command.target, PUBLISHED if command.published else None)
    _refuse_unknown(command.labels, "curve", names, [row.name for row in report.rows])
    _refuse_unknown(command.labels, "task", titles, [row.curve.env for row in report.rows])
    for message in report.problems:
        print(f"smrl: {printable(message)}", file=sys.stderr)
    for file in outputs:
        with writing(file, "or choose another file with -o"):
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix in FIGURES:
                learning_curves([one.record for one in report.runs], file, command.target)
            else:
                file.write_text(TEXTS[file.suffix](report), encoding="utf-8", errors="backslashreplace")
        out.print(f"report: {file}", markup=False)
    if command.figure:
        design = Design(command.width or COLUMN, command.band or "sd", titles)
        _draw_figures(command.figure, report, command, design, names)
    if command.published:
        verdicts = [verdict(one.record) for one in report.runs]
        for one in verdicts:
            out.print(printable(one.line), markup=False)
        if any(one.outcome == "below" for one in verdicts):
            sys.exit(1)
        if report.excluded:
            sys.exit(2)


def _draw_figures(file: Path, report: Report, command: Command, design: Design, names: Mapping[str, str]) -> None:
    """Draw one figure or one per task; print where they are, and what a caption should say of them."""
    tasks: dict[str, list[Record]] = {}
    for run in report.runs:
        tasks.setdefault(run.record.env, []).append(run.record)
    drawn = {file: [one for records in tasks.values() for one in records]}
    if len(tasks) > 1 and not command.panels:
        paths = [file.with_name(f"{file.stem}-{file_name(task, '-')}{file.suffix}") for task in tasks]
        drawn = dict(zip(paths, tasks.values(), strict=True))
    seeds = sorted({len(row.returns) for row in report.rows})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    for path, records in drawn.items():
        with writing(path, "or choose another file with --figure"):
            learning_curves(records, path, command.target, design, names)
        out.print(f"figure: {path}", markup=False)
    shown = BANDS[design.band].replace("seeds", f"{count} seed{'' if count == '1' else 's'}")
    out.print(f"for its caption: {shown}", markup=False)


def _read_labels(file: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Read the names of curves and the titles of tasks."""
    tables = read_toml(file)
    for name in tables.keys() - {"curves", "tasks"}:
        raise SmrlError(f"{file} has [{name}]; its tables are [curves] and [tasks]{nearest(name, ('curves', 'tasks'))}")
    curves, tasks = (
        convert(f"[{name}] of {file}", tables.get(name, {}), dict[Name, Name]) for name in ("curves", "tasks")
    )
    return curves, tasks


def _refuse_unknown(file: Path | None, what: str, given: Iterable[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            names = ", ".join(f"'{one}'" for one in dict.fromkeys(known))
            raise SmrlError(f"{file} names the {what} '{name}', but there are {names}{nearest(name, known)}")


def _tables(report: Report) -> list[TextTable]:
    """Return the tables for a document; those of single runs are only on the page."""
    found = sections(report)
    return [*found["results"], *found["aggregate"], *found["published"]]
