"""Targets of the critics, and soft updates of target networks, each next to its equation."""

import jax

from smrl import kernels
from smrl.types import Array, Params, Transition


def bellman(batch: Transition, next_value: Array) -> Array:
    """y = r + γⁿ (1 − d) V(s′), with the gradient stopped."""
    return jax.lax.stop_gradient(batch.reward + batch.discount * next_value)


def clipped_double(next_q: Array) -> Array:
    """V(s′) = min_i Q′_i(s′, a′): TD3's clipped double Q-learning; the leading axis is the critic."""
    return next_q.min(axis=0)


def soft_clipped_double(next_q: Array, log_prob: Array, alpha: Array) -> Array:
    """V(s′) = min_i Q′_i(s′, a′) − α log π(a′|s′): SAC."""
    return clipped_double(next_q) - alpha * log_prob


def weighted_extremes(next_values: Array, nu: float) -> Array:
    """V(s′) = ν min_k v_k + (1 − ν) max_k v_k: DARC's weighting of its actors' values; actors first."""
    return nu * next_values.min(axis=0) + (1 - nu) * next_values.max(axis=0)


def truncated(next_atoms: Array, dropped: int) -> Array:
    """TQC's truncation: the atoms of all critics pooled and sorted, without the ``dropped`` largest per critic.

    (critics, batch, atoms) → (batch, critics · (atoms − dropped))
    """
    critics, batch, atoms = next_atoms.shape
    pooled = next_atoms.transpose(1, 0, 2).reshape(batch, critics * atoms)
    return -jax.lax.top_k(-pooled, critics * (atoms - dropped))[0]  # ascending; faster than a full sort


def polyak_update(target: Params, online: Params, tau: float) -> Params:
    """Soft update of a target network: θ′ ← τ θ + (1 − τ) θ′."""
    return kernels.polyak(target, online, tau)
