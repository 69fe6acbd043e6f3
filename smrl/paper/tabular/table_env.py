"""Base class of environments with transition tables, and drawing."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import ArrayLike

from smrl.errors import require
from smrl.paper.tabular.mdp import GridTask

Colour = tuple[int, int, int]
GREY: Colour = (150, 160, 172)
GREEN: Colour = (60, 160, 84)
AGENT: Colour = (32, 92, 200)


def ended_at(states: list[int], task: GridTask) -> GridTask:
    """Make these states absorbing with zero reward, so that their values are zero."""
    task.next_state[states] = np.array(states)[:, None]
    task.reward[states] = 0
    task.terminal[states] = True
    return task


def paint_disc(picture: np.ndarray, centre: tuple[float, float], radius: float, colour: ArrayLike) -> None:
    """Paint a disc around (row, column), in pixels; its edge is blended, because small discs look ragged otherwise."""
    top, left = (max(0, int(place - radius - 1)) for place in centre)
    part = picture[top : int(centre[0] + radius + 2), left : int(centre[1] + radius + 2)]
    rows, columns = np.ogrid[: part.shape[0], : part.shape[1]]
    distance = np.hypot(rows + top + 0.5 - centre[0], columns + left + 0.5 - centre[1])
    cover = np.clip(radius + 0.5 - distance, 0, 1)[..., None]
    part[:] = np.rint(part * (1 - cover) + np.asarray(colour) * cover)


class TableEnv(gymnasium.Env[Any, Any]):
    """An environment with transition tables; it truncates episodes after ``max_steps`` steps itself."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(self, task: GridTask, render_mode: str | None = None) -> None:
        require(render_mode in (None, "rgb_array"), f"grid worlds render as rgb_array, not as {render_mode!r}")
        states, actions = task.next_state.shape
        self.observation_space = Discrete(states)
        self.action_space = Discrete(actions)
        self.render_mode = render_mode
        self.task = task
        self.state = task.start
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Go back to the start."""
        super().reset(seed=seed)
        self.state, self.steps = self.task.start, 0
        return self.state, self.info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Do an action; an episode that terminates at the time limit is not truncated."""
        last = self.task.reward.shape[1] - 1
        require(self.action_space.contains(action), f"an action is a whole number from 0 to {last}, not {action}")
        row, self.steps = self.state, self.steps + 1
        self.state = int(self.task.next_state[row, action])
        terminated = bool(self.task.terminal[row, action])
        truncated = not terminated and self.steps >= self.task.max_steps
        return self.state, float(self.task.reward[row, action]), terminated, truncated, self.info()

    def info(self) -> dict[str, Any]:
        """The info dictionary."""
        return {}

    def render(self) -> Any:
        """An image of the grid with the agent, uint8 (height, width, 3)."""
        require(self.render_mode is not None, 'the environment was made without render_mode="rgb_array"')
        return self.picture()

    def picture(self) -> np.ndarray:
        """Paint the current state."""
        raise NotImplementedError
