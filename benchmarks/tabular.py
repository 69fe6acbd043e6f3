"""The speed of compiled Q-learning over a plain loop."""

import time

import numpy as np

from benchmarks.harness import Record, median_of, ratio
from smrl.paper.tabular.grid_world import GridTask
from smrl.paper.tabular.learning import Settings, learn
from smrl.paper.tabular.q_smr import Options, Task, settings_of, tables, title

SECTION = "Tabular Q-learning and Q-SMR, five seeds at once, against a plain Python loop"
CORES = (1,)
LOOP_SECONDS = 3.0  # of the plain loop, per task and reuse
SEEDS, TURNS = 5, 3


def measure(quick: bool) -> list[Record]:
    options = Options(seeds=SEEDS)
    return [record for task in options.tasks for reuse in options.reuse for record in compare(task, reuse, options)]


def compare(task: Task, reuse: int, options: Options) -> list[Record]:
    """Measure microseconds per training step, compiled and in a plain loop, in turns."""
    settings, tasks = settings_of(options, task, reuse), tables(options, task)
    learn(tasks, settings, range(SEEDS))  # compiles
    compiled, plain = list[float](), list[float]()
    for _ in range(TURNS):
        began = time.perf_counter()
        result = learn(tasks, settings, range(SEEDS))
        compiled.append((time.perf_counter() - began) / int(result.training_steps.sum()) * 1e6)
        plain.append(plain_loop(tasks if isinstance(tasks, GridTask) else tasks[0], settings, reuse) * 1e6)
    name = f"{title(options, task)}, M = {reuse}"
    return [
        median_of(f"{name}: compiled", compiled, "µs/step"),
        median_of(f"{name}: plain loop", plain, "µs/step"),
        ratio(plain, compiled, f"{name}: times as fast as the plain loop"),
    ]


def plain_loop(task: GridTask, settings: Settings, reuse: int) -> float:
    """Return seconds per training step of the same learning in plain Python, greedy episodes included."""
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
