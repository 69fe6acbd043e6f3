"""The target and the loss that critics share, each next to its equation."""

import jax

from smrl.types import Array, Transition


def bellman(batch: Transition, next_value: Array) -> Array:
    """Return y = r + γⁿ (1 − d) V(s′), with the gradient stopped."""
    return jax.lax.stop_gradient(batch.reward + batch.discount * next_value)


def squared_error(q: Array, y: Array) -> Array:
    """Return Σ_i mean (Q_i − y)²: the mean over the batch, the sum over the critics (leading axis), no factor ½."""
    return ((q - y) ** 2).mean(axis=-1).sum()
