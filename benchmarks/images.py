"""What images cost: to draw them, to store them and to sample them; `python -m benchmarks.images [ROWS [FOLDER]]`.

ROWS are those of the replay memory, 20,000 by default; FOLDER is where its frames are stored in a file.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Env
from rich.console import Console
from rich.table import Table

from smrl.envs import dmc
from smrl.envs.make import make
from smrl.envs.pixels import Pixels
from smrl.envs.repeat import ActionRepeat
from smrl.memory.replay import Replay
from smrl.types import ArraySpec, Continuous, Discrete, Spec

DRAWN = ("cartpole-swingup", "cheetah-run", "finger-spin", "walker-walk", "quadruped-walk")
GAMES = ("PongNoFrameskip-v4", "BreakoutNoFrameskip-v4", "ALE/SpaceInvaders-v5")
STEPS, SAMPLES = 100, 20
SPECS = {
    "DrQ-v2: 256 stacks of 9×84×84": (Spec(ArraySpec((84, 84, 9), "uint8", 3), Continuous(6)), 3, 256),
    "DQN: 32 stacks of 4×84×84": (Spec(ArraySpec((84, 84, 4), "uint8", 4), Discrete(6)), 1, 32),
}


def milliseconds(act: Callable[[], Any], times: int) -> float:
    """The best of several, for other processes only add."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - began)
    return min(seconds) * 1e3


def drawing() -> Table:
    table = Table("task", "state only, ms", "images, ms", "with shadows, ms", title="one step of two frames")
    for name in DRAWN:
        times = []
        for shadows in (None, False, True):
            env: Env[Any, Any] = ActionRepeat(dmc.make(f"dmc/{name}", render_mode="rgb_array"), 2)
            env = env if shadows is None else Pixels(env, shadows=shadows)
            env.reset(seed=0)
            action = np.zeros(env.action_space.shape or ())
            times.append(milliseconds(lambda env=env, action=action: env.step(action), STEPS))  # type: ignore[misc]
            env.close()
        table.add_row(f"dmc-pixels/{name}", *(f"{value:.2f}" for value in times))
    return table


def games() -> Table:
    table = Table("game", "step of four frames, ms", "reset, ms", title="Atari")
    for name in GAMES:
        environment = make(name, training=True)
        reset = milliseconds(lambda environment=environment: environment.reset(0), 5)  # type: ignore[misc]
        step = milliseconds(lambda environment=environment: environment.step(np.array(0)), STEPS)  # type: ignore[misc]
        table.add_row(name, f"{step:.2f}", f"{reset:.0f}")
    return table


def replays(rows: int, folder: Path | None) -> Table:
    where = "in memory" if folder is None else "in a file"
    table = Table("batch", "add, µs", "sample, ms: best", "median", title=f"a replay memory of {rows:,} rows {where}")
    for name, (spec, n_step, batch_size) in SPECS.items():
        replay = Replay(rows, spec, 0.99, n_step, folder=folder)
        images = np.random.default_rng(0).integers(0, 256, (50, *spec.obs.shape), np.uint8)
        action = spec.action.array.zeros()
        began = time.perf_counter()
        for row in range(rows):
            replay.add(images[row % 50], action, 0.0, images[(row + 1) % 50], False, row % 500 == 499)
        add = (time.perf_counter() - began) / rows
        seconds = []
        for seed in range(SAMPLES):
            began = time.perf_counter()
            replay.sample(np.random.default_rng(seed), 1, batch_size)
            seconds.append(time.perf_counter() - began)
        table.add_row(name, f"{add * 1e6:.0f}", *(f"{value * 1e3:.1f}" for value in (min(seconds), np.median(seconds))))
    return table


if __name__ == "__main__":
    rows, folder = (*sys.argv[1:], *("20000", "")[len(sys.argv) - 1 :])
    console = Console(width=110)
    if len(sys.argv) == 1:
        console.print(drawing())
        console.print(games())
    console.print(replays(int(rows), Path(folder) if folder else None))
