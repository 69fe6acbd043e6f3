"""The DeepMind Control suite seen in images, as ``dmc-pixels/walker-walk``."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from smrl.envs.suites.dmc import DmControl

SIZE, STACK = 84, 3  # of DrQ-v2


class Pixels(gymnasium.ObservationWrapper[Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Observe a task of the suite by ``size`` × ``size`` RGB images in place of its vector.

    Every step draws one image, so this wrapper belongs around an action repeat. Without ``shadows``, which DrQ-v2 has,
    a processor draws several times as fast; edges are not smoothed then either.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], size: int = SIZE, shadows: bool = False) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, size=size, shadows=shadows)
        super().__init__(env)
        task: Any = env.unwrapped
        assert isinstance(task, DmControl)
        self._draw = task.camera(size, shadows)
        self.observation_space = Box(0, 255, (size, size, 3), np.uint8)

    def observation(self, observation: Any) -> np.ndarray:
        """An image of the state, whatever the vector."""
        return self._draw()
