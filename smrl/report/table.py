"""Runs side by side, as a table for the terminal."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table
from rich.text import Text

from smrl.report.records import Record
from smrl.report.statistics import Curve, best_return, curves, final_return, mean_steps_to, sample_sd
from smrl.report.text import number, reuse_text, variant_text


def comparison_table(records: Sequence[Record], threshold: float | None = None) -> Table:
    """One row per env, variant and reuse; ± is the standard deviation over the runs."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("environment", no_wrap=True)
    table.add_column("algorithm", no_wrap=True)
    table.add_column("reuse", justify="right")  # the columns that may wrap in a narrow terminal hold words
    table.add_column("runs", justify="right", no_wrap=True)
    table.add_column("steps", justify="right")
    table.add_column("return\nat the end", justify="right", no_wrap=True)
    table.add_column("best\nreturn", justify="right", no_wrap=True)
    if threshold is not None:
        table.add_column(f"steps\nto {threshold:,g}".replace("-", "−"), justify="right")
    rows = curves(records)
    for curve, following in zip(rows, [*rows[1:], None], strict=True):
        reached = [] if threshold is None else [str(mean_steps_to(curve.records, threshold))]
        last = following is None or following.env != curve.env
        table.add_row(Text(curve.env), Text(variant_text(curve.variant)), *_numbers(curve), *reached, end_section=last)
    return table


def _numbers(curve: Curve) -> tuple[str, ...]:
    final = np.array([final_return(record) for record in curve.records])
    best = np.array([best_return(record) for record in curve.records])
    return reuse_text(curve.reuse), f"{len(curve.records)}", _steps(curve), _spread(final), number(best.mean())


def _spread(values: NDArray[np.float64]) -> str:
    mean, sd = float(values.mean()), float(sample_sd(values))
    size = max(abs(mean), sd)
    return f"{number(mean, size)} ± {number(sd, size)}" if len(values) > 1 else number(mean)


def _steps(curve: Curve) -> str:
    done = min(int(record.steps[-1]) for record in curve.records)
    budget = max(record.budget for record in curve.records)
    return f"{done:,}" if done >= budget else f"{done:,} of {budget:,}"
