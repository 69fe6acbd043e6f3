"""How parameters move: Adam, gradient steps on a loss, and target networks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import optax

from smrl import kernels
from smrl.types import Array, Metrics, Params


class TrainState(NamedTuple):
    """Parameters and their optimiser state."""

    params: Params
    optimiser: optax.OptState


@dataclass(frozen=True)
class Adam:
    """Adam (see `kernels.adam`), after the gradient is clipped by its norm and weight decay · parameters is added.

    Decoupled weight decay does not go through Adam (AdamW). A projection follows, of all layers or of the hidden ones.
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    gradient_clip: float | None = None
    is_decoupled: bool = False
    projection: Literal["hidden", "all"] | None = None

    def start(self, params: Params) -> TrainState:
        """Return the parameters with a new optimiser state, which has the structure of optax's."""
        params = self._projected(params)
        limits = [limit.init(params) for limit in self._limits()]
        return TrainState(params, (*limits, optax.scale_by_adam().init(params), optax.EmptyState()))

    def step(self, trained: TrainState, gradient: Params) -> TrainState:
        """Take one step along a gradient."""
        params, (*limits, adam, last) = trained
        for limit, state in zip(self._limits(), limits, strict=True):
            gradient, _ = limit.update(gradient, state, params)
        count = optax.safe_increment(adam.count)
        rates = self.learning_rate, self.beta1, self.beta2, self.epsilon
        decay = self.weight_decay if self.is_decoupled else 0.0
        mu, nu, params = kernels.adam(gradient, adam.mu, adam.nu, params, count, *rates, decay)
        params = self._projected(params)
        return TrainState(params, (*limits, optax.ScaleByAdamState(count, mu, nu), last))

    def _projected(self, params: Params) -> Params:
        return params if self.projection is None else project(params, outputs=self.projection == "all")

    def _limits(self) -> list[optax.GradientTransformation]:
        clip = [] if self.gradient_clip is None else [optax.clip_by_global_norm(float(self.gradient_clip))]
        has_l2 = self.weight_decay and not self.is_decoupled
        decay = [optax.add_decayed_weights(float(self.weight_decay))] if has_l2 else []
        return clip + decay


def project(params: Params, outputs: bool) -> Params:
    """Divide the weights of every unit, a column of a kernel, by their norm: w ← w / ‖w‖.

    Without ``outputs``, the last layer of each network is left as it is.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    kernel_of = {path[:-1]: index for index, (path, _) in enumerate(leaves) if _key(path) == "kernel"}
    last = {path[:-1]: path for path in sorted(kernel_of, key=lambda path: int(_key(path).partition("_")[2]))}
    chosen = [index for path, index in kernel_of.items() if outputs or last[path[:-1]] != path]
    new = [leaf for _, leaf in leaves]
    for index, kernel in zip(chosen, kernels.project([new[index] for index in chosen]), strict=True):
        new[index] = kernel
    return jax.tree.unflatten(structure, new)


def _key(path: tuple[Any, ...]) -> str:
    """Return the name at the end of a path, such as kernel or Dense_2."""
    return str(getattr(path[-1], "key", ""))


def apply_gradient(
    trained: TrainState, loss: Callable[[Params], tuple[Array, Metrics]], optimiser: Adam
) -> tuple[TrainState, Metrics]:
    """Take one optimiser step on ``loss(params) → value, metrics``; return the new state and the metrics."""
    gradient, metrics = jax.grad(loss, has_aux=True)(trained.params)
    return optimiser.step(trained, gradient), metrics


def polyak_update(target: Params, online: Params, tau: float) -> Params:
    """Move a target network towards the online network: θ′ ← τ θ + (1 − τ) θ′."""
    return kernels.polyak(target, online, tau)
