"""An environment whose evaluation steps are slow."""

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
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


gymnasium.register("Slow-v0", "slow_envs:Slow")
