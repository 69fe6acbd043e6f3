"""`smrl report RUNS… -o FILE…`: a page, figures and tables of runs."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from smrl.cli.parsing import out, parse
from smrl.errors import require
from smrl.paper.bands import PUBLISHED, verdict
from smrl.report.figures import learning_curves
from smrl.report.page import page
from smrl.report.report import Report, make_report, sections
from smrl.report.tables import as_csv
from smrl.report.text import TextTable, as_latex, as_markdown, printable
from smrl.runs.atomic import writing

TEXTS: dict[str, Callable[[Report], str]] = {
    ".html": page,
    ".csv": lambda report: as_csv(report.rows),
    ".md": lambda report: as_markdown(_tables(report)),
    ".tex": lambda report: as_latex(_tables(report)),
}
FIGURES = (".png", ".pdf", ".svg")


@dataclass(frozen=True)
class Command:
    """Show runs in one page, with learning curves and tables, and as files."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS…", help_behavior_hint="")]
    """Folders of runs, or folders with runs in them, such as runs/Hopper-v4."""
    output: Annotated[tuple[Path, ...], tyro.conf.arg(aliases=("-o",), metavar="FILE…")] = (Path("report.html"),)
    """Files to write, by their endings: .html the page, .png, .pdf and .svg curves, .csv, .md and .tex tables."""
    target: Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")] = None
    """A return: tables show how many steps are needed to reach it; with --published the paper's, unless it is given."""
    published: bool = False
    """Show published results beside the runs, and print for each run whether it lies within the published band."""


def run(words: Sequence[str]) -> None:
    """Parse, read, write; a run that cannot be used is one sentence."""
    command: Command = parse(words, "report", Command)
    known = (*TEXTS, *FIGURES)
    for file in command.output:
        require(
            file.suffix in known, f"{file} must end in {', '.join(known[:-1])} or {known[-1]}, which says its kind."
        )
    require(bool(command.runs), "write smrl report RUNS…, with one or more folders of runs: smrl report runs.")
    report = make_report(command.runs, command.target, PUBLISHED if command.published else None)
    for message in report.problems:
        print(f"smrl: {printable(message)}", file=sys.stderr)
    for file in command.output:
        with writing(file, "or choose another place with -o"):
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix in FIGURES:
                learning_curves([one.record for one in report.runs], file, command.target)
            else:
                file.write_text(TEXTS[file.suffix](report), encoding="utf-8", errors="backslashreplace")
        out.print(f"report: {file}", markup=False)
    verdicts = [verdict(run.record) for run in report.runs] if command.published else []
    for one in verdicts:
        out.print(printable(one.line), markup=False)
    if any(one.outcome == "below" for one in verdicts):
        sys.exit(1)
    if command.published and report.excluded:
        sys.exit(2)


def _tables(report: Report) -> list[TextTable]:
    """The tables for a document; those of single runs are for the page."""
    found = sections(report)
    return [*found["results"], *found["aggregate"], *found["published"]]
