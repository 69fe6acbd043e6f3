"""A finite deterministic task as transition tables, so that whole runs can be compiled."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class GridTask:
    """A deterministic task as transition tables of shape (states, actions)."""

    next_state: np.ndarray  # int32
    reward: np.ndarray  # float32
    terminal: np.ndarray  # bool: the episode terminates, so there is no bootstrap
    start: int
    goal: int
    max_steps: int  # time limit; such an episode is truncated
