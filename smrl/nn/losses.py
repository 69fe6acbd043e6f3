"""Losses of the critics, each next to its equation."""

from functools import partial

import jax
import jax.numpy as jnp

from smrl.types import Array


def squared_error(q: Array, y: Array) -> Array:
    """Σ_i mean (Q_i − y)²: mean over the batch, sum over the critics (the leading axis); no ½."""
    return ((q - y) ** 2).mean(axis=-1).sum()


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def quantile_huber(atoms: Array, y: Array, kappa: float = 1.0) -> Array:
    """TQC's quantile Huber loss: mean |τ_j − 1[δ < 0]| H(δ), δ = y_k − θ_j, τ_j = (2j + 1)/(2n).

    H(δ) = δ²/2 where |δ| ≤ κ, else κ (|δ| − κ/2).
    ``atoms`` θ is (critics, batch, n), ``y`` is (batch, kept) and constant; the mean is over all four axes.
    """
    return _quantile_huber(atoms, y, kappa)[0]


def _quantile_huber(atoms: Array, y: Array, kappa: float) -> tuple[Array, Array]:
    """The loss and its gradient with respect to the atoms.

    Both are summed target by target: an array of all pairs would have millions of entries, which XLA writes to memory
    and reads again in the backward pass.
    """
    n, kept = atoms.shape[-1], y.shape[-1]
    theta, targets = atoms.transpose(0, 2, 1), y.T  # batch axis last, so that the CPU vectorises over it
    fractions = ((jnp.arange(n) + 0.5) / n)[:, None]

    def add(k: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        delta = targets[k] - theta
        clipped = jnp.clip(delta, -kappa, kappa)  # H′(δ), and H(δ) = H′ (δ − H′/2)
        slope = jnp.where(delta < 0, 1 - fractions, fractions) * clipped
        return sums[0] + slope * (delta - 0.5 * clipped), sums[1] + slope

    nothing = jnp.zeros_like(theta)
    loss, slope = jax.lax.fori_loop(0, kept, add, (nothing, nothing))
    pairs = atoms.size * kept
    return loss.sum() / pairs, -slope.transpose(0, 2, 1) / pairs


def _forward(atoms: Array, y: Array, kappa: float) -> tuple[Array, tuple[Array, Array]]:
    loss, gradient = _quantile_huber(atoms, y, kappa)
    return loss, (gradient, jnp.zeros_like(y))


def _backward(kappa: float, gradients: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    return slope * gradients[0], gradients[1]


quantile_huber.defvjp(_forward, _backward)
