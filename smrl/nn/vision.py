"""Encoders of images: convolutions and the features that they leave."""

from collections.abc import Sequence

import flax.linen as nn
import jax.numpy as jnp

from smrl.errors import require
from smrl.kernels import convolutions
from smrl.nn.networks import Start, orthogonal
from smrl.types import Array

ORTHOGONAL = orthogonal(2**0.5)


class Encoder(nn.Module):
    """Images (batch, height, width, channels) of 0 … 255 to features: convolutions without padding, ReLU after each."""

    filters: Sequence[int]
    kernels: Sequence[int]
    strides: Sequence[int]
    centre: float = 0.0
    """Brightness that becomes zero, as a share of 255."""
    start: Start = ORTHOGONAL

    @nn.compact
    def __call__(self, images: Array) -> Array:  # (batch, features)
        x = jnp.asarray(images, jnp.float32) / 255 - self.centre
        channels = (x.shape[-1], *self.filters)
        layers = [
            Conv(filters, kernel, self.start, name=f"Conv_{index}")(channels[index])
            for index, (filters, kernel) in enumerate(zip(self.filters, self.kernels, strict=True))
        ]
        return convolutions(x, layers, self.strides).reshape(len(x), -1)


class Conv(nn.Module):
    """The parameters of a square convolution."""

    filters: int
    kernel: int
    start: Start

    @nn.compact
    def __call__(self, channels: int) -> tuple[Array, Array]:  # weights (kernel, kernel, channels, filters) and biases
        kernel_init, bias_init = self.start(self.kernel**2 * channels, False)
        weights = self.param("kernel", kernel_init, (self.kernel, self.kernel, channels, self.filters))
        return weights, self.param("bias", bias_init, (self.filters,))


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
