"""The sizes of encoders and their initial weights."""

import jax
import numpy as np

from smrl.nn.vision import Encoder


def test_features_of_atari_and_of_drq() -> None:
    """7×7×32 of DQN on 84×84, and 35×35×32 of DrQ-v2."""
    images = np.zeros((1, 84, 84, 4), np.uint8)
    for encoder, features in (
        (Encoder((32, 64, 32), (8, 4, 3), (4, 2, 1)), 7 * 7 * 32),
        (Encoder((32,) * 4, (3,) * 4, (2, 1, 1, 1)), 35 * 35 * 32),
    ):
        assert jax.eval_shape(lambda encoder=encoder: encoder.init_with_output(jax.random.key(0), images)[0]).shape == (
            1,
            features,
        )


def test_convolutions_start_orthogonal() -> None:
    params = Encoder((16,), (3,), (1,)).init(jax.random.key(0), np.zeros((1, 10, 10, 2), np.uint8))["params"]["Conv_0"]
    kernel = np.asarray(params["kernel"]).reshape(-1, 16)
    np.testing.assert_allclose(kernel.T @ kernel, 2 * np.eye(16), atol=1e-5)
    assert not np.any(params["bias"])
