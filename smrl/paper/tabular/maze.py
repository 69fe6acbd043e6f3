"""Random mazes by the rules of gym-maze: ``maze-random-20x20-plus-v0`` and other sizes."""

import colorsys
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from smrl.errors import SmrlError, require
from smrl.paper.tabular.grid_world import AGENT, GREEN, GREY, Colour, GridTask, TableEnv, ended_at, paint_disc

MOVES = ((0, -1), (0, 1), (1, 0), (-1, 0))  # (x, y) of the actions N, S, E, W; y points downwards
BITS = (1, 4, 2, 8)  # bit of a removed wall, per action: N=1, E=2, S=4, W=8
OPPOSITE = (1, 0, 3, 2)
COMPASS = (0, 2, 1, 3)  # gym-maze lists neighbours in the order N, E, S, W
LOOPS = 0.2  # fraction of cells that remove one more wall in a "plus" maze
MAX_DRAWS = 1000  # attempts to place the portals so that all cells are reachable; one is nearly always enough

PAPER: Colour = (250, 250, 246)
WALL: Colour = (44, 48, 56)


@dataclass(frozen=True, eq=False)
class Maze:
    """A square maze; a cell's id is y · size + x, the start is the first cell and the goal the last."""

    size: int
    passages: np.ndarray  # bool (y, x, action): whether this way is open
    portals: np.ndarray  # int (pairs, 2): cell ids
    seed: int


def generate(size: int = 20, plus: bool = True, seed: int = 0, portals: int | None = None) -> Maze:
    """Generate the maze of a seed; "plus" adds loops and round(size / 3) pairs of portals.

    ``portals`` overrides the number of pairs. Portals that cut cells off or trap the agent, which gym-maze allows, are
    drawn again.
    """
    require(size >= 2, f"a maze has at least 2x2 cells, not {size}x{size}")
    require(seed >= 0, f"a maze's seed is a whole number from 0, not {seed}")
    pairs = (round(size / 3) if plus else 0) if portals is None else portals
    free = size**2 - 2  # all but the start and the goal
    fit = f"{pairs} pairs of portals do not fit into {free} free cells: ask for 0 to {free // 2}"
    require(0 <= 2 * pairs <= free, fit)
    rng = np.random.default_rng(seed)
    bits = carve(size, rng)
    if plus:
        bits = add_loops(bits, rng)
    passages = open_passages(bits)
    for _ in range(MAX_DRAWS):
        # choice shuffles, so the pairing is random, as by gym-maze's second draw.
        drawn = rng.choice(np.arange(1, size**2 - 1), (pairs, 2), replace=False)
        if reachable(landings(passages, drawn)).all():
            return Maze(size, passages, drawn, seed)
    raise SmrlError(f"{MAX_DRAWS} draws of {pairs} pairs of portals all cut off cells of maze {seed}: ask for fewer")


def carve(size: int, rng: np.random.Generator) -> np.ndarray:
    """Remove walls by depth-first search; return their bits (y, x), marked only on the side of the entered cell."""
    bits = np.zeros((size, size), np.uint8)
    stack = [(int(rng.integers(size)), int(rng.integers(size)))]
    while stack:
        x, y = stack.pop()
        # The first cell has no bit set, so it may be entered once more, as in gym-maze.
        ways = [way for way in COMPASS if (to := neighbour(size, x, y, way)) and not bits[to[1], to[0]]]
        if ways:
            way = ways[rng.integers(len(ways))]
            to_x, to_y = x + MOVES[way][0], y + MOVES[way][1]
            bits[to_y, to_x] |= BITS[OPPOSITE[way]]
            stack += [(x, y), (to_x, to_y)]
    return bits


def add_loops(bits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Let a fifth of the cells, in random order, remove one more wall each; return the bits."""
    size, bits = len(bits), bits.copy()
    for cell in rng.choice(size**2, round(size**2 * LOOPS), replace=False):
        y, x = divmod(int(cell), size)
        for way in rng.permutation(4):
            to = neighbour(size, x, y, way)
            if to and not (bits[y, x] & BITS[way] or bits[to[1], to[0]] & BITS[OPPOSITE[way]]):
                bits[y, x] |= BITS[way]
                break
    return bits


def neighbour(size: int, x: int, y: int, way: int) -> tuple[int, int] | None:
    """Return the neighbouring cell in a direction, None outside the maze.

    >>> neighbour(20, 0, 0, 2), neighbour(20, 0, 0, 0)
    ((1, 0), None)
    """
    to_x, to_y = x + MOVES[way][0], y + MOVES[way][1]
    return (to_x, to_y) if 0 <= to_x < size and 0 <= to_y < size else None


def open_passages(bits: np.ndarray) -> np.ndarray:
    """Return which ways are open (y, x, action): the bit is set on either side, and no way leads out of the maze."""
    size = len(bits)
    passages = np.zeros((size, size, 4), bool)
    for y, x, way in np.ndindex(size, size, 4):
        if to := neighbour(size, x, y, way):
            passages[y, x, way] = bits[y, x] & BITS[way] or bits[to[1], to[0]] & BITS[OPPOSITE[way]]
    return passages


def landings(passages: np.ndarray, portals: np.ndarray) -> np.ndarray:
    """Return the next cell by cell and action: walls block, and a portal leads to its partner and no further."""
    size = len(passages)
    cells = np.arange(size**2)
    partner = cells.copy()
    partner[portals] = portals[:, ::-1]
    shift = np.array([x + y * size for x, y in MOVES])
    walk = passages.reshape(-1, 4)
    # A shift out of the maze is never taken, but must be a valid index.
    return np.where(walk, partner[(cells[:, None] + shift) % size**2], cells[:, None]).astype(np.int32)


def reachable(next_state: np.ndarray) -> np.ndarray:
    """Return which cells are reachable from the first, by paths that may pass through the goal."""
    seen = np.zeros(len(next_state), bool)
    front = np.array([0])
    while front.size:
        seen[front] = True
        front = np.setdiff1d(next_state[front], np.flatnonzero(seen))
    return seen


def time_limit(size: int) -> int:
    """Return the steps after which an episode in a maze is truncated."""
    return 100 * size**2


def maze_task(maze: Maze) -> GridTask:
    """Return a maze's tables: reward 1 at the goal, which ends the episode, and -0.1 / cells for every other step."""
    next_state = landings(maze.passages, maze.portals)
    cells = maze.size**2
    goal = cells - 1
    arrived = next_state == goal
    reward = np.where(arrived, 1, -0.1 / cells).astype(np.float32)
    return ended_at([goal], GridTask(next_state, reward, arrived, start=0, goal=goal, max_steps=time_limit(maze.size)))


class MazeEnv(TableEnv):
    """A maze; the observation is the state id y · size + x, and info["position"] is (x, y).

    ``reset(seed=k)`` makes the maze of seed k; ``reset()`` keeps the maze, at first that of seed 0. Episodes are
    truncated after 100 · cells steps.
    """

    def __init__(
        self, size: int = 20, plus: bool = True, portals: int | None = None, render_mode: str | None = None
    ) -> None:
        self.generate = partial(generate, size, plus, portals=portals)
        self.maze = self.generate(seed=0)
        super().__init__(maze_task(self.maze), render_mode)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Return to the start; a seed also makes its maze."""
        if seed is not None:
            self.maze = self.generate(seed=seed)
            self.task = maze_task(self.maze)
        return super().reset(seed=seed, options=options)

    def info(self) -> dict[str, Any]:
        """Return the position of the agent."""
        return {"position": (self.state % self.maze.size, self.state // self.maze.size)}

    def picture(self) -> np.ndarray:
        """Paint walls, portals with a colour per pair, a grey start, a green goal and a blue agent."""
        size = self.maze.size
        cell = min(max(480 // size, 8), 64)
        wall = max(2, cell // 10)
        picture = np.full((size * cell + wall, size * cell + wall, 3), PAPER, np.uint8)

        def square(state: int, paint: ArrayLike) -> None:
            top, left = (place * cell + wall for place in divmod(state, size))
            picture[top : top + cell - wall, left : left + cell - wall] = paint

        def disc(state: int, radius: float, paint: ArrayLike) -> None:
            row, column = ((place + 0.5) * cell + wall / 2 for place in divmod(state, size))
            paint_disc(picture, (row, column), radius * cell, paint)

        square(self.task.start, GREY)
        square(self.task.goal, GREEN)
        for index, pair in enumerate(self.maze.portals):
            strong = 255 * np.array(colorsys.hsv_to_rgb(index / len(self.maze.portals), 0.8, 0.85))
            pale = 255 - (255 - strong) / 4
            for state in map(int, pair):
                square(state, pale)
                disc(state, 0.36, strong)
                disc(state, 0.2, pale)
        for y, x in np.ndindex(size + 1, size + 1):
            top, left = y * cell, x * cell
            if x < size and (y in (0, size) or not self.maze.passages[y, x, 0]):
                picture[top : top + wall, left : left + cell + wall] = WALL
            if y < size and (x in (0, size) or not self.maze.passages[y, x, 3]):
                picture[top : top + cell + wall, left : left + wall] = WALL
        disc(self.state, 0.32, PAPER)
        disc(self.state, 0.28, AGENT)
        return picture
