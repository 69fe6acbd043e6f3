"""What environments cost with all that smrl puts around them; a part of `make bench`.

The same actions from the same starts, in turns of 20 steps: the simulator alone, and the environment as in training.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from smrl.envs import dmc
from smrl.envs.environment import Environment
from smrl.envs.make import make

TASKS = (
    *("Hopper-v4", "HalfCheetah-v5", "Ant-v4"),
    *("dmc/cartpole-balance", "dmc/reacher-easy", "dmc/cheetah-run", "dmc/walker-walk"),
    *("HopperMuJoCoEnv-v0", "Walker2DMuJoCoEnv-v0", "HalfCheetahMuJoCoEnv-v0", "AntMuJoCoEnv-v0"),
)
TURNS, STEPS = 300, 20
Step = Callable[[np.ndarray], Any]


def simulator(name: str, environment: Environment) -> tuple[Callable[[], Any], Step]:
    """What resets and what steps the simulator alone."""
    if name.startswith(dmc.PREFIXES):
        domain, task = dmc.find(name) or ("", "")
        bare = dmc.suite().load(domain, task, task_kwargs={"random": 0})

        def reset() -> None:
            bare.task.random.seed(0)
            bare.reset()

        return reset, bare.step
    raw: Any = environment.env.unwrapped
    if not name.endswith("MuJoCoEnv-v0"):
        return lambda: raw.reset(seed=0), raw.step

    torques = np.array(raw._torques)

    def step(action: np.ndarray) -> None:
        """The simulator's calls that an observation and a reward cannot do without."""
        world = raw.world
        world.step((action * torques).tolist())
        world.joint_states()
        if name.startswith("Ant"):
            world.base_state()
            world.link_positions()
        else:
            world.torso_position()

    return lambda: raw.reset(seed=0), step


def seconds(step: Step, actions: np.ndarray) -> float:
    began = time.perf_counter()
    for action in actions:
        step(action)
    return time.perf_counter() - began


def measure(name: str) -> tuple[float, float, float]:
    """Seconds of a bare step, of a step in training, and of a reset: the best, for other processes only add."""
    environment = make(name)
    reset, step = simulator(name, environment)
    actions = environment.spec.action.random(np.random.default_rng(0), STEPS)
    times = []
    for _ in range(TURNS):
        reset()
        bare = seconds(step, actions)
        began = time.perf_counter()
        environment.reset(0)
        start = time.perf_counter() - began
        times.append((bare / STEPS, seconds(environment.step, actions) / STEPS, start))
    environment.close()
    bare, whole, start = np.min(times, axis=0)
    return float(bare), float(whole), float(start)


if __name__ == "__main__":
    table = Table("task", "simulator alone, µs", "in training, µs", "speed kept", "reset, ms", title="one step")
    for name in TASKS:
        bare, whole, start = measure(name)
        table.add_row(name, f"{bare * 1e6:.1f}", f"{whole * 1e6:.1f}", f"{bare / whole:.0%}", f"{start * 1e3:.2f}")
    Console(width=110).print(table)
