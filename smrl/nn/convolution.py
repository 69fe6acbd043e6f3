"""The convolution of images, in the form that is fast on the processor at hand.

docs/performance.md compares the forms. On CPUs XLA has several kernels for a convolution, and which one runs depends
on details of its window: `convolve_on_cpu` writes the convolution and both gradients such that a fast one runs.
"""

from functools import partial

import jax
import jax.numpy as jnp

from smrl.types import Array

Padding = tuple[tuple[int, int], tuple[int, int]]
VALID: Padding = ((0, 0), (0, 0))


def convolve(x: Array, weights: Array, stride: int) -> Array:
    """(batch, height, width, channels) and (kernel, kernel, channels, filters) → (batch, rows, columns, filters).

    There is no padding.
    """
    form = convolve_on_cpu if jax.default_backend() == "cpu" else convolve_by_xla
    return form(x, weights, stride)


def convolve_by_xla(x: Array, weights: Array, stride: int, padding: Padding = VALID) -> Array:
    """XLA's convolution, and the gradients that JAX derives from it."""
    return jax.lax.conv_general_dilated(
        x, weights, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve_on_cpu(x: Array, weights: Array, stride: int) -> Array:
    """The same, and its gradients as convolutions of stride 1 that are neither dilated nor mirrored."""
    kernel, height = len(weights), x.shape[1]
    rows, unused = divmod(height - kernel, stride)
    # XLA's kernel for windows without padding can be four times slower, so there is some below the image. Where it
    # makes room for one more row of output, that row is dropped.
    below = stride - unused - 1 or 1
    return convolve_by_xla(x, weights, stride, ((0, below), (0, 0)))[:, : rows + 1]


def _forward(x: Array, weights: Array, stride: int) -> tuple[Array, tuple[Array, Array]]:
    return convolve_on_cpu(x, weights, stride), (x, weights)


def _backward(stride: int, primals: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    """Gradients of images and weights. With a stride s both are folded, which leaves a convolution of stride 1."""
    x, weights = primals
    _, rows, columns, _ = gradient.shape
    taps = -(-len(weights) // stride)

    def fold_images(x: Array) -> Array:
        return fold(x, stride, rows + taps - 1, columns + taps - 1)

    def fold_weights(weights: Array) -> Array:
        return fold(weights.transpose(3, 0, 1, 2), stride, taps, taps).transpose(1, 2, 3, 0)

    images, unfold_images = jax.vjp(fold_images, x)
    kernel, unfold_weights = jax.vjp(fold_weights, weights)
    (x_gradient,) = unfold_images(_image_gradient(gradient, kernel))
    (weight_gradient,) = unfold_weights(_weight_gradient(images, gradient, taps))
    return x_gradient, weight_gradient


def fold(x: Array, stride: int, height: int, width: int) -> Array:
    """Squares of stride × stride pixels become the channels of one: (batch, height, width, stride² · channels).

    Pixels beyond height and width are left out, and missing ones are zero.
    """
    batch, rows, columns, channels = x.shape
    missing = ((0, 0, 0), (0, height * stride - rows, 0), (0, width * stride - columns, 0), (0, 0, 0))
    squares = jax.lax.pad(x, jnp.zeros((), x.dtype), missing).reshape(batch, height, stride, width, stride, channels)
    return squares.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height, width, stride**2 * channels)


def _image_gradient(gradient: Array, weights: Array) -> Array:
    """Of a convolution of stride 1: the padded gradient, convolved with the mirrored weights."""
    around = len(weights) - 1
    mirrored = jnp.flip(weights, (0, 1)).swapaxes(2, 3)
    return convolve_by_xla(gradient, mirrored, 1, ((around, around), (around, around)))


def _weight_gradient(x: Array, gradient: Array, kernel: int) -> Array:
    """Of a convolution of stride 1: the images, convolved with the gradient over the batch.

    Rows of zeros below the gradient make it taller than the images. XLA then leaves its kernel for small windows, which
    is up to ten times slower with a window as large as this.
    """
    window = jnp.pad(gradient.transpose(1, 2, 0, 3), ((0, kernel), (0, 0), (0, 0), (0, 0)))
    return convolve_by_xla(x.transpose(3, 1, 2, 0), window, 1, ((0, kernel), (0, 0))).transpose(1, 2, 0, 3)


convolve_on_cpu.defvjp(_forward, _backward)
