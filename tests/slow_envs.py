"""An environment whose steps take long once it is the second one, which a run makes to evaluate in."""

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
from broken_envs import Toy

made = 0


class Slow(Toy):
    """Sleeps in every step of an evaluation, and leaves a file to say so."""

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
