"""Encoders of images: convolutions and the features that they leave."""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from smrl.errors import require
from smrl.types import Array


class Encoder(nn.Module):
    """Images (batch, height, width, channels) of 0 … 255 to features: convolutions without padding, ReLU after each."""

    filters: Sequence[int]
    kernels: Sequence[int]
    strides: Sequence[int]

    @nn.compact
    def __call__(self, images: Array) -> Array:  # (batch, features)
        x = jnp.asarray(images, jnp.float32) / 255
        for filters, kernel, stride in zip(self.filters, self.kernels, self.strides, strict=True):
            x = nn.relu(Conv(filters, kernel, stride)(x))
        return x.reshape(len(x), -1)


class Conv(nn.Module):
    """A square convolution without padding, with orthogonal weights of gain √2 and zero biases."""

    filters: int
    kernel: int
    stride: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        shape = (self.kernel, self.kernel, x.shape[-1], self.filters)
        weights = self.param("kernel", nn.initializers.orthogonal(2**0.5), shape)
        bias = self.param("bias", nn.initializers.zeros, (self.filters,))
        convolve = convolve_by_rows if jax.default_backend() == "cpu" else convolve_by_xla
        return convolve(x, weights, self.stride) + bias


def side_after(side: int, kernels: Sequence[int], strides: Sequence[int]) -> int:
    """Pixels along the side of what the convolutions leave of an image; zero or less if it is too small for them.

    >>> side_after(84, (8, 4, 3), (4, 2, 1))
    7
    """
    for kernel, stride in zip(kernels, strides, strict=True):
        side = (side - kernel) // stride + 1
        if side < 1:
            return side
    return side


def check_size(shape: Sequence[int], kernels: Sequence[int], strides: Sequence[int]) -> None:
    """Raise a sentence if images of (height, width, …) are too small for the convolutions."""
    require(
        side_after(min(shape[:2]), kernels, strides) > 0,
        f"images of {shape[0]}×{shape[1]} are too small for convolutions of {'×, '.join(map(str, kernels))}×; choose "
        "smaller --kernels and --strides, or larger images.",
    )


def convolve_by_xla(x: Array, weights: Array, stride: int) -> Array:
    """(batch, height, width, channels) and (kernel, kernel, channels, filters) → (batch, height′, width′, filters)."""
    return jax.lax.conv_general_dilated(
        x, weights, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def convolve_by_rows(x: Array, weights: Array, stride: int) -> Array:
    """The same by multiplications of matrices: for every row of the kernel one, with rows of patches.

    Within a compiled loop XLA's CPU kernel for the gradient of a convolution is many times slower than this.
    """
    kernel, _, channels, filters = weights.shape
    batch, height, width, _ = x.shape
    rows, columns = ((side - kernel) // stride + 1 for side in (height, width))
    reach_down, reach_right = (stride * (places - 1) + 1 for places in (rows, columns))
    patches = jnp.concatenate(  # (batch, height, columns, kernel · channels)
        [
            jax.lax.slice(x, (0, 0, left, 0), (batch, height, left + reach_right, channels), (1, 1, stride, 1))
            for left in range(kernel)
        ],
        axis=-1,
    )
    y = jnp.zeros((batch * rows * columns, filters), x.dtype)
    for top in range(kernel):
        end = (batch, top + reach_down, columns, kernel * channels)
        under = jax.lax.slice(patches, (0, top, 0, 0), end, (1, stride, 1, 1))
        y += under.reshape(len(y), -1) @ weights[top].reshape(-1, filters)
    return y.reshape(batch, rows, columns, filters)
