"""Runs side by side, as a table for the terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from smrl.report.curves import Curve, curves
from smrl.report.summary import Row, steps_words, summarise
from smrl.report.text import number, spread
from smrl.runs.identity import ALWAYS_SHOWN, algorithm_words, reuse_words, varying, words
from smrl.runs.records import Record


def comparison_table(records: Sequence[Record], threshold: float | None = None) -> Table:
    """One row per identity (all settings but seed and steps), and a column per setting that varies.

    Returns are those of the last step that all runs of a row evaluated. ± is the sample standard deviation (n − 1)
    over runs, – where there is only one. The environment's name is a line above its rows: a column of long names would
    leave no room in a terminal.
    """
    rows = summarise(curves(records), threshold)
    envs = list(dict.fromkeys(row.curve.env for row in rows))
    names = [name for name in varying([record.settings for record in records]) if name not in ALWAYS_SHOWN]
    table = _empty_table(names, threshold)
    if len(envs) == 1:
        table.title, table.title_style, table.title_justify = Text(envs[0]), "bold", "left"
    for env in envs:
        if len(envs) > 1:
            table.add_row(Text(env, "bold"))
        for row in (row for row in rows if row.curve.env == env):
            mine = row.curve.settings
            settings = [words(mine[name]) if name in mine else "–" for name in names]
            reached = [] if threshold is None else [str(row.reached)]
            cells = [*_names(row.curve, indent=len(envs) > 1), *settings, *_numbers(row), *reached]
            table.add_row(*map(Text, cells))
        table.add_section()
    return table


def _empty_table(names: Sequence[str], threshold: float | None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("algorithm", overflow="fold")  # in a narrow terminal names may wrap, results may not
    table.add_column("reuse", justify="right")
    for name in names:
        table.add_column(name.replace("_", "\n"), justify="right", overflow="fold")
    table.add_column("runs", justify="right", no_wrap=True)
    table.add_column("steps", justify="right")
    table.add_column("return\nat the end", justify="right", no_wrap=True)
    table.add_column("best\nreturn", justify="right", no_wrap=True)
    if threshold is not None:
        table.add_column(f"steps\nto {threshold:,g}".replace("-", "−"), justify="right", no_wrap=True)
    return table


def _names(curve: Curve, indent: bool) -> tuple[str, str]:
    return "  " * indent + algorithm_words(curve.settings["algorithm"]), reuse_words(curve.settings["reuse"])


def _numbers(row: Row) -> tuple[str, ...]:
    return f"{len(row.returns)}", steps_words(row), spread(row.returns), number(row.best)
