"""Random shifts: every image is a crop of its padded self, all shifts occur, and images are shifted independently."""

import jax
import jax.numpy as jnp
import numpy as np

from smrl.nn.augmentation import random_shift

HEIGHT, WIDTH, REACH = 5, 6, 2


def test_every_image_is_shifted_by_a_shift_of_its_own() -> None:
    image = np.arange(HEIGHT * WIDTH * 2, dtype=np.uint8).reshape(HEIGHT, WIDTH, 2)
    shifted = np.asarray(random_shift(jnp.stack([image] * 2_000), REACH, jax.random.key(0)))
    assert shifted.dtype == np.uint8
    padded = np.pad(image, ((REACH, REACH), (REACH, REACH), (0, 0)), mode="edge")
    sides = range(2 * REACH + 1)
    crops = np.stack([padded[top : top + HEIGHT, left : left + WIDTH] for top in sides for left in sides])
    equal = (shifted[:, None] == crops).all(axis=(2, 3, 4))  # (images, crops)
    assert (equal.sum(axis=1) == 1).all()
    counts = equal.sum(axis=0)  # 80 of each are expected, with a standard deviation of 8.8
    assert counts.min() > 40
    assert counts.max() < 120


def test_no_shift() -> None:
    images = jnp.asarray(np.random.default_rng(0).integers(0, 256, (3, 4, 4, 1)).astype(np.uint8))
    assert np.array_equal(random_shift(images, 0, jax.random.key(0)), images)
