"""Networks: initialisation, ensembles and the tanh-Gaussian."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smrl.nn.networks import MLP, Critic, Ensemble, sample_tanh_gaussian
from smrl.types import Array


def test_initialisation_is_pytorchs() -> None:
    """Weights and biases uniform in ±1/√fan_in: their bounds and their standard deviation."""
    params = MLP((512, 512)).init(jax.random.key(0), jnp.zeros((1, 64)))["params"]
    for layer, fan_in in (("Dense_0", 64), ("Dense_1", 512)):
        for values in params[layer].values():
            bound = fan_in**-0.5
            assert np.abs(values).max() <= bound
            np.testing.assert_allclose(np.std(values), bound / np.sqrt(3), rtol=0.1)


def test_stacked_and_unstacked_ensembles_are_one_function() -> None:
    obs: Any = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    action: Any = np.ones((7, 2), np.float32)

    def answers(stacked: bool) -> tuple[Array, Array, Array]:
        """All members, two of them, and all with dropout."""
        critics = Ensemble(Critic((16,), dropout=0.5), 3, stacked)
        params = critics.init(jax.random.key(0), obs, action)
        return (
            critics(params, obs, action),
            critics(params, obs, action, chosen=jnp.array([2, 0])),
            critics(params, obs, action, key=jax.random.key(1)),
        )

    apart, stacked = (jax.jit(answers, static_argnums=0)(stacked) for stacked in (False, True))
    for left, right in zip(apart, stacked, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
    every, two, dropped = apart
    assert every.shape == (3, 7)
    np.testing.assert_allclose(two, every[np.array([2, 0])], rtol=1e-5, atol=1e-6)
    assert np.abs(every - dropped).max() > 1e-3
    assert np.std(every, axis=0).min() > 0, "members differ"


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.7, -1.0), (-1.5, 0.5)])
def test_log_probability_is_the_density_of_the_samples(mean: float, log_std: float) -> None:
    """Against the change of variables written out in float64."""
    count = 1_000
    means, log_stds = jnp.full((count, 1), mean), jnp.full((count, 1), log_std)
    actions, log_prob = sample_tanh_gaussian(means, log_stds, jax.random.key(0))
    action = np.asarray(actions)[:, 0]
    u = np.arctanh(np.clip(action.astype(np.float64), -1 + 1e-7, 1 - 1e-7))
    inside = np.abs(action) < 0.99
    density = (
        np.exp(-0.5 * ((u - mean) / np.exp(log_std)) ** 2) / np.exp(log_std) / np.sqrt(2 * np.pi) / (1 - action**2)
    )
    np.testing.assert_allclose(np.exp(log_prob)[inside], density[inside], rtol=1e-3)


def test_log_probability_is_finite_at_the_edge() -> None:
    _, log_prob = sample_tanh_gaussian(jnp.full((4, 1), 50.0), jnp.full((4, 1), 2.0), jax.random.key(0))
    assert np.isfinite(log_prob).all()
