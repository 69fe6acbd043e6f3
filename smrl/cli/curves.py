"""The results of several runs: tables in the terminal, and learning curves as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smrl.cli.common import out
from smrl.errors import require
from smrl.report.figures import learning_curves
from smrl.report.tables import comparison_tables
from smrl.runs.atomic import writing
from smrl.runs.paths import RunDirectory
from smrl.runs.records import Record
from smrl.settings import RunOptions, Settings
from smrl.studies.sweep import slug

FIGURES = (".png", ".pdf", ".svg")


def picture_of(settings: Sequence[Settings[Any]], options: RunOptions) -> Path:
    """Return the file for the curves of runs: in the folder of their task or, with several tasks, of all runs."""
    _, of_env, of_all = RunDirectory.of(settings[0], options).path.parents[:3]
    folder = of_env if len({one.env for one in settings}) == 1 else of_all
    return folder / f"{slug(settings)}.png"


def show_results(records: Sequence[Record], path: Path, target: float | None = None) -> None:
    """Print a table per task, draw learning curves, and print where they are."""
    for table in comparison_tables(records, target):
        out.print(table)
        out.print()
    with writing(path, "or choose another file with -o"):
        learning_curves(records, path, target)
    out.print(f"learning curves: {path}", markup=False)


def require_ending(file: Path, known: Sequence[str]) -> None:
    """Refuse a file to write whose name does not end as one of these."""
    endings = f"{', '.join(known[:-1])} or {known[-1]}"
    require(file.suffix in known, f"the name of a file to write must end in {endings}, unlike '{file}'.")
