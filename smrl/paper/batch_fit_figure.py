"""How far the TD errors of a batch and of held-out transitions fall, as a PNG drawn without pyplot."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from smrl.paper.batch_fit_statistics import Fall, titles
from smrl.paper.batch_fit_table import MEASURES
from smrl.report.figures import COLOURS, GREY, INK, tidy

NOTE = "solid: target fixed before the updates; dashed: target that moves with them; band: 95 % interval"
LOOKS = {
    "batch_fixed": ("the batch", COLOURS[0], "-"),
    "held_out_fixed": ("held-out transitions", COLOURS[1], "-"),
    "batch_moving": ("", COLOURS[0], "--"),
    "held_out_moving": ("", COLOURS[1], "--"),
}


def draw_falls(found: Sequence[Fall], path: Path) -> Path:
    """Draw a row of panels per identity and a column per step: TD errors over the number of updates on the batch."""
    names = titles(found)
    rows, steps = list(dict.fromkeys(names)), sorted({fall.step for fall in found})
    size = (max(6.4, 3.4 * len(steps)), 2.9 * len(rows) + 0.9)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    grid = figure.subplots(len(rows), len(steps), squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat:
        axes.set_visible(False)  # until there is something to draw: runs may have been measured at different steps
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
    lines = [Line2D([], [], color=colour, linewidth=2, label=name) for name, colour, _ in LOOKS.values() if name]
    legend = figure.legend(
        handles=lines, loc="outside lower center", ncols=2, frameon=False, labelcolor=INK, title=NOTE
    )
    legend.get_title().set(color=GREY, fontsize=8.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, format="png")
    return path


def _panel(axes: Axes, fall: Fall) -> None:
    mean, reach = 100 * fall.mean.T, 100 * fall.reach.T
    for name, (_, colour, dash) in LOOKS.items():
        index = MEASURES.index(name)
        is_fixed = dash == "-"
        if is_fixed:
            low, high = mean[index] - reach[index], mean[index] + reach[index]
            axes.fill_between(fall.updates, low, high, color=colour, alpha=0.15, linewidth=0)
        marker, width = ("o", 2) if is_fixed else ("", 1.2)
        axes.plot(
            fall.updates, mean[index], dash, marker=marker, markersize=4, color=colour, linewidth=width, clip_on=False
        )
