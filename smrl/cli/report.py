"""`smrl report RUNS… -o FILE…`: an HTML page, figures and tables of runs."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from smrl.cli.common import out
from smrl.cli.flags import parse
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
    """Write an HTML page about runs, with learning curves and tables, or other files."""

    runs: tuple[Path, ...]
    """Folders of runs, or folders with runs in them, such as runs/Hopper-v4."""
    output: tuple[Path, ...] = (Path("report.html"),)
    """Files to write: .html for the page, .png, .pdf or .svg for curves, .csv, .md or .tex for tables."""
    target: float | None = None
    """A return: tables show how many steps are needed to reach it; with --published by default the paper's."""
    published: bool = False
    """Compare the runs with published results (mean ± 2 standard deviations); exit with code 1 if one is below."""


def run(words: Sequence[str]) -> None:
    """Write the files; with --published, print a line per run and exit with code 1 if a run is below its band."""
    command = parse(words, "report RUNS…", Command)
    known = (*TEXTS, *FIGURES)
    for file in command.output:
        endings = f"{', '.join(known[:-1])} or {known[-1]}"
        require(file.suffix in known, f"the name of a file to write must end in {endings}, unlike '{file}'.")
    report = make_report(command.runs, command.target, PUBLISHED if command.published else None)
    for message in report.problems:
        print(f"smrl: {printable(message)}", file=sys.stderr)
    for file in command.output:
        with writing(file, "or choose another file with -o"):
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix in FIGURES:
                learning_curves([one.record for one in report.runs], file, command.target)
            else:
                file.write_text(TEXTS[file.suffix](report), encoding="utf-8", errors="backslashreplace")
        out.print(f"report: {file}", markup=False)
    if command.published:
        verdicts = [verdict(one.record) for one in report.runs]
        for one in verdicts:
            out.print(printable(one.line), markup=False)
        if any(one.outcome == "below" for one in verdicts):
            sys.exit(1)
        if report.excluded:
            sys.exit(2)


def _tables(report: Report) -> list[TextTable]:
    """Return the tables for a document; those of single runs are only on the page."""
    found = sections(report)
    return [*found["results"], *found["aggregate"], *found["published"]]
