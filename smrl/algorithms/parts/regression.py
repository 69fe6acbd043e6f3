"""One optimiser step of the critics towards their target."""

from collections.abc import Callable

from smrl.nn import gradients
from smrl.nn.gradients import Adam, Trained
from smrl.nn.networks import Ensemble
from smrl.types import Array, Key, Metrics, Params, Transition


def regress(
    critics: Ensemble,
    trained: Trained,
    optimiser: Adam,
    batch: Transition,
    error: Callable[[Array], Array],
    key: Key,
) -> tuple[Trained, Metrics]:
    """One optimiser step on ``error(q)``, where q are the critics' values of the batch; the key is for dropout."""

    def loss(params: Params) -> tuple[Array, Metrics]:
        q = critics(params, batch.obs, batch.action, key=key)
        value = error(q)
        return value, {"critic_loss": value, "q": q.mean()}

    return gradients.descend(trained, loss, optimiser)
