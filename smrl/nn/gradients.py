"""Parameters with their optimiser state, and gradient steps on them."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from smrl.types import Array, Metrics, Params


class Trained(NamedTuple):
    """Parameters and their optimiser state."""

    params: Params
    optimiser: optax.OptState


def adam(
    learning_rate: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    gradient_clip: float | None = None,
) -> optax.GradientTransformation:
    """PyTorch's Adam: the gradient's norm is clipped, then weight decay times the parameters is added to it."""
    clip = [] if gradient_clip is None else [optax.clip_by_global_norm(gradient_clip)]
    decay = [optax.add_decayed_weights(weight_decay)] if weight_decay else []
    scale = [_scale_by_adam(beta1, beta2, epsilon), optax.scale_by_learning_rate(learning_rate)]
    return optax.chain(*clip, *decay, *scale)


def _scale_by_adam(beta1: float, beta2: float, epsilon: float) -> optax.GradientTransformation:
    """m̂ / (√v̂ + ε) with m̂ = m / (1 − β₁ⁿ), v̂ = v / (1 − β₂ⁿ), and moments m, v by optax.

    1 − βⁿ is −expm1(n log β): in float32, optax's 1 − 0.999ⁿ loses four of its seven digits in the first updates.
    """
    moments = optax.scale_by_adam(beta1, beta2, epsilon)
    log1, log2 = (math.log(beta) if beta else -math.inf for beta in (beta1, beta2))

    def update(
        gradient: optax.Updates, state: optax.OptState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, optax.OptState]:
        _, new = moments.update(gradient, state, params)
        assert isinstance(new, optax.ScaleByAdamState)
        factor1, factor2 = (1 / -jnp.expm1(new.count * log) for log in (log1, log2))
        root2 = jnp.sqrt(factor2)
        return jax.tree.map(lambda m, v: m * factor1 / (jnp.sqrt(v) * root2 + epsilon), new.mu, new.nu), new

    return optax.GradientTransformation(moments.init, update)


def start(params: Params, optimiser: optax.GradientTransformation) -> Trained:
    """Parameters with a new optimiser state."""
    return Trained(params, optimiser.init(params))


def descend(
    trained: Trained,
    loss: Callable[[Params], tuple[Array, Metrics]],
    optimiser: optax.GradientTransformation,
) -> tuple[Trained, Metrics]:
    """One optimiser step on ``loss(params) → value, metrics``."""
    gradient, metrics = jax.grad(loss, has_aux=True)(trained.params)
    return step(trained, gradient, optimiser), metrics


def step(trained: Trained, gradient: Params, optimiser: optax.GradientTransformation) -> Trained:
    """One optimiser step along a gradient."""
    change, memory = optimiser.update(gradient, trained.optimiser, trained.params)
    return Trained(optax.apply_updates(trained.params, change), memory)
