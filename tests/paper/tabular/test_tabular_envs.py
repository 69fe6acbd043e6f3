"""The grid worlds: their rules, and that their environments follow their tables."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
from gymnasium.utils.env_checker import check_env

import smrl.paper.tabular  # noqa: F401 - registers the ids
from smrl.errors import SmrlError
from smrl.paper.tabular.grid_world import NO_LIMIT, CliffWalking, TableEnv, cliffwalking_task
from smrl.paper.tabular.maze import (
    BITS,
    MOVES,
    Maze,
    MazeEnv,
    add_loops,
    carve,
    generate,
    landings,
    maze_task,
    open_passages,
    reachable,
)

UP, RIGHT, DOWN, LEFT = range(4)
NORTH, SOUTH, EAST, WEST = range(4)
IDS = ["smrl/CliffWalking-v0", "smrl/maze-v0", "smrl/maze-random-20x20-plus-v0"]
SIZES = [2, 3, 4, 7, 20]


@pytest.mark.parametrize("name", IDS)
def test_environment_passes_gymnasium_check(name: str) -> None:
    check_env(gymnasium.make(name).unwrapped)


@pytest.mark.parametrize("env", [CliffWalking(), CliffWalking("gymnasium"), MazeEnv(), MazeEnv(size=5, plus=False)])
def test_environment_follows_its_tables(env: TableEnv) -> None:
    task = env.task
    assert env.reset() == (task.start, env.info())
    assert [str(table.dtype) for table in (task.next_state, task.reward, task.terminal)] == ["int32", "float32", "bool"]
    for state, action in np.ndindex(task.next_state.shape):
        env.state = state
        arrived, reward, terminated, truncated, _ = env.step(action)
        assert arrived == env.state == task.next_state[state, action]
        assert reward == task.reward[state, action]
        assert terminated == task.terminal[state, action]
        assert not truncated
        env.steps = 0


@pytest.mark.parametrize(("rules", "ends"), [("paper", [*range(37, 48)]), ("gymnasium", [47])])
def test_terminal_states_are_absorbing_without_reward(rules: Any, ends: list[int]) -> None:
    task = cliffwalking_task(rules)
    assert (task.next_state[ends] == np.array(ends)[:, None]).all()
    assert not task.reward[ends].any()
    assert task.terminal[ends].all()


def test_gymnasium_rules_equal_gymnasium() -> None:
    theirs, ours = CliffWalkingEnv().P, cliffwalking_task("gymnasium")
    assert (ours.start, ours.goal, ours.max_steps) == (36, 47, NO_LIMIT)
    for state, action in np.ndindex(47, 4):
        ((_, *what),) = theirs[state][action]
        assert [ours.next_state[state, action], ours.reward[state, action], ours.terminal[state, action]] == what


def test_cliff_terminates_under_the_papers_rules() -> None:
    paper, other = cliffwalking_task(), cliffwalking_task("gymnasium")
    (states, actions) = np.nonzero(paper.reward == -100)
    assert sorted(zip(states.tolist(), actions.tolist(), strict=True)) == sorted(
        [(36, RIGHT), *((state, DOWN) for state in range(25, 35))]
    )
    assert paper.terminal[states, actions].all()
    assert set(paper.next_state[states, actions].tolist()) == set(range(37, 47))
    same = paper.reward[:37] == -1
    assert (paper.next_state[:37] == other.next_state[:37])[same].all()
    assert (paper.terminal[:37] == other.terminal[:37])[same].all()


@pytest.mark.parametrize(("state", "action", "arrived"), [(0, UP, 0), (0, LEFT, 0), (11, RIGHT, 11), (36, DOWN, 36)])
def test_edges_block(state: int, action: int, arrived: int) -> None:
    assert cliffwalking_task().next_state[state, action] == arrived


def test_best_path_along_the_cliff() -> None:
    env = CliffWalking()
    env.reset(seed=0)
    steps = [env.step(action) for action in (UP, *[RIGHT] * 11, DOWN)]
    assert [step[0] for step in steps] == [*range(24, 36), 47]
    assert sum(step[1] for step in steps) == -13
    assert [step[2] for step in steps] == [False] * 12 + [True]


@pytest.mark.parametrize(("env", "limit"), [(CliffWalking(), 100), (MazeEnv(size=3), 900), (MazeEnv(), 40000)])
def test_episodes_are_truncated_at_the_limit(env: TableEnv, limit: int) -> None:
    assert env.task.max_steps == limit
    env.reset()
    env.steps = limit - 2
    assert env.step(UP)[2:4] == (False, False)
    assert env.step(UP)[2:4] == (False, True)
    assert env.reset()[0] == env.task.start
    assert env.steps == 0


def test_episode_can_terminate_at_the_limit() -> None:
    env = CliffWalking()
    env.reset()
    env.state, env.steps = 35, 99
    assert env.step(DOWN)[2:4] == (True, False)


def test_gymnasium_rules_have_no_limit() -> None:
    env = gymnasium.make("smrl/CliffWalking-v0", rules="gymnasium")
    env.reset()
    assert not any(env.step(LEFT)[3] for _ in range(300))


def mazes(count: int = 12) -> list[Maze]:
    return [generate(size, plus, seed) for size in SIZES for plus in (False, True) for seed in range(count)]


def test_walls_are_symmetrical_and_close_the_maze() -> None:
    for maze in mazes():
        north, south, east, west = np.moveaxis(maze.passages, 2, 0)
        assert (north[1:] == south[:-1]).all()
        assert (east[:, :-1] == west[:, 1:]).all()
        assert not np.concatenate([north[0], south[-1], west[:, 0], east[:, -1]]).any()


def test_every_cell_is_reachable() -> None:
    nowhere = np.empty((0, 2), int)
    for maze in mazes():
        assert reachable(landings(maze.passages, nowhere)).all()
        assert reachable(landings(maze.passages, maze.portals)).all()


def test_passage_is_open_if_either_bit_is_set() -> None:
    for way, (x, y) in enumerate(MOVES):
        bits = np.zeros((3, 3), np.uint8)
        bits[1, 1] = BITS[way]
        passages = open_passages(bits)
        back = {NORTH: SOUTH, SOUTH: NORTH, EAST: WEST, WEST: EAST}[way]
        assert passages[1, 1, way]
        assert passages[1 + y, 1 + x, back]
        assert passages.sum() == 2
    assert not open_passages(np.array([[1 | 8, 1 | 2], [4 | 8, 4 | 2]])).any()  # nothing leads out


def test_carve_enters_every_cell() -> None:
    drawn = [carve(6, np.random.default_rng(seed)) for seed in range(50)]
    assert all(np.isin(bits, BITS).all() for bits in drawn)  # each cell was entered once, from one side
    opened = {int(open_passages(bits).sum()) // 2 for bits in drawn}
    assert opened == {35, 36}  # a tree, and a loop unless the first cell was entered by the way it was left


@pytest.mark.parametrize("size", SIZES)
def test_add_loops_removes_one_wall_of_a_fifth_of_the_cells(size: int) -> None:
    for seed in range(10):
        rng, again = np.random.default_rng(seed), np.random.default_rng(seed)
        before, _ = carve(size, rng), carve(size, again)
        chosen = np.isin(np.arange(size**2), again.choice(size**2, round(size**2 / 5), replace=False))
        after = add_loops(before, rng)
        broken = np.bitwise_count(before ^ after).reshape(-1)
        gained = open_passages(after).sum() - open_passages(before).sum()
        assert gained == 2 * broken.sum()  # never a wall that was open already
        inside = open_passages(np.full((size, size), 15)).reshape(-1, 4)
        full = (open_passages(after).reshape(-1, 4) == inside).all(1)
        assert (broken[~chosen] == 0).all()
        assert ((broken == 1) | full)[chosen].all()
    assert chosen.sum() == {2: 1, 3: 2, 4: 3, 7: 10, 20: 80}[size]


@pytest.mark.parametrize(("size", "pairs"), [(2, 1), (3, 1), (4, 1), (5, 2), (20, 7)])
def test_number_and_places_of_portals(size: int, pairs: int) -> None:
    for seed in range(20):
        portals = generate(size, seed=seed).portals
        assert portals.shape == (pairs, 2)
        assert len(np.unique(portals)) == 2 * pairs
        assert portals.min() >= 1
        assert portals.max() <= size**2 - 2
    assert generate(size, plus=False).portals.shape == (0, 2)
    assert generate(size, plus=False, portals=1).portals.shape == (1, 2)


def test_portals_that_cut_cells_off_are_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert generate(20, portals=199).portals.shape == (199, 2)  # on every free cell
    monkeypatch.setattr("smrl.paper.tabular.maze.MAX_DRAWS", 1)
    with pytest.raises(SmrlError, match=r"cut off cells of maze \d+: ask for fewer"):
        [generate(3, seed=seed) for seed in range(500)]


def test_dynamics_of_every_cell() -> None:
    for maze in mazes(3):
        task, last = maze_task(maze), maze.size - 1
        partner = {int(a): int(b) for pair in maze.portals for a, b in (pair, pair[::-1])}
        assert (task.start, task.goal, task.max_steps) == (0, maze.size**2 - 1, 100 * maze.size**2)
        for y, x, way in np.ndindex(maze.size, maze.size, 4):
            if (x, y) == (last, last):
                continue
            here, there = y * maze.size + x, (y + MOVES[way][1]) * maze.size + x + MOVES[way][0]
            arrived = partner.get(there, there) if maze.passages[y, x, way] else here
            assert task.next_state[here, way] == arrived
            assert task.terminal[here, way] == (arrived == task.goal)
            assert task.reward[here, way] == np.float32(1 if arrived == task.goal else -0.1 / maze.size**2)


def test_portal_jumps_once_and_walls_do_not() -> None:
    bits = np.zeros((3, 3), np.uint8)
    bits[0, 1] = bits[0, 2] = BITS[WEST]  # a corridor along the top, whose portals 1 and 2 are neighbours
    to = landings(open_passages(bits), np.array([[1, 2]]))
    assert to[0, EAST] == 2  # enters 1, comes out of 2, and does not jump back
    assert to[1, EAST] == 1  # enters 2, comes out of 1
    assert to[2].tolist() == [2, 2, 2, 2]  # bumps thrice; to the west it enters 1 and comes out of 2
    assert not reachable(to)[1]  # which is how portals can cut cells off


def test_rewards_of_the_papers_maze() -> None:
    task = maze_task(generate())
    assert set(np.unique(task.reward[:-1]).tolist()) == {float(np.float32(-0.00025)), 1.0}


def test_seed_determines_the_maze() -> None:
    one, same, other = generate(seed=1), generate(seed=1), generate(seed=2)
    assert (one.passages == same.passages).all()
    assert (one.portals == same.portals).all()
    assert (one.passages != other.passages).any()


def test_reset_makes_the_maze_of_its_seed_and_keeps_it_without_one() -> None:
    env = MazeEnv()
    assert (env.maze.passages == generate(seed=0).passages).all()
    assert env.reset(seed=5) == (0, {"position": (0, 0)})
    assert (env.maze.passages == generate(seed=5).passages).all()
    assert (env.task.next_state == maze_task(generate(seed=5)).next_state).all()
    before = env.maze
    env.reset()
    assert env.maze is before
    env.state = 43
    assert env.info() == {"position": (3, 2)}


@pytest.mark.parametrize("name", IDS)
def test_pictures_show_the_agent(name: str) -> None:
    env = gymnasium.make(name, render_mode="rgb_array").unwrapped
    assert isinstance(env, TableEnv)
    env.reset(seed=0)
    pictures = set()
    for state in range(0, 48, 3):
        env.state = state
        pictures.add(env.render().tobytes())
    assert len(pictures) == 16


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: generate(1), "at least 2x2 cells, not 1x1"),
        (lambda: generate(3, portals=4), "4 pairs of portals do not fit into 7 free cells: ask for 0 to 3"),
        (lambda: generate(3, portals=-1), "ask for 0 to 3"),
        (lambda: generate(seed=-1), "seed is a whole number from 0"),
        (lambda: MazeEnv(size=0), "at least 2x2 cells"),
        (lambda: cliffwalking_task("sutton"), "rules paper and gymnasium, not 'sutton'"),  # type: ignore[arg-type]
        (lambda: CliffWalking(render_mode="human"), "render as rgb_array, not as 'human'"),
        (lambda: CliffWalking().render(), "made without render_mode"),
        (lambda: CliffWalking().step(4), "from 0 to 3, not 4"),
    ],
)
def test_bad_input_is_refused(call: Any, words: str) -> None:
    with pytest.raises(SmrlError, match=words) as fault:
        call()
    assert "\n" not in str(fault.value)
