"""Both forms of a convolution are the same, and so are their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smrl.nn.encoders import Encoder, convolve_by_rows, convolve_by_xla, side_after


@pytest.mark.parametrize(("side", "kernel", "stride"), [(10, 3, 1), (11, 3, 2), (12, 5, 2), (20, 8, 4), (5, 5, 1)])
def test_convolution_and_gradients(side: int, kernel: int, stride: int) -> None:
    """Also where the last pixels of an image are under no kernel."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(4, side, side, 3)), jnp.float32)
    weights = jnp.asarray(rng.normal(size=(kernel, kernel, 3, 5)), jnp.float32)
    places = side_after(side, (kernel,), (stride,))
    slope = jnp.asarray(rng.normal(size=(4, places, places, 5)), jnp.float32)
    ours, back = jax.vjp(lambda x, w: convolve_by_rows(x, w, stride), x, weights)
    theirs, their_back = jax.vjp(lambda x, w: convolve_by_xla(x, w, stride), x, weights)
    assert ours.shape == slope.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)
    for one, other in zip(back(slope), their_back(slope), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


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
