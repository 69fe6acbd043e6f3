"""One optimiser step of the critics towards their target."""

from collections.abc import Callable

from smrl.nn import optimiser as gradients
from smrl.nn.networks import Ensemble
from smrl.nn.optimiser import Adam, TrainState
from smrl.types import Array, Key, Metrics, Params, Transition


def regress(
    critics: Ensemble,
    trained: TrainState,
    optimiser: Adam,
    batch: Transition,
    error: Callable[[Array], Array],
    key: Key,
) -> tuple[TrainState, Metrics]:
    """One optimiser step on ``error(q)``, where q are the critics' values of the batch; the key is for dropout."""

    def loss(params: Params) -> tuple[Array, Metrics]:
        q = critics(params, batch.obs, batch.action, key=key)
        value = error(q)
        return value, {"critic_loss": value, "q": q.mean()}

    return gradients.apply_gradient(trained, loss, optimiser)
