"""Exploration noise."""

import jax
import jax.numpy as jnp

from smrl.types import Array, Key


def gaussian_noise(action: Array, scale: float, key: Key, clip: float = jnp.inf) -> Array:
    """clip(a + ε, ±1) with ε ~ N(0, scale²), itself clipped to ±clip (the target smoothing of TD3)."""
    noise = scale * jax.random.normal(key, action.shape)
    return jnp.clip(action + jnp.clip(noise, -clip, clip), -1.0, 1.0)
