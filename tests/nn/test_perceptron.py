import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smrl.native import library
from smrl.nn.perceptron import Layers, perceptron_by_kernels, perceptron_by_xla
from smrl.types import Array

needs_kernels = pytest.mark.skipif(not library.is_available(), reason="there is no C++ compiler, or no CPU")
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
]


def network(*sizes: int) -> tuple[Array, Layers, Array]:
    """Inputs, layers and the gradient of the outputs, for a batch size and sizes of layers."""
    draw = np.random.default_rng(sum(sizes))
    batch, *widths = sizes

    def normal(*shape: int) -> Array:
        return jnp.asarray(draw.standard_normal(shape), jnp.float32)

    layers = [(normal(*pair) / pair[0] ** 0.5, normal(pair[1])) for pair in itertools.pairwise(widths)]
    return normal(batch, widths[0]), layers, normal(batch, widths[-1])


@needs_kernels
@pytest.mark.parametrize("sizes", SHAPES)
def test_kernels_compute_what_xla_computes(sizes: tuple[int, ...]) -> None:
    x, layers, gradient = network(*sizes)

    def outputs_and_gradients(form: Callable[[Array, Layers], Array]) -> list[Array]:
        y, pull_back = jax.vjp(form, x, layers)
        return jax.tree.leaves((y, pull_back(gradient)))

    by_kernels, by_xla = outputs_and_gradients(perceptron_by_kernels), outputs_and_gradients(perceptron_by_xla)
    for ours, theirs in zip(by_kernels, by_xla, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * max(1, float(jnp.abs(theirs).max())))


@needs_kernels
def test_kernels_also_run_under_vmap() -> None:
    x, layers, _ = network(8, 3, 16, 2)
    several = jnp.stack([x, 2 * x])
    one_by_one = jnp.stack([perceptron_by_kernels(each, layers) for each in several])
    np.testing.assert_array_equal(jax.vmap(lambda each: perceptron_by_kernels(each, layers))(several), one_by_one)
