"""Steps on the parameters of networks: Adam, projection to unit norm, and soft updates of target networks."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from smrl.kernels import library
from smrl.types import Array, Params


def adam(
    gradient: Params,
    m: Params,
    v: Params,
    params: Params,
    count: Array,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float = 0.0,
) -> tuple[Params, Params, Params]:
    """Return m, v and the parameters θ after Adam's n-th step; n is ``count``.

    m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  θ ← θ − η m̂ / (√v̂ + ε),  m̂ = m / (1 − β₁ⁿ),  v̂ = v / (1 − β₂ⁿ).
    With a decay λ the last term is η (m̂ / (√v̂ + ε) + λ θ), as in AdamW.
    1 − βⁿ is −expm1(n log β): in float32, optax's 1 − 0.999ⁿ loses four of its seven digits in the first updates.
    """
    learning_rate, beta1, beta2, epsilon, decay = map(float, (learning_rate, beta1, beta2, epsilon, decay))
    trees = [jax.tree.leaves(tree) for tree in (gradient, m, v, params)]
    arrays, structure, size = jax.tree.leaves(trees), jax.tree.structure(params), len(trees[0])
    number = jnp.asarray(count, jnp.result_type(jnp.float32, *arrays))  # an integer · log β may be a float64
    logs = (math.log(beta) if beta else -math.inf for beta in (beta1, beta2))
    scale, square = (1 / -jnp.expm1(number * log) for log in logs)
    root = jnp.sqrt(square)  # m̂ is scale · m, and √v̂ is root · √v

    def by_kernel() -> list[list[Array]]:
        new = library.call(
            "smrl_adam",
            library.like(*arrays[size:]),
            jnp.stack([scale, root]),
            *arrays,
            aliases={1 + size + index: index for index in range(3 * size)},  # m, v and θ are updated in place
            **{"rate": learning_rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "decay": decay},
        )
        return [new[:size], new[size : 2 * size], new[2 * size :]]

    def by_xla() -> list[tuple[Array, ...]]:
        def step(g: Array, m: Array, v: Array, theta: Array) -> tuple[Array, Array, Array]:
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
            m_hat, root_v_hat = m * scale.astype(m.dtype), jnp.sqrt(v) * root.astype(v.dtype)
            step = m_hat / (root_v_hat + epsilon)
            return m, v, theta - learning_rate * (step + decay * theta if decay else step)

        return list(zip(*map(step, *trees), strict=True))

    new = by_kernel() if library.supports(*arrays) else by_xla()
    m, v, params = (jax.tree.unflatten(structure, leaves) for leaves in new)
    return m, v, params


def project(weights: Sequence[Array]) -> list[Array]:
    """Return matrices (…, inputs, outputs) with every column divided by its norm; columns of zeros stay."""
    if all(each.ndim == 2 for each in weights) and library.supports(*weights):
        in_place = {index: index for index in range(len(weights))}
        return list(library.call("smrl_project", library.like(*weights), *weights, aliases=in_place))

    def unit(columns: Array) -> Array:
        square = (columns**2).sum(-2, keepdims=True)
        return columns * jnp.where(square > 0, jax.lax.rsqrt(square), 1)

    return [unit(each) for each in weights]


def polyak(target: Params, online: Params, tau: float) -> Params:
    """Return the soft update of a target network, τ θ + (1 − τ) θ′."""
    tau = float(tau)
    old, structure = jax.tree.flatten(target)
    arrays = (*old, *jax.tree.leaves(online))
    if not library.supports(*arrays):
        return jax.tree.map(lambda old, new: tau * new + (1 - tau) * old, target, online)
    in_place = {index: index for index in range(len(old))}
    new = library.call("smrl_polyak", library.like(*old), *arrays, aliases=in_place, tau=tau)
    return jax.tree.unflatten(structure, new)
