"""Learning curves as PNG, PDF or SVG, drawn without pyplot and its global state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator, StrMethodFormatter
from matplotlib.transforms import ScaledTranslation

from smrl.errors import printable, require
from smrl.report.results import Band, Curve, band, colour_numbers, curve_names, curves, setting_names
from smrl.runs.records import Record

# Okabe and Ito's palette for colour-blind readers, without its faint yellow, and darker where it is faint on white.
# The page has the same (page/style.css).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#B8578F", "#3A9BD9", "#C98600", "#23262B")
MARKERS = ("", "o", "s", "^")  # each is used with all colours before the next one; dashes are for published results
INK, GREY, FAINT = "#333333", "#6E6E6E", "#E6E6E6"
_NO_DATE = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
# Dollar signs in names do not start formulas, equal runs give equal files, and fonts are TrueType (Type 42): submission
# systems of conferences refuse Type 3.
STYLE: dict[Any, Any] = {
    **{"text.parse_math": False, "svg.hashsalt": "smrl", "svg.fonttype": "none"},
    **{"pdf.fonttype": 42, "ps.fonttype": 42},
}
COLUMN = 3.3  # inches: one of a paper's two columns
BANDS: dict[Band, str] = {
    "sd": "mean over seeds, band: sample standard deviation (n − 1)",
    "ci": "mean over seeds, band: its 95 % bootstrap interval",
    "iqm": "interquartile mean over seeds, band: its 95 % bootstrap interval",
}


@dataclass(frozen=True)
class Design:
    """How to draw a figure for a document: text of 8 points, and no caption in it."""

    width: float = COLUMN  # inches
    band: Band = "sd"
    titles: Mapping[str, str] = field(default_factory=dict)  # of tasks → what stands above their panels


@rc_context(STYLE)
def learning_curves(
    records: Sequence[Record],
    path: Path,
    threshold: float | None = None,
    design: Design | None = None,
    names: Mapping[str, str] | None = None,
) -> Path:
    """Draw a panel per environment and a line per identity (`smrl.runs.identity`); return the path.

    The path's suffix decides the format: .png, .pdf or .svg. By default, the band is the mean over seeds ± the sample
    standard deviation (n − 1). A single seed has no band. A curve in ``names`` has another name in the legend.
    """
    require(len(records) > 0, "there is no evaluation to draw yet; wait for the first evaluation of a run.")
    found = curves(records)
    settings = setting_names(found)
    numbers = colour_numbers(found, settings)
    renamed, titles = names or {}, design.titles if design else {}
    labels = [printable(renamed.get(name, name)) for name in curve_names(found)]  # SVG has no control characters
    envs = list(dict.fromkeys(curve.env for curve in found))
    size = 8 if design else 10
    figure, columns = _empty(len(envs), design)
    with rc_context({"font.size": size, "legend.fontsize": size}):
        for index, env in enumerate(envs):
            axes = figure.add_subplot(-(-len(envs) // columns), columns, index + 1)
            for curve, label, setting in zip(found, labels, settings, strict=True):
                if curve.env == env:
                    _draw(axes, curve, label, numbers[setting], design)
            if threshold is not None:
                text = f"return {threshold:,g}".replace("-", "−")
                axes.axhline(threshold, color=GREY, linewidth=0.9, zorder=1, label=text)
            tidy(axes, printable(titles.get(env, env)), size)
            if design:
                axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
                axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
            if index + columns >= len(envs):
                axes.set_xlabel("environment steps", color=INK)
            if index % columns == 0:
                words = "return" if design else _return_label(records, " " if len(envs) == 1 else "\n")
                axes.set_ylabel(words, color=INK)
        pairs = {(label, numbers[setting]) for label, setting in zip(labels, settings, strict=True)}
        is_shared = len({label for label, _ in pairs}) == len({number for _, number in pairs}) == len(pairs)
        several = any(len(curve.records) > 1 for curve in found)
        caption = f"bold: {BANDS['sd']}, thin: each seed" if several and not design else ""
        _legend(figure, columns, size, is_shared, caption)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=300 if design else 150, metadata=_NO_DATE.get(path.suffix))
    return path


def short_number(value: float) -> str:
    """Return a number for a narrow axis.

    >>> short_number(250000), short_number(1500000), short_number(-50)
    ('250k', '1.5M', '−50')
    """
    size, unit = next((pair for pair in ((1e6, "M"), (1e3, "k")) if abs(value) >= pair[0]), (1.0, ""))
    return f"{value / size:.4g}{unit}".replace("-", "−")


def _empty(count: int, design: Design | None) -> tuple[Figure, int]:
    """Return a figure with room for ``count`` panels, and its number of columns."""
    if design:
        columns = min(count, 4, max(1, int(design.width / 1.6)))
        height = 0.62 * design.width if count == 1 else 0.85 * design.width / columns
        size = (design.width, height * -(-count // columns) + 0.3)
    else:
        columns = balanced(count, 3)
        size = (6.4, 4.4) if count == 1 else (3.9 * columns, 3.1 * -(-count // columns) + 0.7)
    pad = 0.03 if design else 0.1
    return Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=pad, h_pad=0.8 * pad)), columns


def _draw(axes: Axes, curve: Curve, name: str, number: int, design: Design | None) -> None:
    colour = COLOURS[number % len(COLOURS)]
    middle, low, high = band(curve, design.band if design else "sd")
    if len(curve.records) > 1:
        axes.fill_between(curve.steps, low, high, color=colour, alpha=0.15, linewidth=0)
        for record in () if design else curve.records:
            axes.plot(record.steps, record.returns, color=colour, alpha=0.3, linewidth=0.8)
    marker = MARKERS[number // len(COLOURS) % len(MARKERS)]
    marker = marker or ("o" if len(curve.steps) == 1 else "")  # a line of one point is invisible
    every, width = max(1, len(curve.steps) // 8), 1.3 if design else 2
    (line,) = axes.plot(curve.steps, middle, marker=marker, color=colour, linewidth=width, label=name)
    line.set(markevery=every, markersize=3 * width)


def tidy(axes: Axes, title: str, size: float = 10) -> None:
    """Apply the style of every panel: a title, faint grid lines and no frame; ``size`` is that of the text."""
    axes.set_title(title, loc="left", fontsize=1.1 * size, fontweight="bold", color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(INK)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="x", colors=INK, labelsize=0.9 * size)
    axes.tick_params(axis="y", colors=INK, labelsize=0.9 * size, length=0)
    axes.margins(x=0)
    axes.set_xlim(left=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def _legend(figure: Figure, columns: int, size: float, is_shared: bool, caption: str) -> None:
    """Explain the lines once, below the figure, or below each panel; a long legend must not shrink the panels."""
    panels = [{str(line.get_label()): line for line in axes.lines} for axes in figure.axes]
    panels = [{name: line for name, line in lines.items() if not name.startswith("_")} for lines in panels]
    if is_shared:
        panels, columns = [dict(pair for lines in panels for pair in lines.items())], 1
    else:
        size *= 0.85
    width, letter, handle = figure.get_figwidth() / columns - 0.06 * size, 0.0085 * size, 0.07 * size  # inches
    longest = max(len(name) for lines in panels for name in lines)
    side_by_side = max(1, min(3, int(width / (handle + letter * longest))))
    letters = max(10, int((width - handle) / letter))
    texts = [[_wrapped(name, letters) for name in lines] for lines in panels]
    rows = max(sum(1 + text.count("\n") for text in names) for names in texts) / side_by_side
    look: dict[str, Any] = {"frameon": False, "borderpad": 0, "labelcolor": INK, "fontsize": size}
    if is_shared:
        figure.set_figheight(figure.get_figheight() + 0.021 * size * max(0, rows - 2))
        (lines,), (names,) = panels, texts
        look |= {"title": caption or None, "loc": "outside lower center"}
        legend = figure.legend([*lines.values()], names, ncols=balanced(len(lines), side_by_side), **look)
        legend.get_title().set(color=GREY, fontsize=0.85 * size)
        return
    figure.set_figheight(figure.get_figheight() + 0.018 * size * (rows + 1) * -(-len(panels) // columns))
    for axes, lines, names in zip(figure.axes, panels, texts, strict=True):
        below = axes.transAxes + ScaledTranslation(0, -0.05 * size, figure.dpi_scale_trans)  # the axis and its name
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": below}
        axes.legend([*lines.values()], names, ncols=balanced(len(lines), side_by_side), **look, **place)
    if caption:
        figure.supxlabel(caption, color=GREY, fontsize=0.85 * size)


def balanced(count: int, most: int) -> int:
    """Return the number of columns, at most ``most``, for rows of about the same length.

    >>> balanced(4, 3), balanced(3, 3), balanced(1, 3), balanced(7, 3)
    (2, 3, 1, 3)
    """
    return -(-count // -(-count // most))


def _wrapped(name: str, letters: int) -> str:
    """Break a name into lines, between its settings rather than within one."""
    space = "\N{NO-BREAK SPACE}"
    return fill(name.replace(" ", space).replace(f",{space}", ", "), letters).replace(space, " ")


def _return_label(records: Sequence[Record], space: str) -> str:
    count, *others = {record.episodes for record in records}
    if others or count is None:
        return f"return{space}(mean of the evaluation episodes)"
    if count == 0:
        return f"return{space}(mean of the training episodes)"
    return (
        f"return{space}(1 evaluation episode)" if count == 1 else f"return{space}(mean of {count} evaluation episodes)"
    )
