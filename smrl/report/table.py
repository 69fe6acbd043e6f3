"""Runs side by side, as a table for the terminal."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from smrl.report.statistics import Curve, best_return, curves, final_return, mean_steps_to
from smrl.report.text import number, spread
from smrl.runs.identity import ALWAYS_SHOWN, algorithm_words, reuse_words, varying, words
from smrl.runs.records import Record


def comparison_table(records: Sequence[Record], threshold: float | None = None) -> Table:
    """One row per identity (all settings but seed and steps), and a column per setting that varies.

    ± is the sample standard deviation (n − 1) over runs, – where there is only one. The environment's name is a line
    above its rows: a column of long names would leave no room in a terminal.
    """
    found = curves(records)
    envs = list(dict.fromkeys(curve.env for curve in found))
    names = [name for name in varying([record.settings for record in records]) if name not in ALWAYS_SHOWN]
    table = _empty_table(names, threshold)
    if len(envs) == 1:
        table.title, table.title_style, table.title_justify = Text(envs[0]), "bold", "left"
    for env in envs:
        if len(envs) > 1:
            table.add_row(Text(env, "bold"))
        for curve in (curve for curve in found if curve.env == env):
            settings = [words(curve.settings[name]) if name in curve.settings else "–" for name in names]
            reached = [] if threshold is None else [str(mean_steps_to(curve.records, threshold))]
            cells = [*_names(curve, indent=len(envs) > 1), *settings, *_numbers(curve), *reached]
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


def _numbers(curve: Curve) -> tuple[str, ...]:
    final = np.array([final_return(record) for record in curve.records])
    best = np.array([best_return(record) for record in curve.records])
    return f"{len(curve.records)}", _steps(curve), spread(final), number(best.mean())


def _steps(curve: Curve) -> str:
    done = min(int(record.steps[-1]) for record in curve.records)
    budget = max(record.budget for record in curve.records)
    return f"{done:,}" if done >= budget else f"{done:,} of {budget:,}"
