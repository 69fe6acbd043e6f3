"""Diagnostics of networks in training, which change none of its numbers; docs/diagnostics.md explains each.

td_error_ratio      RMS TD error on held-out rows / on similar rows that are trained on
dormant_critic      share of hidden units i of a layer with E|h_i| / mean_k E|h_k| ≤ τ = 0.025  (Sokar et al. 2023)
critic_rank         least k with Σ_{i ≤ k} σ_i / Σ_i σ_i ≥ 1 − δ, δ = 0.01  (Kumar et al. 2021), where σ are the
                    singular values of the activations of the last hidden layer on a batch
critic_weight_norm  sqrt(Σ w²) over all parameters of the critics
critic_gradient_norm  the same of the gradient of one update, as Adam receives it
q_mean              mean of Q(s, a) over a batch
q_over_return       q_mean / the largest discounted return in the replay memory
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from smrl.deploy.policy import Network
from smrl.layers import Dense, Layer, Residual, describe
from smrl.nn.optimiser import TrainState
from smrl.settings import Settings
from smrl.smr.auto import Probe
from smrl.types import Algorithm, Array, Key, Metrics, Transition, UpdateContext

ROWS = 1_024
DORMANT = 0.025  # τ
RANK_LOSS = 0.01  # δ
NETWORKS = {
    "actor": "actor",
    "actors": "actor",
    "critics": "critic",
    "encoder": "encoder",
}  # field → column

Floats = NDArray[np.float64]


def hidden_activations(layers: Sequence[Layer], inputs: np.ndarray) -> list[Floats]:
    """Return what every dense layer but the first takes, (batch, units) in float64."""
    found = list[Floats]()

    def outputs(layers: Sequence[Layer], x: Floats) -> Floats:
        for layer in layers:
            if isinstance(layer, Dense):
                found.append(x)
            if isinstance(layer, Residual):
                x = sum((outputs(branch, x) for branch in layer.branches), start=x)
            else:
                x = Network(*describe([layer]))(x)
        return x

    outputs(layers, inputs.astype(np.float64))
    return found[1:]


def dormant_share(activations: Sequence[Floats]) -> float:
    """Return the share of units in all layers whose mean absolute activation is at most τ times that of their layer.

    >>> dormant_share([np.array([[1.0, 0.0, -2.0, 0.01]])])
    0.5
    """
    size = [np.abs(layer).mean(axis=0) for layer in activations]
    dormant = [scores <= DORMANT * scores.mean() for scores in size]
    return float(np.concatenate(dormant).mean())


def effective_rank(features: Floats) -> int:
    """Return the number of singular values whose sum is 99 % of that of all.

    >>> effective_rank(np.diag([5.0, 4.0, 0.01]))
    2
    """
    values = np.linalg.svd(features, compute_uv=False)
    total = values.cumsum()
    return int(np.searchsorted(total, (1 - RANK_LOSS) * total[-1]) + 1) if total[-1] > 0 else 0


class Diagnostics:
    """Measures the state of an algorithm."""

    def __init__(self, settings: Settings[Any], algorithm: Algorithm[Any]) -> None:
        self.algorithm = algorithm
        rounds = algorithm.rounds * settings.fresh_batches
        beta1 = getattr(settings.hyper, "adam_beta1", 0.9)

        def update(state: Any, batch: Transition, agent_step: Array, key: Key) -> tuple[Any, Metrics]:
            # Learning step 0 and the last round: updates that are made only at some of them are made there.
            context = UpdateContext(jnp.zeros((), jnp.int32), jnp.asarray(rounds - 1), rounds, key, agent_step)
            new, metrics = algorithm.update(state, batch, context, key)
            return new, metrics

        def measure(state: Any, batch: Transition, agent_step: Array, key: Key) -> Metrics:
            fields = {name: value for name, value in _fields(state) if name in NETWORKS and _is_trained(value)}
            # From a mean of 0, Adam's next mean is (1 − β₁) g.
            still = (
                state._replace(**{name: _without_mean(value) for name, value in fields.items()}) if fields else state
            )
            new, metrics = update(still, batch, agent_step, key)
            found = {"q_mean": metrics["q"]} if "q" in metrics else {}
            for name, value in fields.items():
                mean = optax.tree.get(getattr(new, name).optimiser, "mu")
                found[f"{NETWORKS[name]}_weight_norm"] = _norm(value.params)
                found[f"{NETWORKS[name]}_gradient_norm"] = _norm(mean) / (1 - beta1)
            return found

        def losses(state: Any, probe: Probe, agent_step: Array, key: Key) -> list[Array]:
            batches = probe.trained, probe.held_out
            unknown = jnp.full((), jnp.nan)
            return [update(state, batch, agent_step, key)[1].get("critic_loss", unknown) for batch in batches]

        self._measure, self._losses = jax.jit(measure), jax.jit(losses)

    def __call__(
        self, state: Any, batch: Transition, largest_return: float, probe: Probe | None, agent_step: int, key: Key
    ) -> dict[str, float]:
        """Return the values by column; those that an algorithm does not offer are left out."""
        found = {name: float(value) for name, value in self._measure(state, batch, agent_step, key).items()}
        if "q_mean" in found and np.isfinite(largest_return) and largest_return:
            found["q_over_return"] = found["q_mean"] / largest_return
        if probe is not None:
            trained, held_out = map(float, self._losses(state, probe, agent_step, key))
            if trained > 0:
                found["td_error_ratio"] = float(np.sqrt(held_out / trained))
        return {**found, **self._activations(jax.device_get(state), batch)}

    def _activations(self, state: Any, batch: Transition) -> dict[str, float]:
        algorithm = self.algorithm
        if algorithm.critic_networks is None or algorithm.network is None:
            return {}
        joined = np.concatenate([batch.obs, batch.action], axis=-1)
        critics = [hidden_activations(layers, joined) for layers in algorithm.critic_networks(state)]
        found = {
            "dormant_critic": float(np.mean([dormant_share(layers) for layers in critics])),
            "critic_rank": float(np.mean([effective_rank(layers[-1]) for layers in critics])),
        }
        actor = hidden_activations(algorithm.network(algorithm.policy_params(state)), batch.obs)
        return found | ({"dormant_actor": dormant_share(actor)} if actor else {})


def _fields(state: Any) -> Sequence[tuple[str, Any]]:
    return [(name, getattr(state, name)) for name in getattr(state, "_fields", ())]


def _is_trained(value: Any) -> bool:
    return isinstance(value, TrainState) and optax.tree.get(value.optimiser, "mu", None) is not None


def _without_mean(trained: TrainState) -> TrainState:
    """Return the parameters with an optimiser whose mean of the gradients is 0."""
    zeros = jax.tree.map(jnp.zeros_like, optax.tree.get(trained.optimiser, "mu"))
    return trained._replace(optimiser=optax.tree.set(trained.optimiser, mu=zeros))


def _norm(tree: Mapping[str, Any]) -> Array:
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))
