"""`results.png`: every result that has a target, over its target."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.harness import Record

LOW, HIGH = 0.45, 4.0  # edges of the axis; an arrow points to what is beyond
GOOD, BAD, INK, GREY, FAINT = "#009E73", "#D55E00", "#23262B", "#6E6E6E", "#EFEFEF"
LINE = 0.25  # inches per line


def draw(path: Path, records: Sequence[Record]) -> None:
    """Draw how many times its target each result reaches, section by section, on a logarithmic axis."""
    judged = [record for record in records if record.target is not None]
    sections = list(dict.fromkeys(record.name.partition("/")[0] for record in judged))
    lines: list[Record | str] = []
    for section in sections:
        lines += [section, *(record for record in judged if record.name.partition("/")[0] == section)]
    height = LINE * (len(lines) + 1) + 1.0
    figure = Figure(figsize=(11, height))
    axes = figure.add_axes((0.56, 0.55 / height, 0.25, 1 - 1.0 / height))
    axes.set(xscale="log", xlim=(LOW, HIGH), ylim=(len(lines) - 0.4, -0.6))
    axes.axvspan(LOW, 1, color=BAD, alpha=0.06, linewidth=0)
    axes.axvline(1, color=INK, linewidth=1.2)
    for place, line in enumerate(lines):
        if isinstance(line, str):
            _text(figure, 0.02, place, axes, line.replace("_", " "), weight="bold", color=INK, size=10)
        else:
            _result(figure, place, axes, line)
    axes.xaxis.set_major_locator(FixedLocator([0.5, 1, 2, 4]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: "target" if value == 1 else f"{value:g}×"))
    axes.tick_params(axis="x", colors=INK, labelsize=9, length=0)
    axes.yaxis.set_major_locator(NullLocator())
    axes.grid(axis="x", color=FAINT)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    met = sum(bool(record.met) for record in judged)
    figure.text(0.02, 1 - 0.25 / height, f"{met} of {len(judged)} targets met", size=13, weight="bold", color=INK)
    words = "right of the line: better than the target, whether it is a lower or an upper bound"
    figure.text(0.56, 0.15 / height, words, size=8.5, color=GREY)
    figure.savefig(path, dpi=130, facecolor="white")


def share(record: Record) -> float:
    """Return the result relative to its target: at least 1 if it is met."""
    assert record.target is not None
    return record.target / record.value if record.at_most else record.value / record.target


def _result(figure: Figure, place: int, axes: Axes, record: Record) -> None:
    """Draw one result: its name, a line from the target to it, and its numbers."""
    colour, ratio = GOOD if record.met else BAD, share(record)
    inside = min(max(ratio, LOW), HIGH)
    axes.plot([1, inside], [place, place], color=colour, linewidth=3, solid_capstyle="butt", alpha=0.55)
    marker = "o" if inside == ratio else ">" if ratio > HIGH else "<"
    axes.plot(inside, place, marker, color=colour, markersize=7, clip_on=False)
    _text(figure, 0.035, place, axes, record.name.partition("/")[2], size=9, color=INK)
    unit = f" {record.unit}" if record.unit else ""
    numbers = f"{record.value:.3g}{unit}  ({'≤' if record.at_most else '≥'} {record.target:g})"
    beyond = f", {ratio:.0f}×" if inside != ratio else ""
    _text(figure, 0.82, place, axes, numbers + beyond, size=9, color=colour if not record.met else INK)


def _text(figure: Figure, left: float, place: int, axes: Axes, text: str, **look: Any) -> None:
    """Write a text at the height of a line of the axes, so far from the left of the figure."""
    box = axes.get_position()
    low, high = axes.get_ylim()
    figure.text(left, box.y0 + box.height * (place - low) / (high - low), text, va="center", **look)
