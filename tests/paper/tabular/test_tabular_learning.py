"""Compiled Q-learning and Q-SMR against a plain loop, and their properties."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smrl import randomness
from smrl.cli.reproduce import run
from smrl.errors import SmrlError
from smrl.paper.tabular.grid_world import GridTask, cliffwalking_task
from smrl.paper.tabular.learning import BLOCK, Rate, Settings, draws, learn, update
from smrl.paper.tabular.maze import generate, maze_task
from smrl.paper.tabular.q_smr import Options, settings_of, tables
from smrl.randomness import Purpose
from smrl.types import Transition

Plain = dict[str, np.ndarray]


def room(width: int = 4, height: int = 3, max_steps: int = 60) -> GridTask:
    """An empty room from its first cell to its last; whoever bumps into a wall stays (s' = s)."""
    rows, columns = np.divmod(np.arange(width * height), width)
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    landed = [np.clip(rows + y, 0, height - 1) * width + np.clip(columns + x, 0, width - 1) for y, x in moves]
    follow = np.stack(landed, 1).astype(np.int32)
    goal = width * height - 1
    arrived = follow == goal
    return GridTask(follow, np.where(arrived, 1, -0.01).astype(np.float32), arrived, 0, goal, max_steps)


def plain(task: GridTask, settings: Settings, seed: int) -> Plain:
    """The same in NumPy, a line of the algorithm per line; float32, as the compiled one."""
    times, rate, one = int(str(settings.reuse)), settings.rate, np.float32(1)
    root = randomness.key(seed, Purpose.EXPLORE)
    blocks = jnp.arange(settings.episodes * task.max_steps // BLOCK + 1)
    numbers = np.concatenate(jax.vmap(lambda block: draws(root, block))(blocks))
    q, n, step = np.zeros(task.reward.shape, np.float32), np.zeros(task.reward.shape), 0
    found: dict[str, list[Any]] = {name: [] for name in ("training", "greedy")}
    for _ in range(settings.episodes):
        for name in found:
            state, total, taken, over = task.start, 0.0, 0, False
            while not over and taken < task.max_steps:
                action = int(q[state].argmax())
                if name == "training" and numbers[step, 0] < np.float32(settings.epsilon):
                    action = int(numbers[step, 1] * 4)
                after, reward = task.next_state[state, action], task.reward[state, action]
                over = bool(task.terminal[state, action])
                if name == "training":
                    n[state, action] += 1
                    decayed = {"steps": rate.h / (times * (step + rate.t0)), "visits": n[state, action] ** -rate.omega}
                    alpha = np.float32(decayed.get(rate.kind, rate.alpha))
                    for _ in range(times):
                        target = reward + np.float32(settings.gamma) * (not over) * q[after].max()
                        q[state, action] = (one - alpha) * q[state, action] + alpha * target
                    step += 1
                state, total, taken = after, total + reward, taken + 1
            found[name].append((total, taken, over and state == task.goal))
    parts = {name: np.array(rows).T for name, rows in found.items()}
    what = ("return", "steps", "goal")
    return {f"{name}_{what[i]}": part[i] for name, part in parts.items() for i in range(3)} | {"q": q}


def without_ties(task: GridTask) -> GridTask:
    """The task with costs so uneven that the last bit of a value, which is the compiler's, decides no choice."""
    costs = np.random.default_rng(0).uniform(0, 0.1, task.reward.shape).astype(np.float32)
    return replace(task, reward=task.reward - costs)


GRIDS = {"room": room(), "cliff": cliffwalking_task("paper"), "maze": maze_task(generate(size=5, seed=1))}
TASKS = {name: without_ties(task) for name, task in GRIDS.items()}


@pytest.mark.parametrize(("task", "reuse"), [("room", 1), ("cliff", 3), ("maze", 3)])
def test_compiled_equals_a_plain_loop(task: str, reuse: int) -> None:
    settings = Settings(reuse, episodes=6 if task == "maze" else 12)  # the first episodes of a maze are long
    seeds = [0, 7]
    result = learn(TASKS[task], settings, seeds)
    for row, seed in enumerate(seeds):
        for name, values in plain(TASKS[task], settings, seed).items():
            np.testing.assert_allclose(getattr(result, name)[row], values, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", ["steps", "visits"])
def test_decaying_rates_equal_a_plain_loop(kind: Any) -> None:
    settings = Settings(3, episodes=12, rate=Rate(kind, h=20, t0=40))
    result = learn(TASKS["room"], settings, [0])
    for name, values in plain(TASKS["room"], settings, 0).items():
        np.testing.assert_allclose(getattr(result, name)[0], values, rtol=1e-4, atol=1e-5, err_msg=name)


def one_step(reuse: int, stay: bool, terminal: bool = False) -> float:
    """Q(0, 0) after one step from zeros in a task of two states, with reward 1."""
    follow = np.array([[0 if stay else 1], [1]], np.int32)
    task = GridTask(follow, np.ones((2, 1), np.float32), np.array([[terminal], [True]]), 0, 1, max_steps=1)
    return float(learn(task, Settings(reuse, episodes=1, rate=Rate(alpha=0.1)), [0]).q[0, 0, 0])


def test_effective_rate_where_the_next_state_differs() -> None:
    assert one_step(10, stay=False) == pytest.approx(1 - 0.9**10)


def test_maximum_is_recomputed_where_the_next_state_is_the_same() -> None:
    value = 0.0
    for _ in range(10):
        value = 0.9 * value + 0.1 * (1 + 0.99 * value)
    assert one_step(10, stay=True) == pytest.approx(value)
    assert one_step(10, stay=True, terminal=True) == pytest.approx(1 - 0.9**10)  # nothing is bootstrapped


def test_update_is_that_of_q_learning() -> None:
    q = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    seen = Transition(jnp.int32(0), jnp.int32(1), jnp.float32(5), jnp.float32(0.5), jnp.int32(1))
    new, _ = update(q, (seen, jnp.float32(0.25)), jax.random.key(0))
    assert new.tolist() == [[1.0, 0.75 * 2 + 0.25 * (5 + 0.5 * 4)], [3.0, 4.0]]


@pytest.mark.parametrize("reuse", [1, 10])
def test_shortest_path_is_found(reuse: int) -> None:
    result = learn(room(), Settings(reuse, episodes=600, rate=Rate(alpha=0.2), epsilon=0.5), range(3))
    assert result.greedy_goal[:, -1].all()
    assert result.greedy_steps[:, -1].tolist() == [5, 5, 5]
    np.testing.assert_allclose(result.greedy_return[:, -1], 1 - 4 * 0.01, rtol=1e-5)


def test_reuse_learns_faster_along_the_cliff() -> None:
    first = [learn(cliffwalking_task(), Settings(reuse), range(5)).greedy_goal.sum(1).mean() for reuse in (1, 10)]
    assert first[1] > first[0] + 100


def test_seeds_determine_results() -> None:
    settings = Settings(3, episodes=20)
    both, again, other = (learn(room(), settings, seeds) for seeds in ([1, 2], [2, 1], [3, 3]))
    assert (both.q == again.q[::-1]).all()
    assert (both.training_return == again.training_return[::-1]).all()
    assert not (both.q[0] == both.q[1]).all()
    assert (other.q[0] == other.q[1]).all()


def test_each_seed_can_have_its_own_task() -> None:
    tasks = [maze_task(generate(size=4, seed=seed)) for seed in (0, 1)]
    settings = Settings(2, episodes=5)
    together = learn(tasks, settings, [0, 1])
    for row, task in enumerate(tasks):
        assert (learn(task, settings, [row, row]).q[0] == together.q[row]).all()


def test_policy_in_circles_is_truncated_at_any_limit() -> None:
    for limit in (1, 7, 2**31 - 1):
        result = learn(replace(room(), max_steps=limit), Settings(episodes=1, epsilon=1.0, rate=Rate(alpha=0.0)), [0])
        assert result.greedy_steps[0, 0] == limit
        assert not result.greedy_goal[0, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rate(alpha=1.5), "alpha must be from 0 to 1, not 1.5."),
        (lambda: Rate(alpha=float("nan")), "alpha must be from 0 to 1, not nan."),
        (lambda: Rate("steps", h=2, t0=1), "h must be above 0 and at most t0, not 2 with t0 1."),
        (lambda: Settings(gamma=1.0), "gamma must be at least 0 and below 1, not 1."),
        (lambda: Settings(epsilon=-0.1), "epsilon must be from 0 to 1, not -0.1."),
        (lambda: Settings(reuse=0), "reuse must be at least 1, not 0; 1 is the base algorithm."),
        (lambda: Settings(episodes=0), "episodes must be at least 1, not 0."),
        (lambda: learn([room()], Settings(), [0, 1]), "2 seeds need as many tasks or a single one, not 1."),
        (
            lambda: run(["q-smr", "--tasks", "maze", "--seeds", "0"]),
            "seeds must be a whole number from 1 to 1,000, not 0.",
        ),
        (lambda: run(["q-smr", "--alpha", "2"]), "alpha must be from 0 to 1, not 2."),
    ],
)
def test_bad_input_is_refused(make: Any, message: str) -> None:
    with pytest.raises(SmrlError) as error:
        make()
    assert str(error.value) == message


def test_command_writes_a_picture_and_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "q-smr --tasks cliffwalking maze --reuse 3 --seeds 2 --episodes 4 --size 3 --rules gymnasium --runs"
    run([*words.split(), str(tmp_path)])
    assert "Gymnasium's rules" in capsys.readouterr().out
    folder = tmp_path / "tabular"
    assert (folder / "cliffwalking-maze.png").read_bytes().startswith(b"\x89PNG")
    lines = (folder / "cliffwalking-maze.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2 * 4
    assert lines[0].startswith("task,reuse,seed,episode,training_return")


def test_command_defaults_to_the_paper() -> None:
    options = Options()
    assert settings_of(options, "cliffwalking", 1) == Settings()
    assert settings_of(options, "maze", 10) == Settings(10, episodes=100)
    mazes = tables(options, "maze")
    assert isinstance(mazes, list)
    assert {(len(maze.reward), maze.max_steps) for maze in mazes} == {(400, 40_000)}
