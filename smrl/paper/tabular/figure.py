"""Learning curves of Q-learning and Q-SMR as a PNG: a row of panels per task, a line per reuse ratio."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from smrl.paper.tabular.learning import Result
from smrl.report.figures import COLOURS, GREY, INK, tidy

Numbers = NDArray[np.float64]
PANELS = (
    "training return",
    "greedy return\n(ε = 0, the paper's evaluation)",
    "training steps to the goal\n(mean over successes only)",
)
NOTE = "line: mean over seeds, running over 2 % of the episodes; band: sample standard deviation (n − 1) over seeds"


def draw(results: Mapping[str, Mapping[int, Result]], path: Path) -> Path:
    """Draw the results per task and reuse: mean over seeds, band of one standard deviation."""
    figure = Figure(figsize=(10.5, 2.7 * len(results) + 0.8), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    grid = figure.subplots(len(results), len(PANELS), squeeze=False)
    times = sorted({reuse for by_reuse in results.values() for reuse in by_reuse})
    for row, (task, by_reuse) in zip(grid, results.items(), strict=True):
        for reuse, result in sorted(by_reuse.items()):
            name = f"{'Q-learning' if reuse == 1 else 'Q-SMR'}, M = {reuse}"
            colour = COLOURS[times.index(reuse) % len(COLOURS)]
            for axes, values in zip(row, _values(result), strict=True):
                _line(axes, values, colour, name)
        for axes, title in zip(row, PANELS, strict=True):
            tidy(axes, f"{task}\n{title}" if axes is row[0] else title)
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            axes.set_xlabel("episode" if axes in grid[-1] else "", color=INK)
        row[-1].set_ylim(bottom=0)  # the band may reach below 0, steps cannot
    _legend(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, format="png")
    return path


def _values(result: Result) -> tuple[Numbers, ...]:
    """Values of the panels, (seeds, episodes); the steps are NaN where the goal was not reached."""
    steps = np.where(result.training_goal, result.training_steps, np.nan)
    return result.training_return.astype(float), result.greedy_return.astype(float), steps


def _line(axes: Axes, values: Numbers, colour: str, name: str) -> None:
    """Mean and standard deviation over the seeds that have a value; two are needed for a deviation."""
    window = max(1, round(values.shape[1] / 50))
    counts = np.isfinite(values).sum(0)
    if not counts.any():
        return
    mean, sd = np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    mean[counts > 0] = np.nanmean(values[:, counts > 0], 0)
    sd[counts > 1] = np.nanstd(values[:, counts > 1], 0, ddof=1)
    mean, sd = running(mean, window), running(sd, window)
    known = np.isfinite(mean)
    episodes, mean, sd = np.flatnonzero(known) + 1, mean[known], sd[known]
    axes.fill_between(episodes, mean - sd, mean + sd, color=colour, alpha=0.15, linewidth=0)
    axes.plot(episodes, mean, color=colour, linewidth=2, marker="o" if len(episodes) == 1 else "", label=name)


def running(values: Numbers, window: int) -> Numbers:
    """Moving average over a centred window, shorter at both ends, of the values that are not NaN.

    >>> running(np.array([0.0, 3.0, 6.0]), 3)
    array([1.5, 3. , 4.5])
    >>> running(np.array([0.0, np.nan, 6.0]), 3)
    array([0., 3., 6.])
    """
    ones = np.ones(min(window, len(values)))
    known = np.isfinite(values)
    counts = np.convolve(known, ones, "same")
    totals = np.convolve(np.where(known, values, 0), ones, "same")
    return np.divide(totals, counts, out=np.full(len(values), np.nan), where=counts > 0.5)


def _legend(figure: Figure) -> None:
    lines = {str(line.get_label()): line for axes in figure.axes for line in axes.lines}
    look: dict[str, Any] = {"ncols": 4, "frameon": False, "labelcolor": INK, "title": NOTE}
    legend = figure.legend(list(lines.values()), list(lines), loc="outside lower center", **look)
    legend.get_title().set(color=GREY, fontsize=8.5)
