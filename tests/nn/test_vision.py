"""Encoders: sizes and initial weights. Random shifts: all of them occur, and images are shifted independently."""

import jax
import jax.numpy as jnp
import numpy as np

from smrl.nn.vision import ImageEncoder, random_shift


def test_features_of_atari_and_of_drq() -> None:
    """7×7×32 of DQN on 84×84, and 35×35×32 of DrQ-v2."""
    images = np.zeros((1, 84, 84, 4), np.uint8)
    for encoder, features in (
        (ImageEncoder((32, 64, 32), (8, 4, 3), (4, 2, 1)), 7 * 7 * 32),
        (ImageEncoder((32,) * 4, (3,) * 4, (2, 1, 1, 1)), 35 * 35 * 32),
    ):
        assert jax.eval_shape(lambda encoder=encoder: encoder.init_with_output(jax.random.key(0), images)[0]).shape == (
            1,
            features,
        )


def test_convolutions_start_orthogonal() -> None:
    params = ImageEncoder((16,), (3,), (1,)).init(jax.random.key(0), np.zeros((1, 10, 10, 2), np.uint8))["params"][
        "Conv_0"
    ]
    kernel = np.asarray(params["kernel"]).reshape(-1, 16)
    np.testing.assert_allclose(kernel.T @ kernel, 2 * np.eye(16), atol=1e-5)
    assert not np.any(params["bias"])


HEIGHT, WIDTH, LARGEST = 5, 6, 2


def test_random_shift_crops_every_image_independently() -> None:
    image = np.arange(HEIGHT * WIDTH * 2, dtype=np.uint8).reshape(HEIGHT, WIDTH, 2)
    shifted = np.asarray(random_shift(jnp.asarray(np.stack([image] * 2_000)), LARGEST, jax.random.key(0)))
    assert shifted.dtype == np.uint8
    padded = np.pad(image, ((LARGEST, LARGEST), (LARGEST, LARGEST), (0, 0)), mode="edge")
    sides = range(2 * LARGEST + 1)
    crops = np.stack([padded[top : top + HEIGHT, left : left + WIDTH] for top in sides for left in sides])
    equal = (shifted[:, None] == crops).all(axis=(2, 3, 4))  # (images, crops)
    assert (equal.sum(axis=1) == 1).all()
    counts = equal.sum(axis=0)  # 80 of each are expected, with a standard deviation of 8.8
    assert counts.min() > 40
    assert counts.max() < 120


def test_a_shift_of_zero_changes_nothing() -> None:
    images = jnp.asarray(np.random.default_rng(0).integers(0, 256, (3, 4, 4, 1)).astype(np.uint8))
    assert np.array_equal(random_shift(images, 0, jax.random.key(0)), images)
