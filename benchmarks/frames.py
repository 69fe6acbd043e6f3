"""The cost of images outside the updates: drawing, storing and sampling them."""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Env

from benchmarks.harness import Record, median_of
from smrl.envs.make import make
from smrl.envs.suites import dmc
from smrl.envs.wrappers import ActionRepeat
from smrl.memory.replay import Replay
from smrl.types import ArraySpec, Continuous, Discrete, Spec

SECTION = "Images of 84 × 84: drawing, storing and sampling"
CORES = (1,)
TASKS = ("cartpole-swingup", "cheetah-run", "walker-walk")
GAMES = ("PongNoFrameskip-v4", "BreakoutNoFrameskip-v4")
STEPS, SAMPLES, ROWS = 100, 20, 5_000
MEMORIES = {  # observations and actions, n-step, batch
    "DrQ-v2, 256 stacks of 9": (Spec(ArraySpec((84, 84, 9), "uint8", 3), Continuous(6)), 3, 256),
    "DQN, 32 stacks of 4": (Spec(ArraySpec((84, 84, 4), "uint8", 4), Discrete(6)), 1, 32),
}


def measure(quick: bool) -> list[Record]:
    records = [record for name in MEMORIES for record in memory(name)]
    if importlib.util.find_spec("dm_control"):
        records += [drawing(name) for name in TASKS]
    if importlib.util.find_spec("ale_py"):
        records += [game(name) for name in GAMES]
    return records


def milliseconds(act: Callable[[], Any], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        taken.append((time.perf_counter() - began) * 1e3)
    return taken


def memory(name: str) -> list[Record]:
    """Make a replay memory of frames."""
    spec, n_step, batch = MEMORIES[name]
    replay = Replay(ROWS, spec, gamma=0.99, n_step=n_step)
    images = np.random.default_rng(0).integers(0, 256, (50, *spec.obs.shape), np.uint8)
    action = spec.action.array.zeros()

    def add() -> None:
        row = replay.added
        replay.add(images[row % 50], action, 0.0, images[(row + 1) % 50], False, row % 500 == 499)

    stored = milliseconds(add, ROWS)
    drawn = milliseconds(lambda: replay.sample(np.random.default_rng(0), 1, batch), SAMPLES)
    return [median_of(f"{name}: store one", stored, "ms"), median_of(f"{name}: draw a batch", drawn, "ms")]


def drawing(name: str) -> Record:
    """Return a call for a step of two frames, one of which is drawn."""
    env: Env[Any, Any] = dmc.Pixels(ActionRepeat(dmc.make(f"dmc/{name}", render_mode="rgb_array"), 2))
    env.reset(seed=0)
    action = np.zeros(env.action_space.shape or ())
    taken = milliseconds(lambda: env.step(action), STEPS)
    env.close()
    return median_of(f"dmc-pixels/{name}: step", taken, "ms")


def game(name: str) -> Record:
    """Return a call for a step of four frames."""
    environment = make(name, training=True)
    environment.reset(0)
    return median_of(f"{name}: step", milliseconds(lambda: environment.step(np.array(0)), STEPS), "ms")
