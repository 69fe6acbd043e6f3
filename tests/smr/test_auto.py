"""The rule that chooses M by held-out rows, compared with the same rule in NumPy float64."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from specs import vectors

import smrl
from smrl.algorithms.ddpg import DDPG, ddpg
from smrl.errors import SmrlError
from smrl.settings import make_settings
from smrl.smr.auto import AutoState
from smrl.smr.loop import prober
from smrl.smr.rules import ProbingRule, rule_of
from smrl.types import Array, Key, Spec, Transition, UpdateContext


def reference(rule: smrl.Auto, measurements: list[dict[str, float]]) -> list[float]:
    """Return M after each measurement, by the equations."""
    times, gap, measured, largest, found = min(rule.start, rule.ceiling), 0.0, 0, -np.inf, []
    for one in measurements:
        before, largest = times, max(largest, one["return"])
        if one["held_out"] > 0:  # a loss that is not known is NaN
            g = 0.5 * np.log(one["held_out"] / one["trained"])
            measured += 1
            gap = g if measured == 1 else gap + rule.weight * (g - gap)
            if measured % 2 == 0:
                times = times * 1.3 if gap < rule.low else times / 1.3 if gap > rule.high else times
        if np.isfinite(largest) and one["q"] > largest + 0.2 * abs(largest) + max(one["bonus"], 0) / (1 - rule.gamma):
            times = before / 2
        times = min(max(times, 1), rule.ceiling)
        found.append(times)
    return found


def test_rule_follows_its_equations() -> None:
    draw, rule = np.random.default_rng(0), smrl.Auto(ceiling=12, gamma=0.9)
    measurements = [
        {
            "trained": draw.uniform(1, 2),
            "held_out": np.nan if draw.random() < 0.1 else draw.uniform(1, 2) * (0.8 if index < 60 else 5.0),
            "return": -np.inf if index < 5 else draw.normal(-20, 10),
            "q": draw.normal(-30, 15),
            "bonus": draw.normal(0, 1),
        }
        for index in range(120)
    ]
    compare, carry, found = jax.jit(rule.compare), jax.tree.map(jnp.asarray, rule.init()), []
    for one in measurements:
        report = {"q": one["q"], "alpha": 0.5, "entropy": 2 * one["bonus"]}
        reports = ({**report, "critic_loss": one[kind]} for kind in ("trained", "held_out"))
        carry = compare(carry, *jax.tree.map(jnp.float32, tuple(reports)), one["return"])
        found.append(float(carry.times))
        assert int(rule.times(carry, 1)) == int(np.floor(found[-1] + 0.5))
    expected = reference(rule, measurements)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    halved = np.isclose(np.divide(expected[1:], expected[:-1]), 0.5)
    assert halved.any(), "the guard acts"
    assert {1.0, 12.0} <= {round(times, 3) for times in expected}, "both ends are reached"


def random_batch(spec: Spec, size: int, seed: int) -> Transition:
    draw, example = np.random.default_rng(seed), spec.example(size)
    return Transition(*(draw.uniform(-0.9, 0.9, field.shape).astype(field.dtype) for field in example))


def test_the_gap_is_that_of_the_critic_losses() -> None:
    """The rule of a run measures the losses of one update on each batch, with the same key and networks."""
    spec = vectors(3, 2)
    algorithm = ddpg(DDPG(actor_hidden=(4,), critic_hidden=(4,)), spec)
    state, rule = algorithm.init(jax.random.key(0)), smrl.Auto()
    trained, held_out = random_batch(spec, 16, seed=1), random_batch(spec, 16, seed=2)
    key = jax.random.key(3)
    carry: AutoState = jax.jit(prober(algorithm, rule))(
        state, rule.init(), smrl.Probe(trained, held_out, np.inf), 250, 1_000, key
    )
    update_key, batch_key = jax.random.split(key)
    context = UpdateContext(jnp.int32(250), jnp.int32(0), 1, batch_key, jnp.int32(999))
    update = jax.jit(algorithm.update)
    losses = [update(state, batch, context, update_key)[1]["critic_loss"] for batch in (trained, held_out)]
    np.testing.assert_allclose(carry.gap, 0.5 * np.log(losses[1] / losses[0]), rtol=1e-5)
    assert int(carry.measured) == 1


def fit(weights: Array, batch: tuple[Array, Array], key: Key) -> tuple[Array, dict[str, Array]]:
    """Somebody's own update: least squares on features."""
    x, y = batch

    def loss(weights: Array) -> Array:
        return ((x @ weights - y) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.05 * gradient, {"critic_loss": value}


@pytest.mark.parametrize(("rows", "is_raised"), [(3_000, True), (40, False)])
def test_m_grows_where_the_update_generalises_and_falls_where_it_memorises(rows: int, is_raised: bool) -> None:
    """30 weights fitted to noisy targets memorise 40 rows, and cannot memorise 3,000."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(2 * rows, 30))
    y = x[:, 0] + draw.normal(size=2 * rows)
    trained, held_out = ((x[part], y[part]) for part in (slice(rows), slice(rows, None)))
    auto = smrl.Auto(every=10, start=5)
    learn, state = smrl.reuse(fit, times=auto), (jnp.zeros(30), auto.init())
    for step in range(1, 301):
        probe = smrl.Probe(trained, held_out) if auto.is_due(step) else None
        state, _ = learn(state, trained, jax.random.key(step), step, probe)
    assert float(state[1].times) == (20 if is_raised else 1)
    assert learn._cache_size() <= 3  # type: ignore[attr-defined]  # from NumPy's numbers, without and with a probe


def test_an_update_without_the_loss_is_refused() -> None:
    def update(state: Array, batch: Any, key: Key) -> Array:
        return state

    auto = smrl.Auto()
    learn = smrl.reuse(update, times=auto)
    with pytest.raises(SmrlError, match="the update reports no 'critic_loss'"):
        learn((jnp.zeros(()), auto.init()), jnp.zeros(2), jax.random.key(0), probe=smrl.Probe(1.0, 2.0))


def test_a_rule_that_does_not_measure_refuses_a_probe() -> None:
    with pytest.raises(SmrlError, match="reuse rule 3 does not measure"):
        smrl.reuse(fit, times=3)(jnp.zeros(2), None, jax.random.key(0), probe=smrl.Probe(1.0, 2.0))


def test_texts() -> None:
    assert rule_of("auto") == rule_of("auto:20") == smrl.Auto(20)
    assert isinstance(rule_of("auto:7"), ProbingRule)
    assert not isinstance(rule_of("7"), ProbingRule)
    assert make_settings("sac", "Pendulum-v1", reuse="auto").reuse == "auto:20"


@pytest.mark.parametrize("text", ["auto:0", "auto:-3", "auto:1.5", "auto:", "auto:99999999999"])
def test_bad_texts_are_refused_with_one_message(text: str) -> None:
    with pytest.raises(SmrlError, match=r"not a reuse rule|whole number from 1 to 1,000"):
        rule_of(text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reuse": "auto", "real_time": True}, "auto:20 needs held-out episodes, .* leave it out with --real-time"),
        ({"hold_out": True, "real_time": True}, "--hold-out needs held-out episodes"),
        ({"hold_out": True, "capacity": 10_000}, "raise --capacity above 10,000"),
        ({"reuse": "auto", "capacity": 5_000, "action_repeat": 2}, "raise --capacity above 5,000"),
    ],
)
def test_settings_that_cannot_hold_out_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SmrlError, match=message):
        make_settings("sac", "Pendulum-v1", **settings)
