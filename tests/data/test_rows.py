"""Arrays in the environment's own units as rows of a replay memory: conversions and refusals."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from smrl.data.rows import from_arrays, join
from smrl.errors import SmrlError
from smrl.memory.replay import Replay, Rows
from smrl.types import ArraySpec, Continuous, Discrete, Entry, Spec, Transition

GAMMA = 0.9
SPEC = Spec(ArraySpec((2,)), Continuous(1, (-2.0,), (6.0,)))
Arrays = dict[str, Any]


def made(**changes: Any) -> Arrays:
    """Return five steps: an episode of three that terminates and one of two that is truncated; obs is the row."""
    arrays: Arrays = {
        "obs": np.arange(14.0).reshape(7, 2),
        "action": np.array([[-2.0], [2.0], [6.0], [0.0], [4.0]]),
        "reward": np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        "terminated": np.array([False, False, True, False, False]),
        "truncated": np.array([False, False, False, False, True]),
    }
    return arrays | changes


def with_next_obs() -> Arrays:
    """Return the same with next_obs and as many rows of obs."""
    arrays = made()
    obs = arrays["obs"]
    return arrays | {"obs": obs[[0, 1, 2, 4, 5]], "next_obs": obs[[1, 2, 3, 5, 6]]}


def rows_of(arrays: Arrays, spec: Spec = SPEC, scale: float = 1.0) -> Rows:
    return from_arrays(arrays, spec, scale, lambda name, row: f"row {row}")


def everything(rows: Rows, spec: Spec = SPEC, n_step: int = 1) -> Transition:
    """Return all transitions of a memory with these rows."""
    replay = Replay(len(rows["reward"]), spec, gamma=GAMMA, n_step=n_step)
    replay.restore(rows)
    return replay.gather(np.arange(len(rows["reward"])))


@pytest.mark.parametrize("arrays", [made(), with_next_obs()], ids=["more observations", "next_obs"])
def test_transitions_of_a_vector_task(arrays: Arrays) -> None:
    batch = everything(rows_of(arrays))
    obs = made()["obs"].astype(np.float32)
    np.testing.assert_array_equal(batch.obs, obs[[0, 1, 2, 4, 5]])
    np.testing.assert_array_equal(batch.next_obs, obs[[1, 2, 3, 5, 6]])
    np.testing.assert_array_equal(batch.action[:, 0], np.array([-1, 0, 1, -0.5, 0.5], np.float32))
    np.testing.assert_array_equal(batch.reward, np.array([1, 2, 3, 4, 5], np.float32))
    np.testing.assert_array_equal(batch.discount, np.array([0.9, 0.9, 0, 0.9, 0.9], np.float32))
    assert {field.dtype for field in batch} == {np.dtype(np.float32)}


def test_n_step_returns_end_with_their_episode() -> None:
    for arrays in (made(), with_next_obs()):
        batch = everything(rows_of(arrays), n_step=3)
        g = GAMMA
        np.testing.assert_allclose(batch.reward, [1 + 2 * g + 3 * g**2, 2 + 3 * g, 3, 4 + 5 * g, 5], rtol=1e-6)
        np.testing.assert_allclose(batch.discount, [0, 0, 0, g**2, g], rtol=1e-6)


def test_rows_that_do_not_follow_one_another_end_windows() -> None:
    """Rows in another order are the same transitions; only their n-step windows are shorter."""
    order = [3, 0, 4, 2, 1]
    arrays = {name: values[order] for name, values in with_next_obs().items()}
    batch, whole = everything(rows_of(arrays)), everything(rows_of(with_next_obs()))
    for field, in_order in zip(batch, whole, strict=True):
        np.testing.assert_array_equal(field, in_order[order])
    np.testing.assert_array_equal(everything(rows_of(arrays), n_step=3).reward, batch.reward)


def test_rewards_are_scaled_and_sources_joined() -> None:
    first, second = rows_of(made(), scale=0.5), rows_of(made(reward=np.arange(10, 15)))
    batch = everything(join([first, second]))
    np.testing.assert_array_equal(batch.reward, np.array([0.5, 1, 1.5, 2, 2.5, 10, 11, 12, 13, 14], np.float32))
    np.testing.assert_array_equal(batch.next_obs[:5], batch.next_obs[5:])


def test_entries_are_joined_and_padded_as_the_environment_does() -> None:
    spec = Spec(ArraySpec((5,)), Discrete(3, start=4), (Entry(("goal",), (1,)), Entry(("position", "xy"), (1, 2))))
    obs = made()["obs"]
    arrays = made(action=np.array([4, 5, 6, 4, 5])) | {"obs.goal": obs[:, :1], "obs.position.xy": obs[:, None, ::-1]}
    del arrays["obs"]
    batch = everything(rows_of(arrays, spec), spec)
    np.testing.assert_array_equal(batch.obs[1], np.array([2, 3, 2, 0, 0], np.float32))
    assert batch.action.tolist() == [0, 1, 2, 0, 1]
    assert batch.action.dtype == np.int32


def stacks(lengths: list[int], stack: int = 3) -> np.ndarray:
    """Return all observations of episodes, each with one new frame of 2×1 pixels."""
    found, number = [], 0
    for steps in lengths:
        frames = [np.full((2, 1, 1), number + k, np.uint8) for k in range(steps + 1)]
        padded = [frames[0]] * (stack - 1) + frames
        found += [np.concatenate(padded[k : k + stack], axis=-1) for k in range(steps + 1)]
        number += steps + 1
    return np.array(found)


def test_stacks_of_frames_are_stored_by_frame_and_rebuilt() -> None:
    spec = Spec(ArraySpec((2, 1, 3), "uint8", stack=3), Continuous(1, (-2.0,), (6.0,)))
    obs = stacks([3, 2])
    rows = rows_of(made(obs=obs), spec)
    assert rows["obs"].shape == (5, 1, 2)
    batch = everything(rows, spec)
    np.testing.assert_array_equal(batch.obs, obs[[0, 1, 2, 4, 5]])
    np.testing.assert_array_equal(batch.next_obs, obs[[1, 2, 3, 5, 6]])
    for bad in (1, 4):  # within an episode, and its first
        changed = obs.copy()
        changed[bad, ..., 0] += 1
        with pytest.raises(SmrlError, match=f"frames of row {bad if bad == 1 else 3} do not continue"):
            rows_of(made(obs=changed), spec)
    with pytest.raises(SmrlError, match="obs holds float64 instead of uint8"):
        rows_of(made(obs=obs.astype(float)), spec)


def changed(name: str, row: Any, value: Any) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name][row] = value

    return change


def replaced(**values: Any) -> Callable[[Arrays], None]:
    return lambda arrays: arrays.update(values)


REFUSED: list[tuple[Callable[[Arrays], Any], str]] = [
    (lambda arrays: arrays.pop("reward"), r"it has no array reward; it needs obs, action, reward, terminated"),
    (lambda arrays: arrays.pop("truncated"), "it has no array truncated"),
    (replaced(**{name: values[:0] for name, values in made().items()}), "it holds no steps"),
    (replaced(obs=np.zeros((7, 3))), r"obs has the shape \(7, 3\) instead of \(steps, 2\)"),
    (replaced(obs=np.zeros((5, 2))), "obs has 5 rows: give next_obs, or one observation more .* 2 episodes, 7 rows"),
    (replaced(obs=np.full((7, 2), "a")), "obs holds <U1 instead of numbers"),
    (replaced(obs=np.array(None)), r"obs has the shape \(\)"),
    (replaced(action=np.zeros((5, 2))), r"action has the shape \(5, 2\) instead of \(steps, 1\)"),
    (replaced(action=np.zeros((4, 1))), "action has 4 rows and reward has 5"),
    (replaced(reward=np.zeros((5, 1))), r"reward has the shape \(5, 1\) instead of \(steps\)"),
    (replaced(terminated=np.zeros(4)), "terminated has 4 rows and reward has 5"),
    (changed("obs", 3, np.nan), "obs of row 3 is not a finite float32 number"),
    (changed("obs", 3, 1e39), "obs of row 3 is not a finite float32 number"),
    (changed("reward", 2, np.inf), "row 2, its reward, is not a finite"),
    (changed("action", 2, np.nan), "the action of row 2 is not a finite"),
    (changed("action", 1, 6.1), "the action of row 1 is outside the bounds, from -2 to 6"),
    (changed("action", slice(1, 3), -3), r"the action of row 1 is outside the bounds, from -2 to 6 \(2 such rows\)"),
    (replaced(truncated=np.array([0, 0, 0, 0, 2])), "truncated of row 4 is neither true nor false"),
    (changed("truncated", 4, False), "row 4 is the last and ends no episode: give next_obs"),
    (replaced(next_obs=np.zeros((5, 2))), "obs has 7 rows and reward has 5"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_bad_arrays_are_refused(change: Callable[[Arrays], Any], message: str) -> None:
    arrays = {name: values.copy() for name, values in made().items()}
    change(arrays)
    with pytest.raises(SmrlError, match=message):
        rows_of(arrays)


@pytest.mark.parametrize("action", [[3, 4, 5, 6, 4], [4, 5, 6, 7, 4]])
def test_discrete_actions_outside_their_range_are_refused(action: list[int]) -> None:
    spec = replace(SPEC, action=Discrete(3, start=4))
    with pytest.raises(SmrlError, match=r"the action of row \d is outside the actions 4 to 6"):
        rows_of(made(action=np.array(action)), spec)
    with pytest.raises(SmrlError, match="action holds float64 instead of integers"):
        rows_of(made(action=np.array(action, float)), spec)


def test_rounding_beyond_a_bound_is_clipped() -> None:
    rows = rows_of(made(action=np.array([[-2.00001], [6.00001], [0], [0], [0]])))
    assert rows["action"][:2].tolist() == [[-1], [1]]


@pytest.mark.parametrize("low", [-1.0, -0.3, -2.0])
def test_encoder_inverts_the_decoder(low: float) -> None:
    action = Continuous(6, (low,) * 6, (1.0,) * 6, (2, 3))
    given = action.random(np.random.default_rng(0), 100)
    decoded = action.decoder()(given)
    assert decoded.shape == (100, 2, 3)
    np.testing.assert_allclose(action.encoder()(decoded), given, atol=2e-7)
    assert action.encoder()(decoded).dtype == np.float32
