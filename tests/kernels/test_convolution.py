"""All implementations of a convolution agree, and so do their gradients."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from smrl.kernels import library
from smrl.kernels.convolution import (
    convolutions_by_kernels,
    convolutions_by_xla,
    convolve_by_xla,
    convolve_folded,
    fold,
)
from smrl.machine import THREADS
from smrl.nn.vision import side_after

needs_kernels = pytest.mark.usefixtures("kernels")
SHAPES = [  # batch, height, width, channels; filters, kernel and stride of every layer
    ((1, 9, 8, 1), (1, 1, 1)),
    ((2, 9, 8, 3), (5, 2, 1)),
    ((5, 11, 12, 4), (16, 3, 2), (5, 2, 1)),
    ((1, 10, 13, 9), (32, 3, 2), (48, 1, 1), (9, 1, 2)),
    ((2, 13, 9, 32), (48, 4, 2)),
    ((5, 8, 8, 4), (64, 8, 4), (3, 1, 1)),
    ((3, 21, 22, 4), (32, 8, 4), (64, 3, 1)),
    ((2, 7, 7, 3), (5, 2, 3), (1, 2, 3)),  # the second stride skips pixels
    ((2, 9, 11, 17), (9, 3, 4), (33, 1, 1)),
    ((13, 41, 41, 9), (32, 3, 2), (32, 3, 1), (32, 3, 1)),  # as in DrQ-v2
    ((7, 36, 36, 4), (32, 8, 4), (64, 4, 2), (64, 2, 1)),  # as in DQN
    ((8, 45, 43, 9), (32, 7, 2), (32, 5, 2), (32, 3, 2)),  # as in SAC
]


def network(images: tuple[int, ...], *layers: tuple[int, int, int]) -> tuple[Any, Any, tuple[int, ...], Any]:
    """Return images, layers, strides and a gradient of the outputs."""
    draw = np.random.default_rng(sum(images))
    filters, kernels, strides = zip(*layers, strict=True)

    def normal(*shape: int) -> Any:
        return jnp.asarray(draw.standard_normal(shape), jnp.float32)

    parts = [
        (normal(kernel, kernel, channels, count) / (kernel**2 * channels) ** 0.5, normal(count))
        for channels, count, kernel in zip((images[-1], *filters), filters, kernels, strict=False)
    ]
    sides = (side_after(side, kernels, strides) for side in images[1:3])
    return normal(*images), parts, strides, normal(images[0], *sides, filters[-1])


@needs_kernels
@pytest.mark.parametrize("shape", SHAPES)
def test_outputs_and_gradients_match_xla(shape: Any) -> None:
    x, layers, strides, slope = network(*shape)

    @partial(jax.jit, static_argnums=0)
    def outputs_and_gradients(form: Any, x: Any, layers: Any, slope: Any) -> list[Any]:
        y, back = jax.vjp(lambda x, layers: form(x, layers, strides), x, layers)
        return jax.tree.leaves((y, back(slope)))

    ours, theirs = (
        outputs_and_gradients(form, x, layers, slope) for form in (convolutions_by_kernels, convolutions_by_xla)
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * max(1, float(jnp.abs(other).max())))


@needs_kernels
def test_kernels_without_relu() -> None:
    x, [(weights, bias)], _, slope = network((3, 12, 11, 5), (20, 3, 2))
    y, back = jax.vjp(lambda x: convolve_by_xla(x, weights, 2) + bias, x)
    like_y, like_x = library.like(y, x)
    ours = library.call("smrl_conv", like_y, x, weights, bias, stride=2, relu=False)
    np.testing.assert_allclose(ours, y, rtol=1e-4, atol=1e-5)
    gradient = library.call("smrl_conv_input_gradient", like_x, slope, weights, x, stride=2, relu=False)
    (theirs,) = back(slope)
    np.testing.assert_allclose(gradient, theirs, rtol=1e-4, atol=1e-5)


BITS = """
import sys
sys.path.insert(0, sys.argv[1])
import jax, hashlib
from smrl.kernels import library
from smrl.kernels.convolution import convolutions_by_kernels
from test_convolution import SHAPES, network
assert library.is_available()
for shape in SHAPES[-3:]:
    x, layers, strides, slope = network(*shape)
    y, back = jax.vjp(lambda x, layers: convolutions_by_kernels(x, layers, strides), x, layers)
    print(*(hashlib.sha256(array.tobytes()).hexdigest() for array in jax.tree.leaves((y, back(slope)))))
"""


@needs_kernels
@pytest.mark.slow
def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    def bits(threads: int) -> str:
        command = [sys.executable, "-c", BITS, str(Path(__file__).parent)]
        environment = {**os.environ, THREADS: str(threads)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert bits(1) == bits(2) != ""


@partial(jax.jit, static_argnums=(0, 1))
def with_gradients(form: Any, stride: int, x: Any, weights: Any, slope: Any) -> list[Any]:
    """Return the output and the gradients of images and weights in the direction ``slope``."""
    y, back = jax.vjp(lambda x, weights: form(x, weights, stride), x, weights)
    return [y, *back(slope)]


@settings(max_examples=10, deadline=None, phases=[Phase.generate])  # shrinking would compile every attempt
@given(st.data())
def test_folded_convolution_matches_xla(data: st.DataObject) -> None:
    """Images need not be square, and the kernel may not reach their last pixels."""
    kernel, stride = data.draw(st.integers(1, 5), "kernel"), data.draw(st.integers(1, 4), "stride")
    height, width = (data.draw(st.integers(kernel, 12), name) for name in ("height", "width"))
    batch, channels = data.draw(st.integers(1, 3), "batch"), data.draw(st.integers(1, 3), "channels")
    filters = data.draw(st.sampled_from([1, 2, 17]), "filters")  # XLA has other kernels above 16
    rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    x, weights = rng.normal(size=(batch, height, width, channels)), rng.normal(size=(kernel, kernel, channels, filters))
    slope = rng.normal(size=(batch, *((side - kernel) // stride + 1 for side in (height, width)), filters))
    with jax.enable_x64(True):
        ours, theirs = (with_gradients(form, stride, x, weights, slope) for form in (convolve_folded, convolve_by_xla))
    assert ours[0].dtype == np.float64
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("side", "channels", "kernel", "stride"), [(20, 4, 8, 4), (13, 9, 3, 2), (11, 32, 3, 1)])
def test_folded_convolution_matches_xla_in_a_compiled_loop(side: int, channels: int, kernel: int, stride: int) -> None:
    """Compare in float32 and with the encoders' kernels, as in the reuse loop."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(4, side, side, channels)), jnp.float32)
    weights = jnp.asarray(rng.normal(size=(kernel, kernel, channels, 32)) / kernel, jnp.float32)

    def apply_gradient(form: Any) -> Any:
        def step(_: Any, weights: Any) -> Any:
            return weights - 1e-3 * jax.grad(lambda weights: (form(x, weights, stride) ** 2).mean())(weights)

        return jax.jit(lambda weights: jax.lax.fori_loop(0, 3, step, weights))(weights)

    np.testing.assert_allclose(apply_gradient(convolve_folded), apply_gradient(convolve_by_xla), rtol=1e-4, atol=1e-5)


def test_first_folded_convolution_computes_no_gradient_of_its_images() -> None:
    """Images are data, so that one of the three convolutions is left out."""
    x, weights = jnp.ones((2, 9, 9, 32)), jnp.ones((3, 3, 32, 32))

    def loss(x: Any, weights: Any) -> Any:
        return (convolve_folded(x, weights, 1) ** 2).sum()

    def convolutions(wanted: Any) -> int:
        text = jax.jit(jax.grad(loss, wanted)).lower(x, weights).compile().as_text() or ""
        return text.count(" convolution(")

    assert (convolutions((0, 1)), convolutions(1)) == (3, 2)


@needs_kernels
def test_first_layer_calls_no_kernel_for_the_gradient_of_its_images() -> None:
    x, layers, strides, _ = network((2, 12, 12, 4), (8, 3, 1), (8, 3, 1))

    def loss(x: Any, layers: Any) -> Any:
        return convolutions_by_kernels(x, layers, strides).sum()

    def calls(wanted: Any) -> int:
        text = jax.jit(jax.grad(loss, wanted)).lower(x, layers).compile().as_text() or ""
        return text.count('custom_call_target="smrl_conv_input_gradient"')

    assert (calls((0, 1)), calls(1)) == (2, 1)


def test_convolutions_are_folded_on_a_cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weights, bias = jnp.ones((1, 4, 4, 1)), jnp.ones((3, 3, 1, 1)), jnp.ones(1)

    def is_folded() -> bool:
        return "convolve_folded" in str(jax.make_jaxpr(lambda x: convolutions_by_xla(x, [(weights, bias)], [1]))(x))

    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert is_folded()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not is_folded()


def test_fold_crops_and_pads() -> None:
    x = jnp.arange(1.0, 16.0).reshape(1, 3, 5, 1)
    np.testing.assert_array_equal(fold(x, 2, 2, 2)[0], [[[1, 2, 6, 7], [3, 4, 8, 9]], [[11, 12, 0, 0], [13, 14, 0, 0]]])
