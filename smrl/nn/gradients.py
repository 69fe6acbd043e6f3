"""Parameters with their optimiser state, and gradient steps on them."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import optax

from smrl.types import Array, Metrics, Params


class Trained(NamedTuple):
    """Parameters and their optimiser state."""

    params: Params
    optimiser: optax.OptState


def adam(learning_rate: float) -> optax.GradientTransformation:
    """Adam with PyTorch's defaults: β = (0.9, 0.999), ε = 1e-8."""
    return optax.adam(learning_rate)


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
    change, memory = optimiser.update(gradient, trained.optimiser, trained.params)
    return Trained(optax.apply_updates(trained.params, change), memory), metrics
