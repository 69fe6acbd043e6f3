"""Encoders of images: convolutions and the features that they leave."""

from collections.abc import Sequence
from functools import partial
from typing import Any

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
        rule = convolve if jax.default_backend() == "cpu" else _convolve
        return rule(x, weights, self.stride) + bias


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


def _convolve(x: Array, weights: Array, stride: int) -> Array:
    return jax.lax.conv_general_dilated(
        x, weights, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(x: Array, weights: Array, stride: int) -> Array:
    """A convolution whose gradient is fast on a CPU: that of the weights is one multiplication by patches.

    XLA has no fast kernel for the weights' gradient of a strided convolution within a compiled loop.
    """
    return _convolve(x, weights, stride)


def _forward(x: Array, weights: Array, stride: int) -> tuple[Array, tuple[Array, Array]]:
    return _convolve(x, weights, stride), (x, weights)


def _backward(stride: int, saved: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    x, weights = saved
    (by_x,) = jax.linear_transpose(lambda x: _convolve(x, weights, stride), x)(slope)
    columns = _patches(x, weights.shape[0], stride, slope.shape[1:3]).reshape(-1, weights[..., 0].size)
    by_weights = columns.T @ slope.reshape(-1, slope.shape[-1])
    return by_x, by_weights.reshape(weights.shape)


def _patches(x: Array, size: int, stride: int, places: Any) -> Array:
    """All squares of ``size`` pixels at (height, width) places, (batch, height, width, size · size · channels)."""
    reach = [stride * (place - 1) + 1 for place in places]
    slices = [
        jax.lax.slice(
            x, (0, row, column, 0), (len(x), row + reach[0], column + reach[1], x.shape[-1]), (1, stride, stride, 1)
        )
        for row in range(size)
        for column in range(size)
    ]
    return jnp.concatenate(slices, axis=-1)


convolve.defvjp(_forward, _backward)
