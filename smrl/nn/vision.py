"""Images: the convolutional encoder and random shifts."""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from smrl.errors import require
from smrl.kernels import convolutions
from smrl.layers import Activation, Convolution, Flatten, Image, Layer
from smrl.nn.networks import Initializer, orthogonal
from smrl.types import Array, Key, Params

ORTHOGONAL = orthogonal(2**0.5)


class ImageEncoder(nn.Module):
    """Map images (batch, height, width, channels) of 0 … 255 to features: unpadded convolutions with ReLU."""

    filters: Sequence[int]
    kernels: Sequence[int]
    strides: Sequence[int]
    centre: float = 0.0
    """Brightness that is mapped to zero, as a fraction of 255."""
    initializer: Initializer = ORTHOGONAL

    @nn.compact
    def __call__(self, images: Array) -> Array:  # (batch, features)
        x = jnp.asarray(images, jnp.float32) / 255 - self.centre
        channels = (x.shape[-1], *self.filters)
        layers = [
            Conv(filters, kernel, self.initializer, name=f"Conv_{index}")(channels[index])
            for index, (filters, kernel) in enumerate(zip(self.filters, self.kernels, strict=True))
        ]
        return convolutions(x, layers, self.strides).reshape(len(x), -1)


def encoder_layers(params: Params, strides: Sequence[int], centre: float = 0.0) -> list[Layer]:
    """Return the layers of an `ImageEncoder` with these parameters."""
    found: list[Layer] = [Image(centre)]
    for index, stride in enumerate(strides):
        conv = params[f"Conv_{index}"]
        found += [Convolution(conv["kernel"], conv["bias"], stride), Activation("relu")]
    return [*found, Flatten()]


class Conv(nn.Module):
    """Parameters of a square convolution."""

    filters: int
    kernel: int
    initializer: Initializer

    @nn.compact
    def __call__(self, channels: int) -> tuple[Array, Array]:  # weights (kernel, kernel, channels, filters) and biases
        kernel_init, bias_init = self.initializer(self.kernel**2 * channels, False)
        weights = self.param("kernel", kernel_init, (self.kernel, self.kernel, channels, self.filters))
        return weights, self.param("bias", bias_init, (self.filters,))


def side_after(side: int, kernels: Sequence[int], strides: Sequence[int]) -> int:
    """Return the side of the convolutions' output in pixels; zero or less if the image is too small for them.

    >>> side_after(84, (8, 4, 3), (4, 2, 1))
    7
    """
    for kernel, stride in zip(kernels, strides, strict=True):
        side = (side - kernel) // stride + 1
        if side < 1:
            return side
    return side


def require_large_enough(shape: Sequence[int], kernels: Sequence[int], strides: Sequence[int]) -> None:
    """Raise an error if images of (height, width, …) are too small for the convolutions."""
    require(
        side_after(min(shape[:2]), kernels, strides) > 0,
        f"images of {shape[0]}×{shape[1]} are too small for convolutions of {'×, '.join(map(str, kernels))}×; choose "
        "smaller --kernels and --strides, or larger images.",
    )


def random_shift(images: Array, largest: int, key: Key) -> Array:
    """Shift every image (batch, height, width, channels) by up to ``largest`` pixels, uniformly along each axis.

    Uncovered pixels repeat the border (DrQ: pad by ``largest``, then crop at random).
    """
    batch, height, width, channels = images.shape
    border = ((0, 0), (largest, largest), (largest, largest), (0, 0))
    padded = jnp.pad(jnp.asarray(images), border, mode="edge")
    corners = jax.random.randint(key, (batch, 2), 0, 2 * largest + 1)

    def crop(image: Array, corner: Array) -> Array:
        return jax.lax.dynamic_slice(image, (corner[0], corner[1], 0), (height, width, channels))

    return jax.vmap(crop)(padded, corners)
