"""The tables of a report as CSV, Markdown and LaTeX."""

import csv
import io
from collections.abc import Iterable, Sequence

import numpy as np

from smrl.report.grids import Grid
from smrl.report.summary import Row

_NUMBERS = (
    *("mean", "sd", "iqm", "iqm_low", "iqm_high", "best", "area", "hours"),
    *("target", "steps_to", "hours_to", "speed_up", "speed_up_hours"),
)
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"−": "$-$", "±": r"$\pm$", "×": r"$\times$", "–": "--"},
}


def as_csv(rows: Sequence[Row]) -> str:
    """One line per environment and identity, with all digits; empty where something is unknown or never happened."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("environment", "settings", "seeds", "step", "budget", *_NUMBERS, "seeds_reached", "seed_steps_to"))
    for row in rows:
        values = (float(getattr(row, name)) for name in _NUMBERS)
        by_seed = "" if row.reached.steps is None else row.reached.steps
        writer.writerow(
            (
                *(row.curve.env, row.name, len(row.returns), row.step or "", row.budget),
                *("" if np.isnan(value) else value for value in values),
                *("" if np.isnan(row.target) else row.reached.reached, by_seed),
            )
        )
    return text.getvalue()


def as_markdown(grids: Iterable[Grid]) -> str:
    """Tables below headings."""
    return "\n".join(map(_markdown, grids))


def as_latex(grids: Iterable[Grid]) -> str:
    """Tables for a document that loads the package booktabs."""
    return "\n".join(map(_latex, grids))


def _markdown(grid: Grid) -> str:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(_in_one_line(cell).replace('|', chr(92) + '|') for cell in cells)} |"

    rule = f"|{''.join('---|' if name in grid.left else '---:|' for name in grid.columns)}"
    parts = [f"## {_in_one_line(grid.title)}", "", line(grid.columns), rule, *map(line, grid.rows), ""]
    return "\n".join([*parts, *([grid.note, ""] if grid.note else [])])


def _latex(grid: Grid) -> str:
    def line(cells: Iterable[str]) -> str:
        return f"{' & '.join(_escaped(cell) for cell in cells)} \\\\"

    begin = f"\\begin{{tabular}}{{{''.join('l' if name in grid.left else 'r' for name in grid.columns)}}}"
    body = ["\\toprule", line(grid.columns), "\\midrule", *map(line, grid.rows), "\\bottomrule"]
    note = [_escaped(grid.note), ""] if grid.note else []
    return "\n".join([f"% {_in_one_line(grid.title)}", begin, *body, "\\end{tabular}", "", *note])


def _escaped(cell: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in _in_one_line(cell))


def _in_one_line(cell: str) -> str:
    return " ".join(cell.split())
