"""One step of critics towards their target."""

from collections.abc import Callable

import optax

from smrl import gradients
from smrl.gradients import Trained
from smrl.networks import Ensemble
from smrl.types import Array, Key, Metrics, Params, Transition


def regress(
    critics: Ensemble,
    trained: Trained,
    optimiser: optax.GradientTransformation,
    batch: Transition,
    error: Callable[[Array], Array],
    key: Key,
) -> tuple[Trained, Metrics]:
    """One step down ``error`` of what the critics say of the batch's actions; the key is for their dropout."""

    def loss(params: Params) -> tuple[Array, Metrics]:
        q = critics(params, batch.obs, batch.action, key=key)
        value = error(q)
        return value, {"critic_loss": value, "q": q.mean()}

    return gradients.descend(trained, loss, optimiser)
