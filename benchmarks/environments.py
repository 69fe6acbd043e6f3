"""The cost of environments with smrl's wrappers and checks.

The same actions from the same starts, in turns of 20 steps: the simulator alone, and the environment as in training.
"""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Record, median_of
from smrl.envs.environment import Environment
from smrl.envs.make import make
from smrl.envs.suites import dmc

SECTION = "Environments: one step of the simulator alone, and in training"
CORES = (1,)
TASKS = {  # by the package that they need
    "mujoco": ("Hopper-v4", "HalfCheetah-v4", "Ant-v4"),
    "dm_control": ("dmc/cartpole-balance", "dmc/cheetah-run", "dmc/walker-walk"),
    "pybullet": ("HopperMuJoCoEnv-v0", "HalfCheetahMuJoCoEnv-v0", "AntMuJoCoEnv-v0"),
}
TURNS, STEPS = 100, 20
Step = Callable[[np.ndarray], Any]


def simulator(name: str, environment: Environment) -> tuple[Callable[[], Any], Step]:
    """Calls that reset and step the simulator alone."""
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
        """Make only the simulator calls that an observation and a reward need."""
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


def measure(quick: bool) -> list[Record]:
    installed = [names for package, names in TASKS.items() if importlib.util.find_spec(package)]
    return [record for names in installed for name in names for record in compare(name)]


def compare(name: str) -> list[Record]:
    """Measure microseconds of a bare step and of one in training, their ratio, and milliseconds of a reset."""
    environment = make(name)
    reset, step = simulator(name, environment)
    actions = environment.spec.action.random(np.random.default_rng(0), STEPS)
    bare, whole, start = list[float](), list[float](), list[float]()
    for _ in range(TURNS):
        reset()
        bare.append(seconds(step, actions) * 1e6 / STEPS)
        began = time.perf_counter()
        environment.reset(0)
        start.append((time.perf_counter() - began) * 1e3)
        whole.append(seconds(environment.step, actions) * 1e6 / STEPS)
    environment.close()
    return [
        median_of(f"{name}: simulator alone", bare, "µs"),
        median_of(f"{name}: in training", whole, "µs"),
        median_of(f"{name}: speed kept", [one / other for one, other in zip(bare, whole, strict=True)], ""),
        median_of(f"{name}: reset", start, "ms"),
    ]
