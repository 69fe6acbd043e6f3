"""Convolutions of images with ReLU after each, in the form that is fast on the processor at hand.

docs/performance.md compares the forms. On CPUs the fastest are kernels in C++. Without them XLA has several kernels for
a convolution, and which one runs depends on details of its window: `convolve_on_cpu` writes the convolution and both
gradients such that a fast one runs.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp

from smrl.kernels import library
from smrl.kernels.activations import relu
from smrl.types import Array

Layers = Sequence[tuple[Array, Array]]  # weights (kernel, kernel, channels, filters) and biases (filters,)
Padding = tuple[tuple[int, int], tuple[int, int]]
VALID: Padding = ((0, 0), (0, 0))


def convolutions(x: Array, layers: Layers, strides: Sequence[int]) -> Array:
    """(batch, height, width, channels) → (batch, rows, columns, filters of the last layer); there is no padding."""
    if library.fits(x, *jax.tree.leaves(layers)):
        return convolutions_by_kernels(x, layers, tuple(strides))
    return convolutions_by_xla(x, layers, strides)


def convolutions_by_xla(x: Array, layers: Layers, strides: Sequence[int]) -> Array:
    """XLA's convolutions."""
    for (weights, bias), stride in zip(layers, strides, strict=True):
        x = relu(convolve(x, weights, stride) + bias)
    return x


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolutions_by_kernels(x: Array, layers: Layers, strides: tuple[int, ...]) -> Array:
    """The same by C++ kernels."""
    return _outputs(x, layers, strides)[0]


def _outputs(x: Array, layers: Layers, strides: tuple[int, ...]) -> tuple[Array, tuple[list[Array], Layers]]:
    """The outputs of the last layer; and for the gradients the images, the outputs of every layer, and the layers."""
    images = [x]
    for (weights, bias), stride in zip(layers, strides, strict=True):
        batch, *sides, _ = images[-1].shape
        shape = (batch, *((side - len(weights)) // stride + 1 for side in sides), len(bias))
        result = jax.ShapeDtypeStruct(shape, x.dtype)
        images.append(library.call("smrl_conv", result, images[-1], weights, bias, stride=stride, relu=True))
    return images[-1], (images, layers)


def _gradients(
    strides: tuple[int, ...], kept: tuple[list[Array], Layers], gradient: Array
) -> tuple[Array, list[tuple[Array, Array]]]:
    """Layer by layer; XLA leaves out calls whose results nobody reads, as are the gradients of the first images.

    Where an output of ReLU is zero, so is the gradient before it: the kernel that computes it has the outputs.
    """
    (*images, y), layers = kept
    gradient, gradients = jnp.where(y > 0, gradient, 0), list[tuple[Array, Array]]()
    for index in reversed(range(len(layers))):
        x, (weights, bias), stride = images[index], layers[index], strides[index]
        shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in (x, weights, bias)]
        gradients.append(tuple(library.call("smrl_conv_weights", shapes[1:], x, gradient, stride=stride)))
        gradient = library.call("smrl_conv_inputs", shapes[0], gradient, weights, x, stride=stride, relu=index > 0)
    return gradient, gradients[::-1]


convolutions_by_kernels.defvjp(_outputs, _gradients)


def convolve(x: Array, weights: Array, stride: int) -> Array:
    """XLA's form that is fast: (batch, height, width, channels) → (batch, rows, columns, filters), without padding."""
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
