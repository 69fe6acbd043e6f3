"""`smrl tabular`: Q-learning and Q-SMR on the paper's two tasks, with a table, a picture and all the numbers."""

import csv
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro
from rich import box
from rich.table import Table

from smrl.cli.parsing import out, parse
from smrl.errors import require
from smrl.paper.tabular.cliffwalking import STEPS, Rules, cliffwalking_task
from smrl.paper.tabular.figure import draw
from smrl.paper.tabular.learning import Rate, Result, Settings, learn
from smrl.paper.tabular.maze import generate, maze_task
from smrl.paper.tabular.mdp import GridTask
from smrl.report.text import number, spread
from smrl.runs.atomic import write_atomically, writing

Task = Literal["cliffwalking", "maze"]
EPISODES: dict[Task, int] = {"cliffwalking": 500, "maze": 100}
MEASURES = [item.name for item in fields(Result) if item.name != "q"]


@dataclass(frozen=True)
class Tabular:
    """Q-learning and Q-SMR on CliffWalking and mazes: a table and a picture."""

    tasks: Annotated[tuple[Task, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TASK …")] = ("cliffwalking", "maze")
    """Tasks to learn: cliffwalking, maze or both."""
    reuse: tuple[int, ...] = (1, 10)
    """Updates per transition, M of the paper; 1 is Q-learning."""
    seeds: int = 20
    """Runs per reuse ratio, with the seeds 0, 1, …; each seed has a maze of its own."""
    episodes: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Training episodes; the paper's are 500 for CliffWalking and 100 for the maze."""
    rate: Rate = field(default_factory=Rate)
    """Learning rate."""
    gamma: float = 0.99
    """Discount factor."""
    epsilon: float = 0.1
    """Share of random actions while training."""
    rules: Rules = "paper"
    """Rules of CliffWalking: a fall ends the episode (paper) or leads back to the start (gymnasium)."""
    size: int = 20
    """Cells along a side of the maze."""
    plain: bool = False
    """Learn in mazes without loops and portals."""
    portals: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Pairs of portals in the maze; by default a third of its size, and none with --plain."""
    runs: Path = Path("runs")
    """Folder whose subfolder tabular gets the picture and the numbers."""


def run(words: Sequence[str]) -> None:
    """Parse, learn, print the table and where the picture and the numbers are."""
    command: Tabular = parse(words, "tabular", Tabular)
    require(command.seeds >= 1, f"seeds must be at least 1, not {command.seeds}.")
    require(len(command.tasks) > 0, f"write smrl tabular TASK, with a task of {', '.join(EPISODES)}.")
    require(len(command.reuse) > 0, "reuse needs at least one number, as in --reuse 1 10.")
    settings = {(task, reuse): settings_of(command, task, reuse) for task in command.tasks for reuse in command.reuse}
    results: dict[str, dict[int, Result]] = {}
    seconds: list[float] = []
    for (task, reuse), setting in settings.items():
        with out.status(f"{task}, reuse {reuse}"):
            begin = time.perf_counter()
            result = learn(tables(command, task), setting, range(command.seeds))
            seconds.append(time.perf_counter() - begin)
        results.setdefault(title(command, task), {})[reuse] = result
    out.print(summary(results, seconds))
    picture = command.runs / "tabular" / f"{'-'.join(dict.fromkeys(command.tasks))}.png"
    with writing(picture.parent):
        draw(results, picture)
        write_atomically(picture.with_suffix(".csv"), as_csv(results))
    out.print(f"picture: {picture}\nnumbers: {picture.with_suffix('.csv')}", markup=False)


def settings_of(command: Tabular, task: Task, reuse: int) -> Settings:
    """How a task is learned."""
    episodes = EPISODES[task] if command.episodes is None else command.episodes
    return Settings(reuse, episodes, command.rate, command.gamma, command.epsilon)


def tables(command: Tabular, task: Task) -> GridTask | list[GridTask]:
    """CliffWalking for all seeds, or a maze for each."""
    if task == "maze":
        mazes = (generate(command.size, not command.plain, seed, command.portals) for seed in range(command.seeds))
        return [maze_task(maze) for maze in mazes]
    return replace(cliffwalking_task(command.rules), max_steps=STEPS)  # Gymnasium's rules have no limit


def title(command: Tabular, task: Task) -> str:
    """The name of a task in the table and the picture."""
    if task == "maze":
        return f"maze {command.size}×{command.size}{'' if command.plain else ' plus'}"
    return "CliffWalking" if command.rules == "paper" else "CliffWalking, Gymnasium's rules"


def summary(results: Mapping[str, Mapping[int, Result]], seconds: Sequence[float]) -> Table:
    """One row per task and reuse; ± is the sample standard deviation over seeds."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.caption, table.caption_justify = "±: sample standard deviation (n − 1) over seeds", "left"
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
    """First episode (from 1) from which on the goal is always reached, for the seeds that reach it at the end.

    >>> arrivals(np.array([[False, True, False, True, True], [True, True, True, True, False]])).tolist()
    [4]
    """
    failed = ~np.insert(reached[reached[:, -1]], 0, False, axis=1)  # before the first episode nobody arrives
    return failed.shape[1] - failed[:, ::-1].argmax(1)


def as_csv(results: Mapping[str, Mapping[int, Result]]) -> bytes:
    """All numbers, a line per episode."""
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
