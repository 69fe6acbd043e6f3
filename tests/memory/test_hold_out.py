"""Held-out episodes: which rows are drawn, compared with the definition applied to a list of rows."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from smrl.memory.mixed import MixedReplay
from smrl.memory.replay import Replay, Windows, is_held_out, nearest
from smrl.types import ArraySpec, Continuous, Discrete, Spec

SPEC = Spec(ArraySpec((1,)), Continuous(1))
GAMMA, HOLD_OUT, CAPACITY, COUNT = 0.9, 100, 250, 600


class Row(NamedTuple):
    number: int  # also its observation
    env: int
    episode: int
    reward: float
    last: bool


def experience(envs: int, count: int = COUNT) -> list[Row]:
    """Return rows of several environments in turns, in episodes of about 5 steps that are numbered as they begin."""
    draw, following, rows = np.random.default_rng(envs), envs, list[Row]()
    episodes = list(range(envs))
    for number in range(count):
        env, is_last = number % envs, bool(draw.random() < 0.2)
        rows.append(Row(number, env, episodes[env], draw.normal(), is_last))
        if is_last:
            episodes[env], following = following, following + 1
    return rows


def memory(rows: list[Row], envs: int, n_step: int = 1, windows: Windows = "partial") -> Replay:
    replay = Replay(CAPACITY, SPEC, gamma=GAMMA, n_step=n_step, envs=envs, windows=windows, hold_out=HOLD_OUT)
    for row in rows:
        obs = np.array([row.number], np.float32)
        replay.add(obs, np.zeros(1), row.reward, obs + 0.5, False, row.last, row.episode)
    return replay


def window(rows: list[Row], first: int, envs: int, n_step: int) -> list[Row]:
    """Return the rows of an n-step window."""
    found = [rows[first]]
    while len(found) < n_step and not found[-1].last and found[-1].number + envs < len(rows):
        found.append(rows[found[-1].number + envs])
    return found


@pytest.mark.parametrize(
    ("envs", "n_step", "windows"), [(1, 1, "partial"), (3, 1, "partial"), (1, 3, "partial"), (2, 3, "full")]
)
def test_rows_are_drawn_by_their_definition(envs: int, n_step: int, windows: Windows) -> None:
    """After 600 rows the ring has overwritten 350; rows older than 100 are given back."""
    rows = experience(envs)
    replay, generator = memory(rows, envs, n_step, windows), np.random.default_rng(0)
    held = {row.number for row in rows[-HOLD_OUT:] if is_held_out(row.episode)}
    given_back = {row.number for row in rows[-CAPACITY:-HOLD_OUT] if is_held_out(row.episode)}
    # A window that begins before the held-out rows may still reach into them.
    near = {first for first in given_back if first >= COUNT - HOLD_OUT - (n_step - 1) * envs}
    is_long = {row.number: len(window(rows, row.number, envs, n_step)) == n_step for row in rows}
    long = {first for first in range(COUNT - CAPACITY, COUNT) if windows == "partial" or is_long[first]}

    drawn = set(replay.sample(generator, 40, 500).obs.astype(int).ravel().tolist())
    assert drawn == long - held - near
    assert drawn & given_back, "no experience is lost"
    reached = {row.number for first in drawn for row in window(rows, first, envs, n_step)}
    assert not reached & held

    pair = replay.sample_pair(generator, 300)
    assert pair is not None
    trained, held_out = (set(part.obs.astype(int).ravel().tolist()) for part in pair)
    assert held_out == held & long
    candidates = np.array(sorted((set(range(COUNT - HOLD_OUT, COUNT)) & long) - held - near))
    distances = np.abs(pair[0].obs - pair[1].obs)[:, 0]
    np.testing.assert_array_equal(distances, np.abs(candidates - pair[1].obs).min(axis=1))
    assert trained <= {*candidates.tolist()}


@pytest.mark.parametrize("envs", [1, 2])
def test_a_window_does_not_reach_a_row_that_is_held_out(envs: int) -> None:
    """A held-out episode of rows 40 to 69 is given back up to row 49, which windows of three steps may not begin at."""
    replay = Replay(200, SPEC, gamma=GAMMA, n_step=3, envs=envs, hold_out=50)
    for row in range(100):
        obs = np.array([row], np.float32)
        is_last = any(row + env in (39, 69) for env in range(envs))
        replay.add(obs, np.zeros(1), 0.0, obs, False, is_last, 2 if 40 <= row < 70 else 0)
    drawn = set(replay.sample(np.random.default_rng(0), 20, 200).obs.astype(int).ravel().tolist())
    assert drawn == {*range(50 - 2 * envs), *range(70, 100)}


def test_nearest_by_brute_force() -> None:
    """The distance is in standard deviations, so a coordinate of a thousand times the size counts the same."""
    draw = np.random.default_rng(0)
    points, among = draw.normal(size=(50, 3)) * [1, 1000, 0], draw.normal(size=(200, 3)) * [1, 1000, 0]
    scaled = ((points[:, None] - among[None]) / [among[:, 0].std(), among[:, 1].std(), 1]) ** 2
    np.testing.assert_array_equal(nearest(points, among), scaled.sum(axis=2).argmin(axis=1))


@pytest.mark.parametrize("action", [Discrete(3), Continuous(1)])
def test_similar_rows_have_the_same_discrete_action(action: Discrete | Continuous) -> None:
    replay = Replay(300, Spec(ArraySpec((1,)), action), gamma=GAMMA, hold_out=200)
    for row in range(200):
        its: Any = np.int32(row % 3) if isinstance(action, Discrete) else np.zeros(1)
        replay.add(np.array([row % 100], np.float32), its, 0.0, np.zeros(1), False, row == 99, 2 * (row >= 100))
    pair = replay.sample_pair(np.random.default_rng(0), 1_000)
    assert pair is not None
    if isinstance(action, Discrete):
        np.testing.assert_array_equal(pair[0].action, pair[1].action)
        assert np.abs(pair[0].obs - pair[1].obs).max() <= 2
    else:
        np.testing.assert_array_equal(pair[0].obs, pair[1].obs)


@pytest.mark.parametrize("stack", [1, 2])
def test_images_are_compared_with_any_trained_ones(stack: int) -> None:
    replay = Replay(300, Spec(ArraySpec((3, 3, 2), "uint8", stack), Continuous(1)), gamma=GAMMA, hold_out=200)
    for row in range(100):
        obs = np.full((3, 3, 2), row, np.uint8)
        replay.add(obs, np.zeros(1), float(row), obs, False, row in (39, 59), 2 if 40 <= row < 60 else 0)
    pair = replay.sample_pair(np.random.default_rng(0), 1_000)
    assert pair is not None
    assert [part.obs.shape for part in pair] == [(1_000, 3, 3, 2)] * 2
    assert [{*part.reward.tolist()} for part in pair] == [{*range(40), *range(60, 100)}, {*range(40, 60)}]


def test_without_held_out_rows_there_is_no_pair() -> None:
    replay = memory(experience(1, 3)[:3], 1)
    assert replay.sample_pair(np.random.default_rng(0), 4) is None


def test_a_restored_memory_draws_the_same() -> None:
    replay = memory(experience(2), 2)
    again = Replay(CAPACITY, SPEC, gamma=GAMMA, envs=2, hold_out=HOLD_OUT)
    again.restore(replay.rows(0, replay.settled))
    again.restore(replay.rows(replay.settled, replay.added))
    (ours, our_pair), (theirs, their_pair) = (
        (one.sample(np.random.default_rng(5), 2, 50), one.sample_pair(np.random.default_rng(5), 50))
        for one in (replay, again)
    )
    assert our_pair
    assert their_pair
    for one, other in zip((ours, *our_pair), (theirs, *their_pair), strict=True):
        np.testing.assert_array_equal(one.obs, other.obs)
        np.testing.assert_array_equal(one.reward, other.reward)


@pytest.mark.parametrize("share", [None, 0.5])
def test_mixed_replay_holds_out_its_own_rows_only(share: float | None) -> None:
    rows = experience(1)
    own, data = memory(rows, 1), Replay(50, SPEC, gamma=GAMMA)
    for row in rows[:50]:
        data.add(np.array([-1 - row.number], np.float32), np.zeros(1), 0.0, np.zeros(1), False, row.last, row.episode)
    mixed, generator = MixedReplay(own, data, share), np.random.default_rng(0)
    drawn = set(mixed.sample(generator, 40, 500).obs.astype(int).ravel().tolist())
    held = {row.number for row in rows[-HOLD_OUT:] if is_held_out(row.episode)}
    assert drawn == {*range(-50, 0), *range(COUNT - CAPACITY, COUNT)} - held
    pair = mixed.sample_pair(generator, 1_000)
    assert pair is not None
    assert set(pair[1].obs.ravel().tolist()) == held


def test_one_of_sixteen_episodes_is_held_out() -> None:
    numbers = [number for number in range(1_600) if is_held_out(number)]
    assert [number // 16 for number in numbers] == list(range(100))
    assert len({number % 16 for number in numbers}) == 16, "at every place of its sixteen"


@pytest.mark.parametrize("envs", [1, 3])
def test_largest_return(envs: int) -> None:
    """The largest Σ γᵏ r over the rest of an ended episode; it also counts what was overwritten since."""
    rows = experience(envs)
    replay = Replay(CAPACITY, SPEC, gamma=GAMMA, envs=envs)
    assert replay.largest_return() == -np.inf
    returns = []
    for number in {row.episode for row in rows}:
        episode = [row for row in rows if row.episode == number]
        rewards = [row.reward for row in episode]
        if episode[-1].last:
            returns += [sum(GAMMA**k * r for k, r in enumerate(rewards[start:])) for start in range(len(rewards))]
    for row in rows:
        replay.add(np.zeros(1), np.zeros(1), row.reward, np.zeros(1), False, row.last)
        if row.number % 100 == 99:
            replay.largest_return()
    assert replay.largest_return() == pytest.approx(max(returns), rel=1e-6)
