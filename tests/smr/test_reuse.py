"""The reuse loop around other people's updates, and the rules that choose M."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import smrl
from smrl.errors import SmrlError
from smrl.smr.rules import Rule, Schedule, rule_of
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


def count(state: Array, batch: Array, key: Key) -> tuple[Array, Array]:
    return state + 1, state


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


@pytest.mark.parametrize(
    "update",
    [
        lambda state, batch, key: sgd(state, batch, key)[0],
        lambda state, batch, key: (sgd(state, batch, key)[0], None),
        lambda state, batch, key: (sgd(state, batch, key)[0], {}),
    ],
    ids=["the state alone", "None", "an empty dictionary"],
)
def test_an_update_may_report_nothing(update: Any) -> None:
    batch, key = data(), jax.random.key(3)
    state, report = smrl.reuse(update, times=3)(zeros(), batch, key)
    expected, _ = smrl.reuse(sgd, times=3)(zeros(), batch, key)
    jax.tree.map(np.testing.assert_array_equal, state, expected)
    assert not jax.tree.leaves(report)


def test_a_state_that_is_a_pair_is_not_taken_for_a_state_and_a_report() -> None:
    def update(state: tuple[Array, Array], batch: Array, key: Key) -> tuple[Array, Array]:
        return state[0] + batch, state[1] + 2 * batch

    state, report = smrl.reuse(update, times=3)((jnp.float32(0), jnp.float32(0)), jnp.float32(1), jax.random.key(0))
    assert (float(state[0]), float(state[1]), report) == (3, 6, None)


def test_a_schedule_changes_the_count_without_compiling_again() -> None:
    learn = smrl.reuse(count, times="10:3,2:5,1")
    steps = [int(learn(jnp.zeros((), int), jnp.zeros(()), jax.random.key(0), step)[0]) for step in range(1, 8)]
    assert steps == [10, 10, 10, 2, 2, 1, 1]
    assert learn._cache_size() == 1  # type: ignore[attr-defined]


def test_a_schedule_needs_the_step() -> None:
    learn = smrl.reuse(count, times="10:3,1")
    with pytest.raises(SmrlError, match=r"10:3,1 depends on the step; call learn\(state, batch, key, step\)"):
        learn(jnp.zeros((), int), jnp.zeros(()), jax.random.key(0))


class Halving(NamedTuple):
    """A rule with a carry: half as often after every call, at least once; the carry follows the report."""

    def init(self) -> Any:
        return {"times": jnp.int32(8), "seen": jnp.float32(0)}

    def times(self, carry: Any, step: Array) -> Array:
        times: Array = carry["times"]
        return times

    def observe(self, carry: Any, report: Any) -> Any:
        return {"times": jnp.maximum(carry["times"] // 2, 1), "seen": carry["seen"] + report}


def test_a_rule_of_ones_own_keeps_its_carry_in_the_state() -> None:
    rule = Halving()
    learn, state = smrl.reuse(count, rule), (jnp.zeros((), int), rule.init())
    made = []
    for step in range(1, 6):
        before = int(state[0])
        state, _ = learn(state, jnp.zeros(()), jax.random.key(0), step)
        made.append(int(state[0]) - before)
    assert made == [8, 4, 2, 1, 1]
    assert float(state[1]["seen"]) == 3.5 + 9.5 + 12.5 + 14 + 15, "the mean of each call's reports"


def test_rules_are_told_apart() -> None:
    assert isinstance(rule_of("10"), Schedule)
    assert isinstance(Halving(), Rule)
    assert rule_of(halving := Halving()) is halving
    assert rule_of("test_reuse:Halving") == Halving()


def test_schedules_read_as_written() -> None:
    assert rule_of("10:300000,1") == Schedule((10, 1), (300_000,))
    assert str(rule_of("10:300000,5:400000,1")) == "10:300000,5:400000,1"
    assert rule_of(7) == rule_of("7") == Schedule((7,))
    values = [rule_of("10:3,2:5,7").times((), step) for step in range(1, 8)]
    assert values == [10, 10, 10, 2, 2, 7, 7]


@pytest.mark.parametrize(
    "text",
    ["0", "-1", "ten", "10:", "10:5", "10:5,", "10:5:6,1", "10:5,2:5,1", "10:9,2:5,1", "1.5", "", 1.5, None, True],
)
def test_bad_rules_get_a_sentence(text: Any) -> None:
    with pytest.raises(SmrlError, match="reuse"):
        rule_of(text)


def test_a_rule_that_is_not_there_gets_a_sentence() -> None:
    with pytest.raises(SmrlError, match="no_such_module"):
        rule_of("no_such_module:rule")
