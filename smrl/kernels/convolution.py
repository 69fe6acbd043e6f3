"""Convolutions of images without padding, with ReLU after each."""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp

from smrl.kernels import library
from smrl.kernels.dense import Layers, relu
from smrl.types import Array

Padding = tuple[tuple[int, int], tuple[int, int]]
NO_PADDING: Padding = ((0, 0), (0, 0))


def convolutions(x: Array, layers: Layers, strides: Sequence[int]) -> Array:
    """Apply layers of weights (kernel, kernel, channels, filters) and biases (filters,), with ReLU after each.

    (batch, height, width, channels) → (batch, rows, columns, filters of the last layer)
    """
    if library.supports(x, *jax.tree.leaves(layers)):
        return convolutions_by_kernels(x, layers, tuple(strides))
    return convolutions_by_xla(x, layers, strides)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolutions_by_kernels(x: Array, layers: Layers, strides: tuple[int, ...]) -> Array:
    """Apply all layers with the C++ kernels."""
    return _forward(x, layers, strides)[0]


def _forward(x: Array, layers: Layers, strides: tuple[int, ...]) -> tuple[Array, tuple[list[Array], Layers]]:
    """Return the outputs of the last layer and what the gradients need: x with all outputs, and the layers."""
    images = [x]
    for (weights, bias), stride in zip(layers, strides, strict=True):
        batch, *sides, _ = images[-1].shape
        shape = (batch, *((side - len(weights)) // stride + 1 for side in sides), len(bias))
        result = jax.ShapeDtypeStruct(shape, x.dtype)
        images.append(library.call("smrl_conv", result, images[-1], weights, bias, stride=stride, relu=True))
    return images[-1], (images, layers)


def _backward(
    strides: tuple[int, ...], kept: tuple[list[Array], Layers], gradient: Array
) -> tuple[Array, list[tuple[Array, Array]]]:
    """Return the gradients of x and of all layers.

    The kernel for ∂x also applies the ReLU mask of the layer below. XLA drops calls whose results are not used, such as
    the last one where x is data.
    """
    (*images, y), layers = kept
    gradient, gradients = jnp.where(y > 0, gradient, 0), list[tuple[Array, Array]]()
    for index in reversed(range(len(layers))):
        x, (weights, bias), stride = images[index], layers[index], strides[index]
        like_x, *like_layer = library.like(x, weights, bias)
        gradients.append(tuple(library.call("smrl_conv_weight_gradient", like_layer, x, gradient, stride=stride)))
        has_relu = index > 0
        gradient = library.call("smrl_conv_input_gradient", like_x, gradient, weights, x, stride=stride, relu=has_relu)
    return gradient, gradients[::-1]


convolutions_by_kernels.defvjp(_forward, _backward)


def convolutions_by_xla(x: Array, layers: Layers, strides: Sequence[int]) -> Array:
    """Apply all layers with XLA's convolutions."""
    convolve = convolve_folded if jax.default_backend() == "cpu" else convolve_by_xla
    for (weights, bias), stride in zip(layers, strides, strict=True):
        x = relu(convolve(x, weights, stride) + bias)
    return x


def convolve_by_xla(x: Array, weights: Array, stride: int, padding: Padding = NO_PADDING) -> Array:
    """Apply XLA's convolution, whose gradients JAX derives."""
    return jax.lax.conv_general_dilated(
        x, weights, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve_folded(x: Array, weights: Array, stride: int) -> Array:
    """Apply the same convolution, with gradients that are fast on a CPU without the kernels.

    XLA has several kernels for a convolution on a CPU, and its window decides which one runs. With the gradients that
    JAX derives, the slow ones run: forward and backward through the encoder take 4.1 times as long for DrQ-v2 (batch
    256), 3.5 times for SAC from images and 1.3 times for DQN (batch 32), on one core and with jax 0.10.
    """
    kernel, height = len(weights), x.shape[1]
    rows, unused = divmod(height - kernel, stride)
    # XLA's kernel for windows without padding can be four times slower, so that some is added below the image. Where
    # this adds a row of output, the row is dropped.
    below = stride - unused - 1 or 1
    return convolve_by_xla(x, weights, stride, ((0, below), (0, 0)))[:, : rows + 1]


def _folded_forward(x: Array, weights: Array, stride: int) -> tuple[Array, tuple[Array, Array]]:
    return convolve_folded(x, weights, stride), (x, weights)


def _folded_backward(stride: int, kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    """Return the gradients as convolutions of stride 1: folding turns any stride into that."""
    x, weights = kept
    _, rows, columns, _ = gradient.shape
    taps = -(-len(weights) // stride)
    images, unfold_images = jax.vjp(lambda x: fold(x, stride, rows + taps - 1, columns + taps - 1), x)
    folded, unfold_weights = jax.vjp(
        lambda weights: fold(weights.transpose(3, 0, 1, 2), stride, taps, taps).transpose(1, 2, 3, 0), weights
    )
    around = (taps - 1, taps - 1)
    mirrored = jnp.flip(folded, (0, 1)).swapaxes(2, 3)
    (x_gradient,) = unfold_images(convolve_by_xla(gradient, mirrored, 1, (around, around)))
    # The gradient of the weights is a convolution over the batch whose window is ∂y. Zeros below ∂y make the window
    # taller than the images. XLA then avoids its kernel for small windows, which is up to ten times slower here.
    window = jnp.pad(gradient.transpose(1, 2, 0, 3), ((0, taps), (0, 0), (0, 0), (0, 0)))
    sums = convolve_by_xla(images.transpose(3, 1, 2, 0), window, 1, ((0, taps), (0, 0)))
    (weight_gradient,) = unfold_weights(sums.transpose(1, 2, 0, 3))
    return x_gradient, weight_gradient


convolve_folded.defvjp(_folded_forward, _folded_backward)


def fold(x: Array, stride: int, height: int, width: int) -> Array:
    """Turn squares of stride × stride pixels into channels: (batch, height, width, stride² · channels).

    Pixels beyond height and width are dropped, and missing ones are zero.
    """
    batch, rows, columns, channels = x.shape
    missing = ((0, 0, 0), (0, height * stride - rows, 0), (0, width * stride - columns, 0), (0, 0, 0))
    squares = jax.lax.pad(x, jnp.zeros((), x.dtype), missing).reshape(batch, height, stride, width, stride, channels)
    return squares.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height, width, stride**2 * channels)
