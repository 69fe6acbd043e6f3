"""Networks by the C++ kernels compute what XLA computes, and what NumPy does in float64; so do their gradients."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smrl.kernels import mlp
from smrl.kernels.dense import LAYER_NORM_EPSILON, Form, Layers, has_norm, mlp_by_kernels, mlp_by_xla
from smrl.types import Array

pytestmark = pytest.mark.usefixtures("kernels")
Shape = tuple[int, ...]  # batch size, inputs, and the sizes of the layers
SHAPES: list[Shape] = [
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
NORMALISED: list[Shape] = [
    (256, 23, 256, 256, 256, 1),
    (7, 5, 3, 4, 2),
    (13, 300, 400, 17, 25),
    (50, 20, 700, 200, 1),
]
RESIDUAL: list[Shape] = [
    (256, 23, 128, 512, 128, 512, 128, 1),
    (7, 5, 3, 12, 3, 7, 3, 2),
    (13, 9, 17, 25),
    (50, 20, 180, 740, 180, 741, 180, 1),
    (50, 20, 300, 1000, 300, 25),
]
CASES: list[tuple[Form, Shape]] = [
    *(("plain", sizes) for sizes in SHAPES),
    *(("normalised", sizes) for sizes in NORMALISED),
    *(("residual", sizes) for sizes in RESIDUAL),
]
SMALL: list[tuple[Form, Shape]] = [
    ("plain", (13, 9, 17, 5, 3)),
    ("normalised", (13, 9, 17, 33, 3)),
    ("normalised", (1, 9, 8, 1)),
    ("residual", (13, 9, 17, 35, 17, 35, 17, 3)),
    ("residual", (1, 3, 5, 8, 5, 1)),
]
MEMBERS = 3

every_form = pytest.mark.parametrize(("form", "sizes"), CASES)


def network(form: Form, *sizes: int, members: int = MEMBERS) -> tuple[Array, list[Layers], Array]:
    """Return inputs, the layers of all members and a gradient of the outputs, for a batch size and layer sizes."""
    draw = np.random.default_rng(sum(sizes))
    batch, *widths = sizes

    def normal(*shape: int, mean: float = 0, deviation: float = 1) -> Array:
        return jnp.asarray(draw.normal(mean, deviation, shape), jnp.float32)

    def layer(index: int, inputs: int, outputs: int) -> Any:
        dense = normal(inputs, outputs, deviation=inputs**-0.5), normal(outputs)
        return (*dense, normal(inputs, mean=1, deviation=0.5), normal(inputs)) if has_norm(form, index) else dense

    layers: list[Layers] = [
        [layer(index, *pair) for index, pair in enumerate(itertools.pairwise(widths))] for _ in range(members)
    ]
    return normal(batch, widths[0]), layers, normal(members, batch, widths[-1])


def assert_near(ours: Array, theirs: Array) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * max(1, float(jnp.abs(theirs).max())))


@every_form
def test_outputs_and_gradients_match_xla(form: Form, sizes: Shape) -> None:
    x, members, gradient = network(form, *sizes)

    @partial(jax.jit, static_argnums=0)
    def outputs_and_gradients(by: Any, x: Array, members: list[Layers]) -> tuple[Array, Array, Any]:
        y, pull_back = jax.vjp(lambda x, members: by(x, members, form), x, members)
        return by(x, members, form), y, pull_back(gradient)

    by_kernels, by_xla = (outputs_and_gradients(by, x, members) for by in (mlp_by_kernels, mlp_by_xla))
    for ours, theirs in zip(jax.tree.leaves(by_kernels), jax.tree.leaves(by_xla), strict=True):
        assert_near(ours, theirs)


def numpy_pass(form: Form, layers: Any, x: Any, slope: Any) -> list[Any]:
    """Return the outputs, the gradient of x and those of all parameters, in float64 and by hand."""
    s, tape, streams = x, [], []
    for index, (weights, bias, *norm) in enumerate(layers):
        streams.append(s)
        z, normed, factor = s, s, s
        if norm:
            factor = 1 / np.sqrt(s.var(1, keepdims=True) + LAYER_NORM_EPSILON)
            normed = (s - s.mean(1, keepdims=True)) * factor
            z = normed * norm[0] + norm[1]
        has_relu = index > 0 and (form != "residual" or index % 2 == 0)
        kinks = np.abs(z) if has_relu else np.ones(1)
        assert kinks.min() > 1e-5, "float32 may see the other side of the kink"
        z = np.maximum(z, 0) if has_relu else z
        s = z @ weights + bias
        if form == "residual" and has_relu:
            s = s + streams[index - 1]
        tape.append((z, normed, factor, has_relu))
    found: list[Any] = []
    later = np.zeros(())  # what a block passes by, on its way to the block's first layer
    y = s
    for index in reversed(range(len(layers))):
        weights, _, *norm = layers[index]
        z, normed, factor, has_relu = tape[index]
        gradients = [z.T @ slope, slope.sum(0)]
        passed = slope
        slope = slope @ weights.T * (z > 0 if has_relu else 1)
        if norm:
            gradients += [(slope * normed).sum(0), slope.sum(0)]
            g = slope * norm[0]
            slope = (g - g.mean(1, keepdims=True) - normed * (g * normed).mean(1, keepdims=True)) * factor + later
            later = np.zeros(())
        if form == "residual" and has_relu:
            later = passed
        found = [*gradients, *found]
    return [y, slope, *found]


@pytest.mark.parametrize("by", [mlp_by_kernels, mlp_by_xla])
@pytest.mark.parametrize(("form", "sizes"), SMALL)
def test_outputs_and_gradients_match_float64(by: Callable[..., Array], form: Form, sizes: Shape) -> None:
    x, members, gradient = network(form, *sizes)

    @jax.jit
    def outputs_and_gradients(x: Array, members: list[Layers]) -> tuple[Array, Any]:
        y, pull_back = jax.vjp(lambda x, members: by(x, members, form), x, members)
        return y, pull_back(gradient)

    y, (by_x, by_parameters) = outputs_and_gradients(x, members)
    as_doubles = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), (x, members, gradient))
    x_gradient = np.zeros(x.shape)
    for member, layers, slope, outputs, ours in zip(
        range(MEMBERS), as_doubles[1], as_doubles[2], y, by_parameters, strict=True
    ):
        wanted = numpy_pass(form, layers, as_doubles[0], slope)
        x_gradient += wanted[1]
        found = [outputs, *jax.tree.leaves(ours)]
        for mine, reference in zip(found, [wanted[0], *wanted[2:]], strict=True):
            np.testing.assert_allclose(mine, reference, rtol=1e-4, atol=2e-5, err_msg=f"member {member}")
    np.testing.assert_allclose(by_x, x_gradient, rtol=1e-4, atol=2e-5)


@every_form
def test_gradients_of_inputs_or_of_weights_alone(form: Form, sizes: Shape) -> None:
    """Compare with the gradients of both together, also where most rows have no gradient."""
    x, members, gradient = network(form, *sizes)
    draw = np.random.default_rng(0)
    gradient = jnp.where(draw.random(gradient.shape[:2])[..., None] < 0.6, 0, gradient)

    @jax.jit
    def gradients(x: Array, members: list[Layers]) -> tuple[Any, Any]:
        both = jax.vjp(lambda x, members: mlp_by_xla(x, members, form), x, members)[1](gradient)
        (inputs,) = jax.vjp(lambda x: mlp_by_kernels(x, members, form), x)[1](gradient)
        (weights,) = jax.vjp(lambda members: mlp_by_kernels(x, members, form), members)[1](gradient)
        return both, (inputs, weights)

    both, (inputs, weights) = gradients(x, members)
    for ours, theirs in zip(jax.tree.leaves((inputs, weights)), jax.tree.leaves(both), strict=True):
        assert_near(ours, theirs)


@pytest.mark.parametrize(
    ("form", "sizes"),
    [
        ("plain", (40, 23, 256, 256, 1)),
        ("plain", (40, 3, 1000, 300, 2)),
        ("normalised", (40, 23, 64, 64, 1)),
        ("normalised", (40, 3, 1000, 300, 2)),
        ("residual", (40, 23, 64, 256, 64, 1)),
        ("residual", (40, 23, 200, 800, 200, 3)),
    ],
)
def test_chosen_members(form: Form, sizes: Shape) -> None:
    x, members, _ = network(form, *sizes, members=5)
    every = mlp(x, members, form=form)
    np.testing.assert_array_equal(mlp(x, members, jnp.array([3, 0]), form), every[np.array([3, 0])])


@pytest.mark.parametrize(
    ("form", "sizes"),
    [
        ("plain", (40, 23, 256, 256, 1)),
        ("plain", (40, 3, 1000, 300, 2)),
        ("plain", (40, 5, 2)),
        ("normalised", (40, 23, 61, 64, 1)),
        ("residual", (40, 23, 61, 244, 61, 1)),
    ],
)
def test_nan_propagates(form: Form, sizes: Shape) -> None:
    """Losses show that a run has diverged, so that ReLU must not turn NaN into zero."""
    x, members, _ = network(form, *sizes)
    y = mlp_by_kernels(x.at[1, 0].set(jnp.nan), members, form)
    assert np.isnan(y[:, 1]).all()
    assert np.isfinite(np.delete(np.asarray(y), 1, axis=1)).all()


def test_normalisation_of_rows_far_from_zero() -> None:
    """The variance is computed around the mean: E x² − (E x)² would lose all digits of it."""
    form: Form = "normalised"
    x, ((first, second), *_), _ = network(form, 40, 7, 100, 5)
    far = first[0], first[1] + 3e4
    layers = [[tuple(np.asarray(array, np.float64) for array in layer) for layer in (far, second)]]
    wanted = mlp_by_numpy(np.asarray(x, np.float64), layers[0])
    np.testing.assert_allclose(mlp_by_kernels(x, [[far, second]], form)[0], wanted, atol=2e-2)


def mlp_by_numpy(x: Any, layers: Any) -> Any:
    (weights, bias), (last, last_bias, scale, shift) = layers
    s = x @ weights + bias
    normed = (s - s.mean(1, keepdims=True)) / np.sqrt(s.var(1, keepdims=True) + LAYER_NORM_EPSILON)
    return np.maximum(normed * scale + shift, 0) @ last + last_bias


@pytest.mark.parametrize(
    ("form", "layers", "reason"),
    [
        ("residual", (8, 3, 4, 2, 5), "residual blocks have two layers each"),
        ("residual", (8, 3, 4, 2, 5, 6), "the width of a block changes"),
    ],
)
def test_networks_that_are_none_are_refused(form: Form, layers: Shape, reason: str) -> None:
    x, members, _ = network(form, *layers)
    with pytest.raises(jax.errors.JaxRuntimeError, match=reason):
        jax.block_until_ready(mlp_by_kernels(x, members, form))


def test_vmap() -> None:
    x, members, _ = network("plain", 8, 3, 16, 2)
    several = jnp.stack([x, 2 * x])
    one_by_one = jnp.stack([mlp_by_kernels(each, members) for each in several])
    np.testing.assert_array_equal(jax.vmap(lambda each: mlp_by_kernels(each, members))(several), one_by_one)
