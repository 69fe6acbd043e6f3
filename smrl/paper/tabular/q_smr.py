"""Fig. 3 of the paper: Q-learning and Q-SMR on CliffWalking and in mazes, with a table, a figure and all numbers."""

import csv
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator
from msgspec import Meta
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from smrl.errors import require
from smrl.paper.tabular.grid_world import STEPS, GridTask, Rules, cliffwalking_task
from smrl.paper.tabular.learning import Rate, RateKind, Result, Settings, learn
from smrl.paper.tabular.maze import generate, maze_task, time_limit
from smrl.report.figures import COLOURS, GREY, INK, tidy
from smrl.report.text import number, plain_table, spread
from smrl.runs.atomic import write_atomically, writing
from smrl.validation import validate

Numbers = NDArray[np.float64]
Results = Mapping[str, Mapping[int, Result]]  # by task and reuse
Task = Literal["cliffwalking", "maze"]
MAX_ROWS = 1_000_000  # seeds × episodes; each is a line of the file of all numbers
EPISODES: dict[Task, int] = {"cliffwalking": 500, "maze": 100}
Episodes = Annotated[int, Meta(ge=1, le=MAX_ROWS, description=f"a whole number from 1 to {MAX_ROWS:,}")]
MEASURES = [item.name for item in fields(Result) if item.name != "q"]
PANELS = (
    "training return",
    "greedy return\n(ε = 0, the paper's evaluation)",
    "training steps to the goal\n(mean over successes only)",
)
NOTE = "line: mean over seeds, running over 2 % of the episodes; band: sample standard deviation (n − 1) over seeds"


@dataclass(frozen=True)
class Options:
    """Learn CliffWalking and mazes with Q-learning and Q-SMR: a table and a picture."""

    tasks: tuple[Task, ...] = ("cliffwalking", "maze")
    """Tasks to learn: cliffwalking, maze or both."""
    reuse: tuple[int, ...] = (1, 10)
    """Updates per transition, M of the paper; 1 is Q-learning."""
    seeds: Annotated[int, Meta(ge=1, le=1_000, description="a whole number from 1 to 1,000")] = 20
    """Runs per reuse ratio, with the seeds 0, 1, …; each seed has its own maze."""
    episodes: Episodes | None = None
    """Training episodes; by default the paper's, 500 for CliffWalking and 100 for the maze."""
    rate: RateKind = "constant"
    """Learning rate: constant, h/(M(t + t0)) by steps t, or 1/n^omega by visits n of a state-action pair."""
    alpha: float = 0.05
    """The constant learning rate."""
    h: float = 1.0
    """Numerator h of the learning rate by steps."""
    t0: float = 1.0
    """Offset t0 of the learning rate by steps."""
    omega: float = 0.77
    """Exponent omega of the learning rate by visits."""
    gamma: float = 0.99
    """Discount factor."""
    epsilon: float = 0.1
    """Fraction of random actions while training."""
    rules: Rules = "paper"
    """Rules of CliffWalking: a fall ends the episode (paper) or leads back to the start (gymnasium)."""
    size: Annotated[int, Meta(ge=2, le=100, description="a whole number from 2 to 100")] = 20
    """Cells along a side of the maze."""
    plain: bool = False
    """Learn in mazes without loops and portals."""
    portals: int | None = None
    """Pairs of portals in the maze; by default a third of its size, and none with --plain."""
    runs: Path = Path("runs")
    """Folder whose subfolder tabular gets the picture and the numbers."""

    def __post_init__(self) -> None:
        validate(self)


def run(options: Options, out: Console) -> None:
    """Learn, print the table, and write the picture and the numbers."""
    settings = {(task, reuse): settings_of(options, task, reuse) for task in options.tasks for reuse in options.reuse}
    results: dict[str, dict[int, Result]] = {}
    seconds: list[float] = []
    for (task, reuse), setting in settings.items():
        with out.status(f"{task}, reuse {reuse}"):
            begin = time.perf_counter()
            result = learn(tables(options, task), setting, range(options.seeds))
            seconds.append(time.perf_counter() - begin)
        results.setdefault(title(options, task), {})[reuse] = result
    out.print(summary(results, seconds))
    picture = options.runs / "tabular" / f"{'-'.join(dict.fromkeys(options.tasks))}.png"
    with writing(picture.parent):
        draw(results, picture)
        write_atomically(picture.with_suffix(".csv"), as_csv(results))
    out.print(f"picture: {picture}\nnumbers: {picture.with_suffix('.csv')}", markup=False)


def settings_of(options: Options, task: Task, reuse: int) -> Settings:
    """Return the settings with which a task is learned."""
    episodes = EPISODES[task] if options.episodes is None else options.episodes
    rows, steps = options.seeds * episodes, episodes * (time_limit(options.size) if task == "maze" else STEPS)
    require(
        rows <= MAX_ROWS,
        f"{options.seeds:,} seeds of {episodes:,} episodes are more than {MAX_ROWS:,} lines of numbers; "
        "lower --seeds or --episodes.",
    )
    require(
        steps < 2**31,
        f"{episodes:,} episodes of {task} may take {steps:,} steps, but steps are counted up to 2^31 only; "
        f"lower --episodes{' or --size' if task == 'maze' else ''}.",
    )
    rate = Rate(options.rate, options.alpha, options.h, options.t0, options.omega)
    return Settings(reuse, episodes, rate, options.gamma, options.epsilon)


def tables(options: Options, task: Task) -> GridTask | list[GridTask]:
    """Return CliffWalking for all seeds, or a maze for each seed."""
    if task == "maze":
        mazes = (generate(options.size, not options.plain, seed, options.portals) for seed in range(options.seeds))
        return [maze_task(maze) for maze in mazes]
    return replace(cliffwalking_task(options.rules), max_steps=STEPS)  # Gymnasium's rules have no limit


def title(options: Options, task: Task) -> str:
    """Return the name of a task in the table and the picture."""
    if task == "maze":
        return f"maze {options.size}×{options.size}{'' if options.plain else ' plus'}"
    return "CliffWalking" if options.rules == "paper" else "CliffWalking, Gymnasium's rules"


def summary(results: Results, seconds: Sequence[float]) -> Table:
    """Make the table for the terminal: one row per task and reuse."""
    table = plain_table(caption="±: sample standard deviation (n − 1) over seeds")
    table.add_column("task", no_wrap=True)
    for heading in (
        "reuse",
        "training return,\nlast 10 %",
        "greedy return\nat the end",
        "greedy policy reaches\nthe goal at the end",
        "and has done so\nsince episode",
        "seconds",
    ):
        table.add_column(heading, justify="right")
    rows = [(task, reuse, result) for task, by_reuse in results.items() for reuse, result in by_reuse.items()]
    for (task, reuse, result), duration in zip(rows, seconds, strict=True):
        tail = max(1, result.training_return.shape[1] // 10)
        late = result.training_return[:, -tail:].mean(1)
        since = arrivals(result.greedy_goal)
        table.add_row(
            task,
            str(reuse),
            spread(late),
            spread(result.greedy_return[:, -1]),
            f"{len(since)} of {len(result.q)} seeds",
            number(float(since.mean()) if len(since) else np.nan),
            f"{duration:.1f}",
        )
    return table


def arrivals(reached: np.ndarray) -> np.ndarray:
    """Return the first episode (from 1) from which on the goal is always reached, for seeds that reach it at the end.

    >>> arrivals(np.array([[False, True, False, True, True], [True, True, True, True, False]])).tolist()
    [4]
    """
    failed = ~np.insert(reached[reached[:, -1]], 0, False, axis=1)  # no seed has arrived before the first episode
    return failed.shape[1] - failed[:, ::-1].argmax(1)


def as_csv(results: Results) -> bytes:
    """Write all numbers, one line per episode."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["task", "reuse", "seed", "episode", *MEASURES])
    for task, by_reuse in results.items():
        for reuse, result in by_reuse.items():
            columns = [getattr(result, name).astype(object) for name in MEASURES]
            for seed, episode in np.ndindex(result.training_return.shape):
                values = [column[seed, episode] for column in columns]
                writer.writerow([task, reuse, seed, episode + 1, *(f"{float(value):.9g}" for value in values)])
    return text.getvalue().encode()


def draw(results: Results, path: Path) -> Path:
    """Draw a row of panels per task and a line per reuse, with a band of one standard deviation over seeds."""
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
        row[-1].set_ylim(bottom=0)  # the band may reach below 0, but steps cannot
    _legend(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, format="png")
    return path


def _values(result: Result) -> tuple[Numbers, ...]:
    """Return the values of the panels, (seeds, episodes); steps are NaN where the goal was not reached."""
    steps = np.where(result.training_goal, result.training_steps, np.nan)
    return result.training_return.astype(float), result.greedy_return.astype(float), steps


def _line(axes: Axes, values: Numbers, colour: str, name: str) -> None:
    """Draw mean and standard deviation over the seeds that have a value; a deviation needs two."""
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
    """Return the moving average over a centred window, shorter at both ends, of the values that are not NaN.

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
