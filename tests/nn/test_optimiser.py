"""Adam in float32 against float64, and the limits on gradients and weights."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
import pytest

from smrl.nn.optimiser import Adam, polyak_update

Floats = npt.NDArray[np.float64]


def in_float64(
    values: Floats,
    slopes: Floats,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    alter: Callable[[Floats, Floats], Floats] = lambda gradient, _: gradient,
) -> Floats:
    """θ after one step of Adam with rate 1e-3 for each row of gradients, changed by ``alter(gradient, θ)``."""
    m, v = np.zeros_like(values), np.zeros_like(values)
    for count, row in enumerate(slopes, start=1):
        gradient = alter(row, values)
        m, v = betas[0] * m + (1 - betas[0]) * gradient, betas[1] * v + (1 - betas[1]) * gradient**2
        m_hat, v_hat = m / (1 - betas[0] ** count), v / (1 - betas[1] ** count)
        values = values - 1e-3 * m_hat / (np.sqrt(v_hat) + epsilon)
    return values


def in_float32(optimiser: Adam, values: Floats, slopes: Floats) -> Floats:
    trained, step = optimiser.start(jnp.asarray(values, jnp.float32)), jax.jit(optimiser.step)
    for row in slopes:
        trained = step(trained, jnp.asarray(row, jnp.float32))
    return np.asarray(trained.params, np.float64)


VALUES = np.linspace(-1, 1, 200)
SLOPES = np.random.default_rng(0).normal(size=(60, 200))


def test_sixty_steps_of_adam_are_exact_to_a_millionth() -> None:
    """optax's own, whose 1 − 0.999ⁿ is off by 1.3e-5, is not."""
    expected = in_float64(VALUES, SLOPES)
    moved = np.abs(expected - VALUES).max()
    assert np.abs(in_float32(Adam(1e-3), VALUES, SLOPES) - expected).max() < 1e-6
    first = in_float64(VALUES * 0, SLOPES[:1])
    ours = in_float32(Adam(1e-3), VALUES * 0, SLOPES[:1])
    theirs = optax.adam(1e-3).update(slope := jnp.asarray(SLOPES[0], jnp.float32), optax.adam(1e-3).init(slope))[0]
    assert np.abs(ours / first - 1).max() < 5e-7
    assert np.abs(np.asarray(theirs) / first - 1).max() > 3e-6
    assert moved > 1e-3


def test_other_betas_and_epsilon() -> None:
    expected = in_float64(VALUES, SLOPES, (0.0, 0.9), 0.1)
    actual = in_float32(Adam(1e-3, 0.0, 0.9, 0.1), VALUES, SLOPES)
    np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_weight_decay_is_added_to_the_gradient() -> None:
    expected = in_float64(VALUES, SLOPES, alter=lambda gradient, values: gradient + 0.7 * values)
    np.testing.assert_allclose(in_float32(Adam(1e-3, weight_decay=0.7), VALUES, SLOPES), expected, atol=1e-6)


@pytest.mark.parametrize("limit", [0.5, 1e3])
def test_clipping_bounds_the_norm_before_the_decay(limit: float) -> None:
    """The gradients have a norm of about 14."""

    def alter(gradient: Floats, values: Floats) -> Floats:
        norm = float(np.linalg.norm(gradient))
        return np.asarray(gradient * min(1.0, limit / norm) + 0.01 * values)

    slopes = SLOPES * np.linspace(1, 5, 60)[:, None]  # so that bounded gradients differ from scaled ones
    expected = in_float64(VALUES, slopes, alter=alter)
    rule = Adam(1e-3, weight_decay=0.01, gradient_clip=limit)
    np.testing.assert_allclose(in_float32(rule, VALUES, slopes), expected, atol=1e-6)


RATES = [np.float32(0.01), np.float64(0.01), 1, np.int64(1), np.float32(1)]


@pytest.mark.parametrize("rate", RATES, ids=lambda rate: f"{type(rate).__name__} {rate:g}")
@pytest.mark.parametrize("x64", [False, True])
def test_numbers_of_any_type(rate: Any, x64: bool) -> None:
    """The kernel reads its numbers as float64; of another type, their bits would be another number."""
    plain = in_float32(Adam(float(rate), 0.0, 0.9, 1.0, 0.5, 3.0), VALUES, SLOPES[:5])
    with jax.enable_x64(x64):
        numbers: list[Any] = [rate, np.int64(0), np.float64(0.9), np.int32(1), np.float64(0.5), np.float64(3.0)]
        typed = Adam(*numbers)
        np.testing.assert_array_equal(in_float32(typed, VALUES, SLOPES[:5]), plain)


def test_float32_stays_float32_with_64_bit_types_enabled() -> None:
    with jax.enable_x64(True):
        trained = Adam(1e-3).start(jnp.asarray(VALUES, jnp.float32))
        trained = Adam(1e-3).step(trained, jnp.asarray(SLOPES[0], jnp.float32))
        kinds = {leaf.dtype.name for leaf in jax.tree.leaves(trained)}
        target = polyak_update(trained.params, trained.params, np.float64(0.5))
    assert kinds == {"float32", "int32"}
    assert target.dtype == np.float32


def test_float64_is_computed_in_float64() -> None:
    with jax.enable_x64(True):
        trained = Adam(1e-3).start({"wide": jnp.asarray(VALUES), "narrow": jnp.asarray(VALUES, jnp.float32)})
        for row in SLOPES[:5]:
            gradient = {"wide": jnp.asarray(row), "narrow": jnp.asarray(row, jnp.float32)}
            trained = jax.jit(Adam(1e-3).step)(trained, gradient)
    expected = in_float64(VALUES, SLOPES[:5])
    np.testing.assert_allclose(trained.params["wide"], expected, rtol=1e-12)
    np.testing.assert_allclose(trained.params["narrow"], expected, rtol=1e-5)
    assert trained.params["narrow"].dtype == np.float32


def test_empty_arrays_stay_empty() -> None:
    trained = Adam(1e-3).start({"none": jnp.zeros((0, 3)), "some": jnp.zeros(2)})
    trained = Adam(1e-3).step(trained, {"none": jnp.zeros((0, 3)), "some": jnp.ones(2)})
    assert trained.params["none"].shape == (0, 3)
    np.testing.assert_allclose(trained.params["some"], -1e-3, rtol=1e-5)
