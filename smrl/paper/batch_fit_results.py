"""How far the TD errors of a batch and of held-out transitions fall: statistics, a table and a figure. Needs no JAX."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text
from scipy import stats

from smrl.report.figures import COLOURS, GREY, INK, tidy
from smrl.report.text import plain_table
from smrl.runs.identity import canonical, label, varying
from smrl.statistics import sample_sd

MEASURES = ("batch_fixed", "batch_moving", "held_out_fixed", "held_out_moving")  # RMS TD errors
CAPTION = (
    "fixed: to the target before the updates; moving: to the target after them\n"
    "±: 95 % interval of the mean over runs, or over batches for a single run"
)
NOTE = "solid: target fixed before the updates; dashed: target that moves with them; band: 95 % interval"
STYLES = {
    "batch_fixed": ("the batch", COLOURS[0], "-"),
    "held_out_fixed": ("held-out transitions", COLOURS[1], "-"),
    "batch_moving": ("", COLOURS[0], "--"),
    "held_out_moving": ("", COLOURS[1], "--"),
}


@dataclass(frozen=True, eq=False)
class Fit:
    """The measurements of one run at one step."""

    settings: dict[str, Any]  # of the run by name, including the hyperparameters
    step: int
    updates: tuple[int, ...]  # 0 first
    errors: NDArray[np.float64]  # (batches, updates, measures)


@dataclass(frozen=True, eq=False)
class Fall:
    """Runs of one identity at one step: TD errors relative to those before the updates."""

    settings: dict[str, Any]  # of the first run; the others differ only in seed and steps
    step: int
    runs: int
    updates: tuple[int, ...]  # 0 first
    mean: NDArray[np.float64]  # (updates, measures), 1 before the updates
    reach: NDArray[np.float64]  # half the width of the 95 % interval; NaN for a single value


def falls(fits: Sequence[Fit]) -> list[Fall]:
    """Average fits per identity and step, in the order of the fits and of the steps.

    The interval is over runs, each with the mean of its batches, because the batches of a run share its networks; for
    a single run it is over its batches.
    """
    groups: dict[str, dict[int, list[Fit]]] = {}
    for fit in fits:
        groups.setdefault(canonical(fit.settings), {}).setdefault(fit.step, []).append(fit)
    return [_fall(group) for by_step in groups.values() for _, group in sorted(by_step.items())]


def _fall(fits: Sequence[Fit]) -> Fall:
    relative = [fit.errors / fit.errors[:, :1] for fit in fits]
    values = np.stack([one.mean(axis=0) for one in relative]) if len(fits) > 1 else relative[0]
    count = len(values)
    reach = stats.t.ppf(0.975, count - 1) * sample_sd(values) / count**0.5  # NaN for one value
    return Fall(fits[0].settings, fits[0].step, len(fits), fits[0].updates, values.mean(axis=0), reach)


def titles(found: Sequence[Fall]) -> list[str]:
    """Name each fall by its algorithm, the reuse while training and the other settings that vary."""
    shown = varying([fall.settings for fall in found])
    return [label(fall.settings, shown) for fall in found]


def fall_table(found: Sequence[Fall]) -> Table:
    """Make the table for the terminal: one row per step and number of updates, below a line for each identity."""
    table = plain_table(f"{found[0].settings['env']}: RMS TD error in % of that before the updates", CAPTION)
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


def _percent(mean: float, reach: float) -> str:
    return f"{100 * mean:.1f}" if np.isnan(reach) else f"{100 * mean:.1f} ± {100 * reach:.1f}"


def sentences(found: Sequence[Fall]) -> list[str]:
    """Describe each identity at its last step in one sentence."""
    last = dict(zip(titles(found), found, strict=True))
    return [f"{name}, step {fall.step:,}: {_description(fall)}" for name, fall in last.items()]


def _description(fall: Fall) -> str:
    words = [f"{number:,} update{'s' * (number > 1)}" for number in fall.updates]
    batch, batch_moving, held_out, held_out_moving = (
        [f"{100 * value:.1f} %" for value in values] for values in fall.mean.T
    )
    return (
        f"after {words[1]} on a batch its TD error is {batch[1]} of that before and that of held-out transitions "
        f"{held_out[1]}; after {words[-1]} they are {batch[-1]} and {held_out[-1]}, and to the moving target "
        f"{batch_moving[-1]} and {held_out_moving[-1]}."
    )


def draw_falls(found: Sequence[Fall], path: Path) -> Path:
    """Draw TD errors over the number of updates on the batch: a row of panels per identity, a column per step."""
    names = titles(found)
    rows, steps = list(dict.fromkeys(names)), sorted({fall.step for fall in found})
    size = (max(6.4, 3.4 * len(steps)), 2.9 * len(rows) + 0.9)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    grid = figure.subplots(len(rows), len(steps), squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat:
        axes.set_visible(False)  # until something is drawn, because runs may be measured at different steps
    for name, fall in zip(names, found, strict=True):
        axes = grid[rows.index(name), steps.index(fall.step)]
        axes.set_visible(True)
        _panel(axes, fall)
        tidy(axes, f"{name}\n{fall.settings['env']}, step {fall.step:,}")
    grid[0, 0].set_ylim(bottom=0)  # of all panels
    for axes in grid[-1]:
        axes.set_xlabel("updates on the batch", color=INK)
    for axes in grid[:, 0]:
        axes.set_ylabel("TD error, % of that before", color=INK)
    lines = [Line2D([], [], color=colour, linewidth=2, label=name) for name, colour, _ in STYLES.values() if name]
    legend = figure.legend(
        handles=lines, loc="outside lower center", ncols=2, frameon=False, labelcolor=INK, title=NOTE
    )
    legend.get_title().set(color=GREY, fontsize=8.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, format="png")
    return path


def _panel(axes: Axes, fall: Fall) -> None:
    mean, reach = 100 * fall.mean.T, 100 * fall.reach.T
    for name, (_, colour, dash) in STYLES.items():
        index = MEASURES.index(name)
        is_fixed = dash == "-"
        if is_fixed:
            low, high = mean[index] - reach[index], mean[index] + reach[index]
            axes.fill_between(fall.updates, low, high, color=colour, alpha=0.15, linewidth=0)
        marker, width = ("o", 2) if is_fixed else ("", 1.2)
        axes.plot(
            fall.updates, mean[index], dash, marker=marker, markersize=4, color=colour, linewidth=width, clip_on=False
        )
