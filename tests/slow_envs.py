"""Environments that are slow, and some that die or look around in the process that they are in."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from broken_envs import Toy

made = 0


class Slow(Toy):
    """Sleep in every step of an evaluation environment, which a run makes third, and create a file as a sign."""

    def __init__(self) -> None:
        global made
        super().__init__()
        made += 1
        self.is_slow = made > 2 and "SLOW_EVALUATION" in os.environ

    def step(self, action: Any) -> Any:
        if self.is_slow:
            Path(os.environ["EVALUATING"]).touch()
            time.sleep(0.2)
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps == 2000, info


class Mortal(Toy):
    """Dies in the seventh step of an episode if a file in the folder ``DEATHS`` says how, and takes the file along."""

    def step(self, action: Any) -> Any:
        if self.steps == 6:
            die_if_told()
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps == 50, info


def die_if_told() -> None:
    for file in sorted(Path(os.environ["DEATHS"]).iterdir() if "DEATHS" in os.environ else ()):
        try:
            how = file.read_text()
            file.unlink()
        except FileNotFoundError:  # another process was faster
            continue
        if how == "hang":
            time.sleep(1000)
        elif how == "exit":
            os._exit(3)
        os.kill(os.getpid(), signal.SIGKILL)


class Curious(Toy):
    """Observes its process: whether it imported JAX, the threads of its libraries, and the number of its steps."""

    def observed(self, obs: np.ndarray) -> np.ndarray:
        threads = [float(os.environ.get(name, -1)) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]
        return np.array([any(name.startswith("jax") for name in sys.modules), *threads, self.steps, os.getpid()])

    def __init__(self) -> None:
        super().__init__(observations=gymnasium.spaces.Box(-np.inf, np.inf, (5,), np.float64))


gymnasium.register("Slow-v0", "slow_envs:Slow")
