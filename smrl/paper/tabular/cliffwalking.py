"""CliffWalking by the paper's rules or by Gymnasium's."""

from typing import Literal

import numpy as np

from smrl.errors import require
from smrl.paper.tabular.mdp import GridTask
from smrl.paper.tabular.table_env import AGENT, GREEN, GREY, Colour, TableEnv, ended_at, paint_disc

Rules = Literal["paper", "gymnasium"]

ROWS, COLUMNS = 4, 12
START, GOAL = 36, 47  # a state is 12 · row + column
CLIFF = range(37, 47)
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # (row, column) of the actions: up, right, down, left
STEPS = 100  # time limit of an episode by the paper's rules
NO_LIMIT = int(np.iinfo(np.int32).max)  # Gymnasium's rules have no time limit

GROUND: Colour = (238, 240, 232)
LINE: Colour = (205, 208, 198)
ROCK: Colour = (112, 72, 60)


def cliffwalking_task(rules: Rules = "paper") -> GridTask:
    """Transition tables; the cliff ends the episode (paper) or leads back to the start (gymnasium)."""
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
    """CliffWalking: walk along the cliff from the bottom left to the bottom right.

    The time limit depends on the rules, so it is applied here and not by the registration.
    """

    def __init__(self, rules: Rules = "paper", render_mode: str | None = None) -> None:
        super().__init__(cliffwalking_task(rules), render_mode)

    def picture(self, cell: int = 48) -> np.ndarray:
        """Paint the grid, the cliff in brown, the start in grey, the goal in green and the agent in blue."""
        colours = np.full((ROWS * COLUMNS, 3), GROUND, np.uint8)
        colours[CLIFF], colours[START], colours[GOAL] = ROCK, GREY, GREEN
        picture = colours.reshape(ROWS, COLUMNS, 3).repeat(cell, axis=0).repeat(cell, axis=1)
        picture[::cell] = picture[:, ::cell] = LINE
        row, column = divmod(self.state, COLUMNS)
        paint_disc(picture, ((row + 0.5) * cell, (column + 0.5) * cell), 0.36 * cell, (255, 255, 255))
        paint_disc(picture, ((row + 0.5) * cell, (column + 0.5) * cell), 0.31 * cell, AGENT)
        return picture
