"""Figures of the theory, drawn without pyplot and its global state."""

from collections.abc import Callable
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from smrl.report.figures import COLOURS, FAINT, GREY, INK
from smrl.theory.statements import Finding


def draw_convergence(finding: Finding, path: Path) -> Path:
    """Plot the error with decaying learning rates and with a constant one."""

    def draw(axes: Axes) -> None:
        _bands(axes, finding)
        _logarithmic(axes)
        axes.set_xlabel("steps T", color=INK)
        axes.set_ylabel("‖Q − Q*‖∞, mean and 99 % interval", color=INK)

    return _picture("Reuse with decaying rates and with a constant one", draw, path)


def draw_finite_time(finding: Finding, path: Path) -> Path:
    """Plot the error over T + t0, with the slope of the theorem."""

    def draw(axes: Axes) -> None:
        _bands(axes, finding)
        x, y = finding.lines[0].x, finding.lines[0].y
        guide = 1.25 * y[0] * (x / x[0]) ** -0.5  # above the lines, so that only its slope is compared
        axes.plot(x, guide, "--", color=GREY, linewidth=1.2, label="slope −1/2")
        _logarithmic(axes)
        axes.set_xlabel("T + t₀", color=INK)
        axes.set_ylabel("‖Q − Q*‖∞, mean and 99 % interval", color=INK)

    return _picture("The error with the rates that the theorem asks for", draw, path)


def draw_rates(finding: Finding, path: Path) -> Path:
    """Plot the effective learning rate between its bounds."""

    def draw(axes: Axes) -> None:
        for line, colour in zip(finding.lines, (GREY, *COLOURS), strict=False):
            axes.plot(
                line.x, line.y, color=colour, linewidth=2, label=f"{line.name}" + " (α itself)" * (colour == GREY)
            )
            if line.high is not None and colour != GREY:
                axes.plot(line.x, line.high, ":", color=colour, linewidth=1.3)
        axes.plot([], [], ":", color=INK, linewidth=1.3, label="min(1, Mα)")
        axes.set(xlim=(0, 1), ylim=(0, 1.02))
        axes.set_xlabel("learning rate α", color=INK)
        axes.set_ylabel("effective rate 1 − (1 − α)ᴹ", color=INK)

    return _picture("M reuses act like a larger rate, below M times α", draw, path)


def _bands(axes: Axes, finding: Finding) -> None:
    for line, colour in zip(finding.lines, COLOURS, strict=False):
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(line.x, line.y, "o-", color=colour, markersize=4, linewidth=2, label=line.name)


def _logarithmic(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis, subs in ((axes.xaxis, (1, 2, 5)), (axes.yaxis, (1, 2, 3, 5, 7))):
        axis.set_major_locator(LogLocator(10, subs=subs))
        axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,.10g}"))
        axis.set_minor_formatter(NullFormatter())


def _picture(title: str, draw: Callable[[Axes], None], path: Path) -> Path:
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    draw(axes)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(INK)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="both", which="both", colors=INK, labelsize=9)
    axes.tick_params(axis="y", which="both", length=0)
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, format="png")
    return path
