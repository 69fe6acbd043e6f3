"""Zeros appended to observations, for tasks whose earlier versions had entries that were always zero."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box


class PadObservations(gymnasium.ObservationWrapper[Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Flatten the Box observations of an environment and append ``zeros`` zeros to each.

    They tell an agent nothing, but the first layer has more inputs, and its initial weights are smaller for it.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], zeros: int) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, zeros=zeros)
        super().__init__(env)
        space: Any = env.observation_space
        self._zeros = np.zeros(zeros, space.dtype)
        self.observation_space = Box(self.observation(space.low), self.observation(space.high), dtype=space.dtype)

    def observation(self, observation: Any) -> np.ndarray:
        """The observation with the zeros behind it."""
        return np.concatenate([np.ravel(observation), self._zeros])
