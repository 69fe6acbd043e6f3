"""Gaussian noise for exploration and target policy smoothing."""

import jax
import jax.numpy as jnp

from smrl.types import Array, Key


def gaussian_noise(action: Array, scale: float, key: Key, clip: float = jnp.inf) -> Array:
    """clip(a + ε, ±1), where ε ~ N(0, scale²) is first clipped to ±clip (TD3's target policy smoothing)."""
    noise = scale * jax.random.normal(key, (action.size,)).reshape(action.shape)  # one row: XLA is slow on short ones
    return jnp.clip(action + jnp.clip(noise, -clip, clip), -1.0, 1.0)
