"""The figure at the top of README.md: `python -m benchmarks.readme_figure` writes docs/images/readme.png.

There is also a dark one, readme-dark.png. Left, returns over environment steps with reuse 1 and with more, from the
folders of tasks in results/; tasks with both come first. Right, updates of SAC per second, from results.json. It is
beside the benchmarks because it reads their results. `make results` runs it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from benchmarks import results
from benchmarks.harness import Record
from smrl.errors import require
from smrl.report.figures import STYLE, short_number
from smrl.report.report import make_report
from smrl.report.results import ResultRow
from smrl.runs.identity import algorithm_words, canonical, reuse_words

HOME = Path(__file__).resolve().parents[1]
OTHERS = ("negative", "reproduced", "studies")  # folders in results/ that are not those of tasks
IMAGES = HOME / "docs" / "images"
MOST_TASKS = 4
SPEED = "updates/sac, M = 10, 2 cores: "
PEERS = {
    "smrl": "smrl",
    "smrl by XLA": "smrl by XLA",
    "SBX": "SBX",
    "eager": "eager PyTorch",
    "SB3": "Stable-Baselines3",
}


@dataclass(frozen=True)
class Theme:
    """Colours of a page."""

    paper: str
    ink: str
    quiet: str
    line: str
    ours: str
    plain: str


THEMES = {
    "readme.png": Theme("#ffffff", "#1f2328", "#656d76", "#e6e8eb", "#0072b2", "#9aa4af"),
    "readme-dark.png": Theme("#0d1117", "#e6edf3", "#8b949e", "#262c35", "#5eb3ec", "#76818d"),
}


def main() -> None:
    """Draw the figure for light and for dark pages."""
    folders = sorted(path for path in (HOME / "results").iterdir() if path.is_dir() and path.name not in OTHERS)
    rows = choose(make_report(folders).rows)
    speeds = updates_per_second(results.read(HOME / "benchmarks").records)
    for name, theme in THEMES.items():
        print(f"written: {draw(IMAGES / name, rows, speeds, theme)}")


def choose(rows: Sequence[ResultRow]) -> dict[str, list[ResultRow]]:
    """Return the rows to draw by task: one with reuse and, if there is one, the same settings with reuse 1.

    Tasks with both come first, then those with more seeds; at most four are drawn.
    """
    tasks: dict[str, list[ResultRow]] = {}
    for row in (row for row in rows if row.step):
        tasks.setdefault(row.curve.env, []).append(row)
    chosen = {env: max(_candidates(of_env), key=_documented) for env, of_env in tasks.items()}
    require(bool(chosen), "results/ holds no run that can be drawn.")
    order = sorted(chosen, key=lambda env: [-number for number in _documented(chosen[env])])
    return {env: chosen[env] for env in order[:MOST_TASKS]}


def _candidates(rows: Sequence[ResultRow]) -> list[list[ResultRow]]:
    """Return each row with reuse together with the one that differs from it in nothing but reuse 1."""
    plain = {_without_reuse(row): row for row in rows if row.curve.settings["reuse"] == "1"}
    reused = [row for row in rows if row.curve.settings["reuse"] != "1"]
    pairs = [[row, *([plain[_without_reuse(row)]] if _without_reuse(row) in plain else [])] for row in reused]
    return pairs or [[row] for row in rows]


def _without_reuse(row: ResultRow) -> str:
    return canonical({**row.curve.settings, "reuse": ""})


def _documented(rows: Sequence[ResultRow]) -> tuple[int, int, int]:
    """Return how much there is to see: curves, and the seeds and steps of the shorter one."""
    return len(rows), min(len(row.returns) for row in rows), min(row.step for row in rows)


def updates_per_second(records: Sequence[Record]) -> dict[str, float]:
    """Return the speeds of SAC with M = 10 on two cores, by name, the fastest first."""
    found = {record.name.removeprefix(SPEED): record for record in records if record.name.startswith(SPEED)}
    for name in PEERS.keys() - found.keys():
        require(False, f"benchmarks/results.json has no {SPEED}{name}; measure it with make bench.")
    speeds = {words: 1000 / found[name].value for name, words in PEERS.items()}
    return dict(sorted(speeds.items(), key=lambda item: -item[1]))


@rc_context(STYLE)
def draw(path: Path, rows: Mapping[str, Sequence[ResultRow]], speeds: Mapping[str, float], theme: Theme) -> Path:
    """Draw the figure; return its path."""
    figure = Figure(figsize=(11, 3.6), facecolor=theme.paper, layout="constrained")
    grid = figure.add_gridspec(1, len(rows) + 1, width_ratios=(*[1] * len(rows), 1.1))
    for index, (env, of_env) in enumerate(rows.items()):
        _curves(figure.add_subplot(grid[index]), env, of_env, theme, is_first=index == 0)
    _bars(figure.add_subplot(grid[len(rows)]), speeds, theme)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160, facecolor=theme.paper)
    return path


def _curves(axes: Axes, env: str, rows: Sequence[ResultRow], theme: Theme, is_first: bool) -> None:
    _panel(axes, env, theme)
    for row in rows:
        curve, is_reused = row.curve, row.curve.settings["reuse"] != "1"
        colour, count = theme.ours if is_reused else theme.plain, len(row.returns)
        seeds = f"{count} seed{'' if count == 1 else 's'}"
        name = f"{algorithm_words(curve.settings['algorithm'])}, reuse {reuse_words(curve.settings['reuse'])} ({seeds})"
        axes.plot(curve.steps, curve.mean, color=colour, linewidth=2.4 if is_reused else 1.8, label=name)
        if count > 1:
            axes.fill_between(
                curve.steps, curve.mean - curve.sd, curve.mean + curve.sd, color=colour, alpha=0.2, linewidth=0
            )
    axes.set_xlim(left=0)
    axes.margins(x=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4))
        axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    axes.grid(axis="y", color=theme.line)
    axes.set_xlabel("environment steps", color=theme.quiet, fontsize=9)
    if is_first:
        axes.set_ylabel("return", color=theme.quiet, fontsize=9)
    axes.legend(loc="best", frameon=False, fontsize=8.5, labelcolor=theme.ink, handlelength=1.4)


def _bars(axes: Axes, speeds: Mapping[str, float], theme: Theme) -> None:
    _panel(axes, "SAC: updates per second, two cores", theme)
    places = np.arange(len(speeds))
    colours = [theme.ours if name.startswith("smrl") else theme.plain for name in speeds]
    bars = axes.barh(places, list(speeds.values()), color=colours, height=0.66)
    for bar, name in zip(bars, speeds, strict=True):
        bar.set_alpha(0.55 if name == "smrl by XLA" else 1)
    axes.bar_label(bars, [f"{speed:.0f}" for speed in speeds.values()], padding=4, color=theme.ink, fontsize=10)
    axes.set_yticks(places, list(speeds), color=theme.ink, fontsize=10)
    axes.xaxis.set_major_locator(NullLocator())
    axes.set_xlim(right=1.12 * max(speeds.values()))
    axes.spines["bottom"].set_visible(False)
    axes.invert_yaxis()


def _panel(axes: Axes, title: str, theme: Theme) -> None:
    axes.set_facecolor(theme.paper)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=theme.ink)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(theme.quiet)
    axes.tick_params(colors=theme.quiet, labelsize=9, length=0)
    axes.set_axisbelow(True)


if __name__ == "__main__":
    main()
