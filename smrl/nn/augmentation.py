"""Augmentation of images."""

import jax
import jax.numpy as jnp

from smrl.types import Array, Key


def random_shift(images: Array, reach: int, key: Key) -> Array:
    """Shift every image (batch, height, width, channels) by up to ``reach`` pixels, each axis uniformly.

    What a shift uncovers repeats the pixels of the border (DrQ: pad by ``reach``, then crop at random).
    """
    batch, height, width, channels = images.shape
    border = ((0, 0), (reach, reach), (reach, reach), (0, 0))
    padded = jnp.pad(jnp.asarray(images), border, mode="edge")
    corners = jax.random.randint(key, (batch, 2), 0, 2 * reach + 1)

    def crop(image: Array, corner: Array) -> Array:
        return jax.lax.dynamic_slice(image, (corner[0], corner[1], 0), (height, width, channels))

    return jax.vmap(crop)(padded, corners)
