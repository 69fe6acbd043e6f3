"""Stacks of images, from which an agent sees what moves."""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.spaces import Box

NEW_LIFE = "new_life"  # true in the info of a step that ended a life but not the game: its observation begins the next


class FrameStack(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Observe the last ``stack`` images, joined along their last axis, the oldest first.

    The first image of an episode or of a life fills the stack. (Gymnasium's FrameStackObservation adds an axis.)
    """

    def __init__(self, env: gymnasium.Env[Any, Any], stack: int) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, stack=stack)
        super().__init__(env)
        self.stack = stack
        space: Any = env.observation_space
        self.observation_space = Box(self._filled(space.low), self._filled(space.high), dtype=space.dtype)
        self._stacked = self._filled(space.low)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        frame, info = self.env.reset(seed=seed, options=options)
        self._stacked = self._filled(frame)
        return self._stacked, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Do an action; its image takes the place of the oldest one."""
        frame, reward, terminated, truncated, info = self.env.step(action)
        if info.get(NEW_LIFE):
            self._stacked = self._filled(frame)
        else:
            self._stacked = np.concatenate([self._stacked[..., frame.shape[-1] :], frame], axis=-1)
        return self._stacked, reward, terminated, truncated, info

    def _filled(self, frame: np.ndarray) -> np.ndarray:
        return np.concatenate([frame] * self.stack, axis=-1)
