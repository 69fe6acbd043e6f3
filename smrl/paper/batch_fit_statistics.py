"""How far the TD errors of a batch and of held-out transitions fall: statistics, a table and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table
from rich.text import Text

from smrl.paper.batch_fit_table import MEASURES, Fit
from smrl.runs.identity import canonical, label, varying

TITLE = "RMS TD error in % of that before the updates"
CAPTION = (
    "fixed: to the target before the updates; moving: to the target after them\n"
    "±: 95 % interval of the mean over runs; over batches, where there is one run"
)
GRID = 200_001  # points of the numerical integral


@dataclass(frozen=True, eq=False)
class Fall:
    """Runs of one identity at one step: TD errors relative to those before the updates."""

    settings: dict[str, Any]  # of the first run; the others differ in seed and steps at most
    step: int
    runs: int
    updates: tuple[int, ...]  # 0 first
    mean: NDArray[np.float64]  # (updates, measures), 1 before the updates
    reach: NDArray[np.float64]  # half the width of the 95 % interval; NaN where one value is all there is


def falls(fits: Sequence[Fit]) -> list[Fall]:
    """One per identity and step, in the order of the fits and of the steps.

    The interval is over runs, each with the mean of its batches, because batches of one run share its networks; with
    one run it is over its batches.
    """
    groups: dict[str, dict[int, list[Fit]]] = {}
    for fit in fits:
        groups.setdefault(canonical(fit.settings), {}).setdefault(fit.step, []).append(fit)
    return [_fall(group) for by_step in groups.values() for _, group in sorted(by_step.items())]


def _fall(fits: Sequence[Fit]) -> Fall:
    relative = [fit.errors / fit.errors[:, :1] for fit in fits]
    values = np.stack([one.mean(axis=0) for one in relative]) if len(fits) > 1 else relative[0]
    count = len(values)
    reach = (
        student(count - 1) * values.std(axis=0, ddof=1) / count**0.5 if count > 1 else np.full_like(values[0], np.nan)
    )
    return Fall(fits[0].settings, fits[0].step, len(fits), fits[0].updates, values.mean(axis=0), reach)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t; with t = √ν tan θ its density is that of θ, cos^(ν−1) θ.

    >>> round(student(2), 2), round(student(1000), 2)
    (4.3, 1.96)
    """
    angles = np.linspace(-np.pi / 2, np.pi / 2, GRID)
    shares = np.cumsum(np.cos(angles) ** (freedom - 1))
    return float(np.sqrt(freedom) * np.tan(np.interp(0.975, shares / shares[-1], angles)))


def titles(found: Sequence[Fall]) -> list[str]:
    """What to call each of them: its algorithm, the reuse while training and the other settings that vary."""
    shown = varying([fall.settings for fall in found])
    return [label(fall.settings, shown) for fall in found]


def fall_table(found: Sequence[Fall]) -> Table:
    """One row per step and number of updates, below a line for each identity."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.title, table.title_style, table.title_justify = Text(f"{found[0].settings['env']}: {TITLE}"), "", "left"
    table.caption, table.caption_style, table.caption_justify = Text(CAPTION), "", "left"
    table.add_column("", overflow="fold")
    for heading in ("runs", "updates", *(name.replace("held_out", "held-out").replace("_", "\n") for name in MEASURES)):
        table.add_column(heading, justify="right", no_wrap=True)
    above = ""
    for name, fall in zip(titles(found), found, strict=True):
        if name != above:
            table.add_section()
            table.add_row(Text(name, "bold"))
            above = name
        for index, updates in enumerate(fall.updates[1:], 1):
            first = (f"  step {fall.step:,}", f"{fall.runs}") if index == 1 else ("", "")
            cells = (_percent(*pair) for pair in zip(fall.mean[index], fall.reach[index], strict=True))
            table.add_row(*first, f"{updates}", *cells)
    return table


def sentences(found: Sequence[Fall]) -> list[str]:
    """What is seen of each identity at its last step, in one sentence."""
    last = dict(zip(titles(found), found, strict=True))
    return [f"{name}, step {fall.step:,}: {_seen(fall)}" for name, fall in last.items()]


def _seen(fall: Fall) -> str:
    words = [f"{number:,} update{'s' * (number > 1)}" for number in fall.updates]
    batch, batch_moving, held_out, held_out_moving = (
        [f"{100 * value:.1f} %" for value in values] for values in fall.mean.T
    )
    return (
        f"after {words[1]} on a batch its TD error is {batch[1]} of that before and that of held-out transitions "
        f"{held_out[1]}; after {words[-1]} they are {batch[-1]} and {held_out[-1]}, and to the moving target "
        f"{batch_moving[-1]} and {held_out_moving[-1]}."
    )


def _percent(mean: float, reach: float) -> str:
    return f"{100 * mean:.1f}" if np.isnan(reach) else f"{100 * mean:.1f} ± {100 * reach:.1f}"
