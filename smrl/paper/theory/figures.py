"""Figures of the theory, drawn without pyplot and its global state."""

from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from smrl.paper.theory.finding import Finding
from smrl.report.figures import COLOURS, FAINT, GREY, INK

ERROR = "‖Q − Q*‖∞, mean and 99 % interval"


def draw_rates(finding: Finding, folder: Path) -> Path:
    """Plot the effective learning rate between its bounds."""
    figure, axes = _panel("M reuses act like a larger rate, below M times α")
    for line, colour in zip(finding.lines, (GREY, *COLOURS), strict=False):
        axes.plot(line.x, line.y, color=colour, linewidth=2, label=f"{line.name}" + " (α itself)" * (colour == GREY))
        if line.high is not None and colour != GREY:
            axes.plot(line.x, line.high, ":", color=colour, linewidth=1.3)
    axes.plot([], [], ":", color=INK, linewidth=1.3, label="min(1, Mα)")
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    return _save(figure, axes, "learning rate α", "effective rate 1 − (1 − α)ᴹ", folder / "effective-rate.png")


def draw_convergence(finding: Finding, folder: Path) -> Path:
    """Plot the error with decaying learning rates and with a constant one."""
    figure, axes = _panel("Reuse with decaying rates and with a constant one")
    _curves(axes, finding)
    return _save(figure, axes, "steps T", ERROR, folder / "convergence.png")


def draw_finite_time(finding: Finding, folder: Path) -> Path:
    """Plot the error over T + t0, with the slope of the theorem."""
    figure, axes = _panel("The error with the rates that the theorem asks for")
    _curves(axes, finding)
    x, y = finding.lines[0].x, finding.lines[0].y
    guide = 1.25 * y[0] * (x / x[0]) ** -0.5  # above the lines, so that only its slope is compared
    axes.plot(x, guide, "--", color=GREY, linewidth=1.2, label="slope −1/2")
    return _save(figure, axes, "T + t₀", ERROR, folder / "finite-time.png")


def draw_scaling(quantity: Literal["gamma", "rarest", "mixing"], finding: Finding, folder: Path) -> Path:
    """Plot the number of steps over a property of the MDP, measured and by the corollary."""
    name = {"gamma": "1/(1 − γ)", "rarest": "1/μ_min", "mixing": "t_mix"}[quantity]
    figure, axes = _panel(f"Steps until 95 % of the runs are within ε, over {name}")
    _curves(axes, finding)
    return _save(figure, axes, name, "T · ε²", folder / f"scaling-{quantity}.png")


def _curves(axes: Axes, finding: Finding) -> None:
    """Draw lines with bands on logarithmic axes."""
    for line, colour in zip(finding.lines, COLOURS, strict=False):
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(line.x, line.y, "o-", color=colour, markersize=4, linewidth=2, label=line.name)
    axes.set(xscale="log", yscale="log")
    low, high = axes.get_ylim()
    subs = (1, 2, 3, 5, 7) if high < 100 * low else (1,)
    for axis, marks in ((axes.xaxis, (1, 2, 5)), (axes.yaxis, subs)):
        axis.set_major_locator(LogLocator(10, subs=marks))
        axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,.10g}"))
        axis.set_minor_formatter(NullFormatter())


def _panel(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    return figure, axes


def _save(figure: Figure, axes: Axes, x: str, y: str, path: Path) -> Path:
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
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
