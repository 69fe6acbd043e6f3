"""How parameters move: Adam, gradient steps on a loss, and target networks."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from smrl.kernels import library
from smrl.types import Array, Metrics, Params


class TrainState(NamedTuple):
    """Parameters and their optimiser state."""

    params: Params
    optimiser: optax.OptState


@dataclass(frozen=True)
class Adam:
    """Adam; first the gradient's norm is clipped, then weight decay times the parameters is added to it.

    m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  θ ← θ − η m̂ / (√v̂ + ε),  m̂ = m / (1 − β₁ⁿ),  v̂ = v / (1 − β₂ⁿ).
    1 − βⁿ is −expm1(n log β): in float32, optax's 1 − 0.999ⁿ loses four of its seven digits in the first updates.
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    gradient_clip: float | None = None

    def start(self, params: Params) -> TrainState:
        """Return the parameters with a new optimiser state, which has the structure of optax's."""
        limits = [limit.init(params) for limit in self._limits()]
        return TrainState(params, (*limits, optax.scale_by_adam().init(params), optax.EmptyState()))

    def step(self, trained: TrainState, gradient: Params) -> TrainState:
        """Take one step along a gradient."""
        params, (*limits, adam, last) = trained
        for limit, state in zip(self._limits(), limits, strict=True):
            gradient, _ = limit.update(gradient, state, params)
        count = optax.safe_increment(adam.count)
        logs = (math.log(beta) if beta else -math.inf for beta in (self.beta1, self.beta2))
        factor, square = (1 / -jnp.expm1(count * log) for log in logs)
        trees = [jax.tree.leaves(tree) for tree in (gradient, adam.mu, adam.nu, params)]
        move = self._move_by_kernel if library.fits(*jax.tree.leaves(trees)) else self._move_by_xla
        structure = jax.tree.structure(params)
        mu, nu, params = (jax.tree.unflatten(structure, leaves) for leaves in move(factor, jnp.sqrt(square), *trees))
        return TrainState(params, (*limits, optax.ScaleByAdamState(count, mu, nu), last))

    def _limits(self) -> list[optax.GradientTransformation]:
        clip = [] if self.gradient_clip is None else [optax.clip_by_global_norm(self.gradient_clip)]
        decay = [optax.add_decayed_weights(self.weight_decay)] if self.weight_decay else []
        return clip + decay

    def _move_by_xla(self, factor: Array, root: Array, *trees: list[Array]) -> list[tuple[Array, ...]]:
        """New m, v and θ of all arrays, from g, m, v and θ; m̂ is factor · m, and √v̂ is root · √v."""

        def move(g: Array, m: Array, v: Array, theta: Array) -> tuple[Array, Array, Array]:
            m, v = self.beta1 * m + (1 - self.beta1) * g, self.beta2 * v + (1 - self.beta2) * g**2
            return m, v, theta - self.learning_rate * (m * factor / (jnp.sqrt(v) * root + self.epsilon))

        return list(zip(*map(move, *trees), strict=True))

    def _move_by_kernel(self, factor: Array, root: Array, *trees: list[Array]) -> list[list[Array]]:
        """The same by a C++ kernel, in place."""
        count = len(trees[0])
        arrays = [array for tree in trees for array in tree]
        moved = library.call(
            "smrl_adam",
            [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays[count:]],
            jnp.stack([factor, root]),
            *arrays,
            aliases={1 + count + index: index for index in range(3 * count)},
            rate=self.learning_rate,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
        )
        return [moved[:count], moved[count : 2 * count], moved[2 * count :]]


def apply_gradient(
    trained: TrainState, loss: Callable[[Params], tuple[Array, Metrics]], optimiser: Adam
) -> tuple[TrainState, Metrics]:
    """Take one optimiser step on ``loss(params) → value, metrics``; return the new state and the metrics."""
    gradient, metrics = jax.grad(loss, has_aux=True)(trained.params)
    return optimiser.step(trained, gradient), metrics


def polyak_update(target: Params, online: Params, tau: float) -> Params:
    """Move a target network towards the online network: θ′ ← τ θ + (1 − τ) θ′."""
    old, structure = jax.tree.flatten(target)
    arrays = (*old, *jax.tree.leaves(online))
    if not library.fits(*arrays):
        return jax.tree.map(lambda old, new: tau * new + (1 - tau) * old, target, online)
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in old]
    in_place = {index: index for index in range(len(old))}
    return jax.tree.unflatten(structure, library.call("smrl_follow", shapes, *arrays, aliases=in_place, tau=float(tau)))
