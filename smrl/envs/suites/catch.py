"""Catch: a ball falls through an image of 10×10 pixels and must be caught by a paddle at the bottom."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from smrl.envs.wrappers import Reset, Step

SIZE = 10  # pixels in each direction
ZOOM = 16  # magnification of rendered pictures
BRIGHT = 255


class Catch(gymnasium.Env[np.ndarray, Any]):
    """Move the paddle under the ball, which lands after nine steps: the reward is 1 if it is caught and -1 if not.

    Discrete actions are 0 left, 1 stay, 2 right. A continuous action is rounded to -1 left, 0 stay, 1 right. The ball
    starts in a random column, and the paddle can reach every column in time.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, continuous: bool = False) -> None:
        self.observation_space = Box(0, BRIGHT, (SIZE, SIZE, 1), np.uint8)
        self.action_space = Box(-1, 1, (1,), np.float32) if continuous else Discrete(3)
        self.render_mode = render_mode
        self._row = self._column = self._paddle = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self._row, self._column, self._paddle = 0, int(self.np_random.integers(SIZE)), SIZE // 2
        return self._image(), {}

    def step(self, action: Any) -> Step:
        move = int(action) - 1 if isinstance(self.action_space, Discrete) else round(float(action[0]))
        self._paddle = min(max(self._paddle + move, 0), SIZE - 1)
        self._row += 1
        has_landed = self._row == SIZE - 1
        reward = (1.0 if self._paddle == self._column else -1.0) if has_landed else 0.0
        return self._image(), reward, has_landed, False, {}

    def render(self) -> Any:
        return np.kron(self._image(), np.ones((ZOOM, ZOOM, 3), np.uint8)) if self.render_mode else None

    def _image(self) -> np.ndarray:
        image = np.zeros((SIZE, SIZE, 1), np.uint8)
        image[self._row, self._column] = image[SIZE - 1, self._paddle] = BRIGHT
        return image


gymnasium.register("smrl/Catch-v0", entry_point=f"{__name__}:{Catch.__name__}")
gymnasium.register("smrl/CatchContinuous-v0", entry_point=f"{__name__}:{Catch.__name__}", kwargs={"continuous": True})
