"""Learning curves as PNG, PDF or SVG, drawn without pyplot and its global state."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from smrl.errors import require
from smrl.report.results import Curve, curve_names, curves
from smrl.report.text import printable
from smrl.runs.records import Record

# Okabe and Ito's palette for colour-blind readers, without its faint yellow
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", "--", ":", "-.")  # each style is used with all colours before the next one
_NO_DATE = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
INK, GREY, FAINT = "#333333", "#6E6E6E", "#E6E6E6"


# Dollar signs in names do not start formulas, and equal runs give equal files.
@rc_context({"text.parse_math": False, "svg.hashsalt": "smrl", "svg.fonttype": "none"})
def learning_curves(records: Sequence[Record], path: Path, threshold: float | None = None) -> Path:
    """Draw a panel per environment and a line per identity (all settings except seed and steps); return the path.

    The path's suffix decides the format: .png, .pdf or .svg. The band is the mean over seeds ± the sample standard
    deviation (n − 1); a single seed has no band.
    """
    require(len(records) > 0, "there is no evaluation to draw yet; wait for the first evaluation of a run.")
    found = curves(records)
    envs = list(dict.fromkeys(curve.env for curve in found))
    titles = [printable(name) for name in curve_names(found)]  # an SVG file cannot hold control characters
    labels = list(dict.fromkeys(titles))
    rows = -(-len(envs) // 3)
    columns = -(-len(envs) // rows)
    size = (6.4, 4.4) if len(envs) == 1 else (3.9 * columns, 3.1 * rows + 0.7)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    for index, env in enumerate(envs):
        axes = figure.add_subplot(rows, columns, index + 1)
        for curve, name in zip(found, titles, strict=True):
            if curve.env == env:
                _draw(axes, curve, name, labels.index(name))
        if threshold is not None:
            text = f"return {threshold:,g}".replace("-", "−")
            axes.axhline(threshold, color=GREY, linestyle=(0, (5, 3)), linewidth=1.2, zorder=1, label=text)
        tidy(axes, printable(env))
        if index + columns >= len(envs):
            axes.set_xlabel("environment steps", color=INK)
        if index % columns == 0:
            axes.set_ylabel(_return_label(records, " " if len(envs) == 1 else "\n"), color=INK)
    _legend(figure, several=any(len(curve.records) > 1 for curve in found))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata=_NO_DATE.get(path.suffix))
    return path


def _draw(axes: Axes, curve: Curve, name: str, index: int) -> None:
    colour = COLOURS[index % len(COLOURS)]
    dash = DASHES[index // len(COLOURS) % len(DASHES)]
    if len(curve.records) > 1:
        low, high = curve.mean - curve.sd, curve.mean + curve.sd
        axes.fill_between(curve.steps, low, high, color=colour, alpha=0.15, linewidth=0)
        for record in curve.records:
            axes.plot(record.steps, record.returns, color=colour, alpha=0.3, linewidth=0.8)
    marker = "o" if len(curve.steps) == 1 else ""  # a line of one point is invisible
    axes.plot(curve.steps, curve.mean, dash, marker=marker, color=colour, linewidth=2, label=name)


def tidy(axes: Axes, title: str) -> None:
    """Apply the style of every panel: a title, faint grid lines and no frame."""
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(INK)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="x", colors=INK, labelsize=9)
    axes.tick_params(axis="y", colors=INK, labelsize=9, length=0)
    axes.margins(x=0)
    axes.set_xlim(left=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def _legend(figure: Figure, several: bool) -> None:
    lines = {str(line.get_label()): line for axes in figure.axes for line in axes.lines}
    shown = {name: line for name, line in lines.items() if not name.startswith("_")}
    inches = 0.7 + 0.085 * max(len(name) for name in shown)  # width of the longest entry
    columns = max(1, min(len(shown), 3, int(figure.get_figwidth() / inches)))
    more_rows = max(0, -(-len(shown) // columns) - 2)
    figure.set_figheight(figure.get_figheight() + 0.21 * more_rows)  # a long legend must not shrink the panels
    legend = figure.legend(
        list(shown.values()),
        list(shown),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        borderpad=0,
        labelcolor=INK,
    )
    if several:
        legend.set_title("bold: mean over seeds, band: sample standard deviation (n − 1), thin: each seed")
        legend.get_title().set(color=GREY, fontsize=8.5)


def _return_label(records: Sequence[Record], space: str) -> str:
    counts = {record.episodes for record in records}
    if len(counts) > 1:
        return f"return{space}(mean of the evaluation episodes)"
    count = counts.pop()
    if count == 0:
        return f"return{space}(mean of the training episodes)"
    return (
        f"return{space}(1 evaluation episode)" if count == 1 else f"return{space}(mean of {count} evaluation episodes)"
    )
