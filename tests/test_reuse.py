"""The reuse loop around other people's updates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import smrl
from smrl.errors import SmrlError
from smrl.schedule import Schedule
from smrl.types import Array, Key

Weights = dict[str, Array]


def sgd(weights: Weights, batch: tuple[Array, Array], key: Key) -> tuple[Weights, dict[str, Array]]:
    """Somebody's own update: least squares by noisy gradient descent, on a dictionary."""
    x, y = batch

    def loss(weights: Weights) -> Array:
        return ((x @ weights["slope"] + weights["offset"] - y) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    noise = 1e-3 * jax.random.normal(key, x.shape[1:])
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient) | {
        "slope": weights["slope"] - 0.1 * (gradient["slope"] + noise)
    }, {"loss": value}


def data() -> tuple[Array, Array]:
    x = jax.random.normal(jax.random.key(1), (32, 3))
    return x, x @ jnp.array([1.0, -2.0, 0.5]) + 3


def zeros() -> Weights:
    return {"slope": jnp.zeros(3), "offset": jnp.zeros(())}


@pytest.mark.parametrize("times", [1, 2, 10])
def test_equals_a_loop_over_the_same_batch(times: int) -> None:
    key, batch = jax.random.key(3), data()
    state, report = smrl.reuse(sgd, times=times)(zeros(), batch, key)
    expected, losses = zeros(), []
    for m in range(times):
        expected, single = sgd(expected, batch, jax.random.fold_in(key, m))
        losses.append(single["loss"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), state, expected)
    np.testing.assert_allclose(report["loss"], np.mean(losses), rtol=1e-5)


def test_reuse_is_not_a_larger_rate() -> None:
    """M steps recompute the gradient: they differ from one step of M times the rate."""
    batch, key = data(), jax.random.key(3)
    one, _ = sgd(zeros(), batch, key)
    ten, _ = smrl.reuse(sgd, times=10)(zeros(), batch, key)
    assert not np.allclose(ten["offset"], 10 * one["offset"], rtol=0.1)


def test_state_is_donated() -> None:
    state = jax.tree.map(jnp.copy, zeros())
    smrl.reuse(sgd, times=2)(state, data(), jax.random.key(0))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state))


def test_a_schedule_changes_the_count_without_compiling_again() -> None:
    def count(state: Array, batch: Array, key: Key) -> tuple[Array, Array]:
        return state + 1, state

    learn = smrl.reuse(count, times="10:3,2:5,1")
    steps = [int(learn(jnp.zeros((), int), jnp.zeros(()), jax.random.key(0), step)[0]) for step in range(1, 8)]
    assert steps == [10, 10, 10, 2, 2, 1, 1]
    assert learn._cache_size() == 1  # type: ignore[attr-defined]


def test_schedules_read_as_written() -> None:
    assert Schedule.of("10:300000,1") == Schedule((10, 1), (300_000,))
    assert str(Schedule.of("10:300000,5:400000,1")) == "10:300000,5:400000,1"
    assert Schedule.of(7) == Schedule.of("7") == Schedule((7,))


def test_a_schedule_of_environment_steps_counts_the_warm_up() -> None:
    schedule = Schedule.of("10:3,5:20,1")
    for warmup, every in ((0, 1), (2, 1), (5, 1), (4, 3), (30, 2)):
        learning = schedule.in_learning_steps(warmup, every)
        for count in range(1, 30):
            env_step = warmup + (count - 1) * every + 1
            assert learning.at(count) == schedule.at(env_step)


@pytest.mark.parametrize(
    "text", ["0", "-1", "ten", "10:", "10:5", "10:5,", "10:5:6,1", "10:5,2:5,1", "10:9,2:5,1", "1.5"]
)
def test_bad_schedules_get_a_sentence(text: str) -> None:
    with pytest.raises(SmrlError, match="reuse"):
        Schedule.of(text)
