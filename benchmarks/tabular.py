"""How much faster compiled Q-learning is than a plain loop: `python -m benchmarks.tabular`, about half a minute."""

import time

import numpy as np
from rich.console import Console
from rich.table import Table

from smrl.cli.tabular import Tabular, Task, settings_of, tables, title
from smrl.tabular.learning import Settings, learn
from smrl.tabular.mdp import GridTask

LOOP_SECONDS = 5.0  # of the plain loop, per task and reuse
SEEDS = 5


def main() -> None:
    table = Table("task", "reuse", "plain loop, µs/step", "compiled, µs/step", "ratio", "compilation, s")
    command = Tabular(seeds=SEEDS)
    for task in command.tasks:
        for reuse in command.reuse:
            row = measure(task, reuse, command)
            table.add_row(title(command, task), str(reuse), *row)
    Console().print(table)


def measure(task: Task, reuse: int, command: Tabular) -> tuple[str, ...]:
    settings, tasks = settings_of(command, task, reuse), tables(command, task)
    first, seconds, steps = np.inf, np.inf, 1
    for attempt in range(3):
        begin = time.perf_counter()
        result = learn(tasks, settings, range(SEEDS))
        taken = time.perf_counter() - begin
        first, seconds = (taken, seconds) if attempt == 0 else (first, min(seconds, taken))
        steps = int(result.training_steps.sum())
    plain = plain_loop(tasks if isinstance(tasks, GridTask) else tasks[0], settings, reuse)
    compiled = seconds / steps
    ratio = f"{plain / compiled:.0f}"
    return f"{plain * 1e6:.1f}", f"{compiled * 1e6:.2f}", ratio, f"{first - seconds:.1f}"


def plain_loop(task: GridTask, settings: Settings, reuse: int) -> float:
    """Seconds per training step of the same learning, greedy episodes included, in Python and with lists."""
    follow, reward, terminal = task.next_state.tolist(), task.reward.tolist(), task.terminal.tolist()
    q: list[list[float]] = [[0.0] * 4 for _ in reward]
    rng = np.random.default_rng(0)
    alpha, gamma, epsilon = settings.rate.alpha, settings.gamma, settings.epsilon
    steps, begin = 0, time.perf_counter()
    for _ in range(settings.episodes):
        state, over, taken = task.start, False, 0
        while not over and taken < task.max_steps:
            explore, where = rng.random(2).tolist()
            action = int(4 * where) if explore < epsilon else q[state].index(max(q[state]))
            after, over = follow[state][action], terminal[state][action]
            discount = 0.0 if over else gamma
            for _ in range(reuse):
                target = reward[state][action] + discount * max(q[after])
                q[state][action] = (1 - alpha) * q[state][action] + alpha * target
            state, taken, steps = after, taken + 1, steps + 1
        state, over, taken, total = task.start, False, 0, 0.0
        while not over and taken < task.max_steps:
            action = q[state].index(max(q[state]))
            total += reward[state][action]
            state, over, taken = follow[state][action], terminal[state][action], taken + 1
        if time.perf_counter() - begin > LOOP_SECONDS:
            break
    return (time.perf_counter() - begin) / steps


if __name__ == "__main__":
    main()
