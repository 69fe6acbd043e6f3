"""Grid worlds as transition tables, the environment that walks in them, and CliffWalking.

Transition tables let whole runs be compiled.
"""

from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import ArrayLike

from smrl.errors import require

Rules = Literal["paper", "gymnasium"]

ROWS, COLUMNS = 4, 12
START, GOAL = 36, 47  # a state is 12 · row + column
CLIFF = range(37, 47)
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # (row, column) of the actions: up, right, down, left
STEPS = 100  # time limit of an episode under the paper's rules
NO_LIMIT = int(np.iinfo(np.int32).max)  # Gymnasium's rules have no time limit

Colour = tuple[int, int, int]
GREY: Colour = (150, 160, 172)
GREEN: Colour = (60, 160, 84)
AGENT: Colour = (32, 92, 200)
GROUND: Colour = (238, 240, 232)
LINE: Colour = (205, 208, 198)
ROCK: Colour = (112, 72, 60)


@dataclass(frozen=True, eq=False)
class GridTask:
    """A finite deterministic task as transition tables of shape (states, actions)."""

    next_state: np.ndarray  # int32
    reward: np.ndarray  # float32
    terminal: np.ndarray  # bool: the episode terminates, so there is no bootstrap
    start: int
    goal: int
    max_steps: int  # time limit; such an episode is truncated


def ended_at(states: list[int], task: GridTask) -> GridTask:
    """Make these states absorbing with zero reward, so that their values are zero."""
    task.next_state[states] = np.array(states)[:, None]
    task.reward[states] = 0
    task.terminal[states] = True
    return task


def paint_disc(picture: np.ndarray, centre: tuple[float, float], radius: float, colour: ArrayLike) -> None:
    """Paint a disc around (row, column) in pixels, with a blended edge because small discs would look ragged."""
    top, left = (max(0, int(place - radius - 1)) for place in centre)
    part = picture[top : int(centre[0] + radius + 2), left : int(centre[1] + radius + 2)]
    rows, columns = np.ogrid[: part.shape[0], : part.shape[1]]
    distance = np.hypot(rows + top + 0.5 - centre[0], columns + left + 0.5 - centre[1])
    cover = np.clip(radius + 0.5 - distance, 0, 1)[..., None]
    part[:] = np.rint(part * (1 - cover) + np.asarray(colour) * cover)


class TableEnv(gymnasium.Env[Any, Any]):
    """An environment with transition tables, which truncates episodes after ``max_steps`` steps itself."""

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
        """Take an action; an episode that terminates at the time limit is not truncated."""
        last = self.task.reward.shape[1] - 1
        require(self.action_space.contains(action), f"an action is a whole number from 0 to {last}, not {action}")
        row, self.steps = self.state, self.steps + 1
        self.state = int(self.task.next_state[row, action])
        terminated = bool(self.task.terminal[row, action])
        truncated = not terminated and self.steps >= self.task.max_steps
        return self.state, float(self.task.reward[row, action]), terminated, truncated, self.info()

    def info(self) -> dict[str, Any]:
        """Return the info dictionary."""
        return {}

    def render(self) -> Any:
        """Return an image of the grid with the agent, uint8 (height, width, 3)."""
        require(self.render_mode is not None, 'the environment was made without render_mode="rgb_array"')
        return self.picture()

    def picture(self) -> np.ndarray:
        """Paint the current state."""
        raise NotImplementedError


def cliffwalking_task(rules: Rules = "paper") -> GridTask:
    """Return CliffWalking's tables; the cliff ends the episode (paper) or leads back to the start (gymnasium)."""
    require(rules in ("paper", "gymnasium"), f"CliffWalking has the rules paper and gymnasium, not {rules!r}")
    cells = np.stack(np.divmod(np.arange(ROWS * COLUMNS), COLUMNS), axis=-1)
    moved = np.clip(cells[:, None] + np.array(MOVES), 0, (ROWS - 1, COLUMNS - 1))
    landed = moved[..., 0] * COLUMNS + moved[..., 1]
    fell = np.isin(landed, CLIFF)
    paper = rules == "paper"
    return ended_at(
        [GOAL, *(CLIFF if paper else ())],
        GridTask(
            next_state=np.where(fell & (not paper), START, landed).astype(np.int32),
            reward=np.where(fell, -100, -1).astype(np.float32),
            terminal=(landed == GOAL) | (fell & paper),
            start=START,
            goal=GOAL,
            max_steps=STEPS if paper else NO_LIMIT,
        ),
    )


class CliffWalking(TableEnv):
    """CliffWalking: walk along the cliff from the bottom left to the bottom right."""

    def __init__(self, rules: Rules = "paper", render_mode: str | None = None) -> None:
        super().__init__(cliffwalking_task(rules), render_mode)

    def picture(self, cell: int = 48) -> np.ndarray:
        """Paint the grid with a brown cliff, a grey start, a green goal and a blue agent."""
        colours = np.full((ROWS * COLUMNS, 3), GROUND, np.uint8)
        colours[CLIFF], colours[START], colours[GOAL] = ROCK, GREY, GREEN
        picture = colours.reshape(ROWS, COLUMNS, 3).repeat(cell, axis=0).repeat(cell, axis=1)
        picture[::cell] = picture[:, ::cell] = LINE
        row, column = divmod(self.state, COLUMNS)
        paint_disc(picture, ((row + 0.5) * cell, (column + 0.5) * cell), 0.36 * cell, (255, 255, 255))
        paint_disc(picture, ((row + 0.5) * cell, (column + 0.5) * cell), 0.31 * cell, AGENT)
        return picture
