"""Perceptrons by the C++ kernels compute what XLA computes, and so do their gradients."""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smrl.kernels import mlp
from smrl.kernels.dense import Layers, mlp_by_kernels, mlp_by_xla
from smrl.types import Array

pytestmark = pytest.mark.usefixtures("kernels")
SHAPES = [
    (256, 23, 256, 256, 1),
    (256, 17, 256, 256, 12),
    (32, 4, 64, 2),
    (7, 5, 3, 1, 2),
    (1, 11, 256, 256, 6),
    (13, 300, 400, 17, 25),
    (5, 1, 1, 1),
    (64, 1000, 50),
    (3, 513, 9),
    (600, 40, 300, 16, 48),
    (50, 20, 700, 200, 1),
]
MEMBERS = 3


def network(*sizes: int, members: int = MEMBERS) -> tuple[Array, list[Layers], Array]:
    """Return inputs, the layers of all members and a gradient of the outputs, for a batch size and layer sizes."""
    draw = np.random.default_rng(sum(sizes))
    batch, *widths = sizes

    def normal(*shape: int) -> Array:
        return jnp.asarray(draw.standard_normal(shape), jnp.float32)

    layers: list[Layers] = [
        [(normal(*pair) / pair[0] ** 0.5, normal(pair[1])) for pair in itertools.pairwise(widths)]
        for _ in range(members)
    ]
    return normal(batch, widths[0]), layers, normal(members, batch, widths[-1])


def assert_near(ours: Array, theirs: Array) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * max(1, float(jnp.abs(theirs).max())))


@pytest.mark.parametrize("sizes", SHAPES)
def test_outputs_and_gradients_match_xla(sizes: tuple[int, ...]) -> None:
    x, members, gradient = network(*sizes)

    def outputs_and_gradients(form: Callable[[Array, list[Layers]], Array]) -> list[Array]:
        y, pull_back = jax.vjp(form, x, members)
        return jax.tree.leaves((form(x, members), y, pull_back(gradient)))

    by_kernels, by_xla = outputs_and_gradients(mlp_by_kernels), outputs_and_gradients(mlp_by_xla)
    for ours, theirs in zip(by_kernels, by_xla, strict=True):
        assert_near(ours, theirs)


@pytest.mark.parametrize("sizes", SHAPES)
def test_gradients_of_inputs_or_of_weights_alone(sizes: tuple[int, ...]) -> None:
    """Compare with the gradients of both together, also where most rows have no gradient."""
    x, members, gradient = network(*sizes)
    draw = np.random.default_rng(0)
    gradient = jnp.where(draw.random(gradient.shape[:2])[..., None] < 0.6, 0, gradient)
    both = jax.vjp(mlp_by_xla, x, members)[1](gradient)
    (inputs,) = jax.vjp(lambda x: mlp_by_kernels(x, members), x)[1](gradient)
    (weights,) = jax.vjp(lambda members: mlp_by_kernels(x, members), members)[1](gradient)
    for ours, theirs in zip(jax.tree.leaves((inputs, weights)), jax.tree.leaves(both), strict=True):
        assert_near(ours, theirs)


@pytest.mark.parametrize("sizes", [(40, 23, 256, 256, 1), (40, 3, 1000, 300, 2)])
def test_chosen_members(sizes: tuple[int, ...]) -> None:
    x, members, _ = network(*sizes, members=5)
    every = mlp(x, members)
    np.testing.assert_array_equal(mlp(x, members, jnp.array([3, 0])), every[np.array([3, 0])])


@pytest.mark.parametrize("sizes", [(40, 23, 256, 256, 1), (40, 3, 1000, 300, 2), (40, 5, 2)])
def test_relu_propagates_nan(sizes: tuple[int, ...]) -> None:
    """Losses show that a run has diverged, so that ReLU must not turn NaN into zero."""
    x, members, _ = network(*sizes)
    y = mlp_by_kernels(x.at[1, 0].set(jnp.nan), members)
    assert np.isnan(y[:, 1]).all()
    assert np.isfinite(np.delete(np.asarray(y), 1, axis=1)).all()


def test_vmap() -> None:
    x, members, _ = network(8, 3, 16, 2)
    several = jnp.stack([x, 2 * x])
    one_by_one = jnp.stack([mlp_by_kernels(each, members) for each in several])
    np.testing.assert_array_equal(jax.vmap(lambda each: mlp_by_kernels(each, members))(several), one_by_one)
