"""Numbers and tables as text: for the terminal, Markdown, LaTeX and the page."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsFloat

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table
from rich.text import Text

from smrl.errors import printable
from smrl.report.terminal import WholeWords
from smrl.statistics import mean_sd

UNKNOWN = "–"
FORMULAS = tuple("=+-@＝＋－＠'")  # signs with which spreadsheets begin a formula, also in full width, or a text
_MARKDOWN = {
    **{sign: f"\\{sign}" for sign in "\\`*|~"},
    **{"&": "&amp;", "<": "&lt;", ">": "&gt;", "](": "]\\("},
}
_MARKDOWN_SIGNS = re.compile("|".join(map(re.escape, _MARKDOWN)))
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"−": "$-$", "±": r"$\pm$", "×": r"$\times$", "–": "--"},
}


def number(value: float, size: float | None = None) -> str:
    """Format a number with 0 to 2 decimals, fewer for a larger ``size``, by default its own; NaN becomes –.

    >>> number(-1234.5), number(-52.34), number(0.953), number(3.2, size=150), number(math.nan)
    ('−1,234', '−52.3', '0.95', '3', '–')
    """
    if math.isnan(value):
        return UNKNOWN
    size = abs(value if size is None else size)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:z,.{digits}f}".replace("-", "−")


def spread(values: NDArray[np.float64]) -> str:
    """Format the mean ± the sample standard deviation (n − 1), or the only value, which has none.

    >>> spread(np.array([1.0, 3.0])), spread(np.array([-52.34]))
    ('2.00 ± 1.41', '−52.3')
    """
    mean, sd = map(float, mean_sd(values))
    return number(mean) if math.isnan(sd) else mean_and_sd(mean, sd, max(abs(mean), sd))


def mean_and_sd(mean: float, sd: float, size: float) -> str:
    """Format a mean ± a standard deviation with the decimals that suit ``size``."""
    return f"{number(mean, size)} ± {number(sd, size)}"


def steps_text(steps: float) -> str:
    """Format a number of steps; NaN becomes never."""
    return "never" if math.isnan(steps) else f"{steps:,.0f}"


def interval(value: SupportsFloat, low: SupportsFloat, high: SupportsFloat) -> str:
    """Format a value with its interval in brackets, which is omitted where it is unknown.

    >>> interval(2.0, 1.0, 3.5), interval(2.0, np.nan, np.nan)
    ('2.00 [1.00, 3.50]', '2.00')
    """
    middle, *ends = map(float, (value, low, high))
    if math.isnan(ends[0]):
        return number(middle)
    size = max(map(abs, ends))
    return f"{number(middle, size)} [{', '.join(number(end, size) for end in ends)}]"


def csv_text(text: str) -> str:
    """Return a run's text for a cell of a CSV file; an apostrophe keeps a spreadsheet from taking it for a formula.

    >>> csv_text("=HYPERLINK(1)"), csv_text("Hopper-v4")
    ("'=HYPERLINK(1)", 'Hopper-v4')
    """
    plain = printable(text)
    return f"'{plain}" if plain.lstrip()[:1] in FORMULAS else plain


@dataclass(frozen=True)
class TextTable:
    """A table whose cells are text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    left: tuple[str, ...] = ("settings",)  # left-aligned columns, which hold words; the others hold numbers


def plain_table(title: str = "", caption: str = "") -> Table:
    """Return an empty table for the terminal in the style that all commands share."""
    table = WholeWords(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.title, table.title_style, table.title_justify = (Text(title) if title else None), "bold", "left"
    table.caption, table.caption_justify = (Text(caption) if caption else None), "left"
    return table


def as_terminal(table: TextTable) -> Table:
    """Convert a table for the terminal."""
    shown = plain_table(table.title, table.note)
    for name in table.columns:
        shown.add_column(name, justify="left" if name in table.left else "right", overflow="fold")
    for row in table.rows:
        shown.add_row(*map(Text, row))
    return shown


def as_markdown(tables: Iterable[TextTable]) -> str:
    """Write tables as Markdown, each below its heading."""
    return "\n".join(map(_markdown, tables))


def as_latex(tables: Iterable[TextTable]) -> str:
    """Write tables for a LaTeX document that loads the package booktabs."""
    return "\n".join(map(_latex, tables))


def _markdown(table: TextTable) -> str:
    def escaped(cell: str) -> str:
        return _MARKDOWN_SIGNS.sub(lambda sign: _MARKDOWN[sign[0]], _in_one_line(cell))

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(map(escaped, cells))} |"

    rule = f"|{''.join('---|' if name in table.left else '---:|' for name in table.columns)}"
    parts = [f"## {escaped(table.title)}", "", line(table.columns), rule, *map(line, table.rows), ""]
    return "\n".join([*parts, *([escaped(table.note), ""] if table.note else [])])


def _latex(table: TextTable) -> str:
    def escaped(cell: str) -> str:
        return "".join(_LATEX.get(sign, sign) for sign in _in_one_line(cell))

    def line(cells: Iterable[str]) -> str:
        return f"{' & '.join(map(escaped, cells))} \\\\"

    begin = f"\\begin{{tabular}}{{{''.join('l' if name in table.left else 'r' for name in table.columns)}}}"
    body = ["\\toprule", line(table.columns), "\\midrule", *map(line, table.rows), "\\bottomrule"]
    note = [escaped(table.note), ""] if table.note else []
    return "\n".join([f"% {_in_one_line(table.title)}", begin, *body, "\\end{tabular}", "", *note])


def _in_one_line(cell: str) -> str:
    return printable(" ".join(cell.split()))
