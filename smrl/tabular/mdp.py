"""A finite deterministic task as tables, so that whole runs can be compiled."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class GridTask:
    """A deterministic task: what happens is looked up in tables of shape (states, actions)."""

    next_state: np.ndarray  # int32
    reward: np.ndarray  # float32
    terminal: np.ndarray  # bool: the episode ends by this step, and nothing is bootstrapped
    start: int
    goal: int
    max_steps: int  # of an episode, cut as a time-out
