"""REDQ (Chen et al., 2021): many critics, a random subset in the target, many fresh batches per learning step.

𝓜: a random subset of the critics, drawn anew in every update;  a′ ~ π(s′)
y = r + γ (1 − d) (min_{i ∈ 𝓜} Q′_i(s′, a′) − α log π(a′|s′))     critics: min Σ_i mean (Q_i(s, a) − y)²
targets: θ′ ← τ θ + (1 − τ) θ′
only on the last fresh batch of a learning step, in each of its reuses:
actor: min mean (α log π(ã|s) − mean_i Q_i(s, ã)),  ã ~ π(s)
temperature: min −α mean (log π(ã|s) + H̄),  α = exp(log α)
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import optax

from smrl.algorithms.parts.soft import SoftHyperparameters, State, pieces
from smrl.errors import require
from smrl.nn import losses, targets
from smrl.nn.optimiser import TrainState
from smrl.types import Algorithm, Array, Key, Metrics, Spec, Transition, UpdateContext
from smrl.validation import Count, Positive


@dataclass(frozen=True, kw_only=True)
class REDQ(SoftHyperparameters):
    """Hyperparameters of REDQ; the defaults are the paper's table."""

    critics: Count = 10
    """Number of critics."""
    subset: Count = 2
    """Number of critics drawn at random for every target."""
    critic_loss: Literal["sum", "mean"] = "sum"
    """Loss of the critics: the sum of their squared errors, or the mean as in the authors' code."""
    order: Literal["critics-first", "together"] = "critics-first"
    """Order of the steps of an update: the actor under the new critics, or all gradients before any step."""
    first_temperature: Positive | None = None
    """Temperature in use until it is learned for the first time; by default 1, from where it is learned."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.subset <= self.critics,
            f"a subset of {self.subset} cannot be drawn from {self.critics} critics; lower subset or raise critics.",
        )


def redq(config: REDQ, spec: Spec) -> Algorithm[State]:
    """REDQ for an environment."""
    parts = pieces(config, spec, config.critics, judge=lambda q: q.mean(axis=0))
    share = config.critics if config.critic_loss == "mean" else 1

    def temperature(log_alpha: TrainState) -> Array:
        alpha = jnp.exp(log_alpha.params)
        if config.first_temperature is None:
            return alpha
        return jnp.where(optax.tree.get(log_alpha.optimiser, "count") == 0, config.first_temperature, alpha)

    def target(
        state: State, batch: Transition, alpha: Array, subset_key: Key, target_key: Key
    ) -> tuple[Array, Array]:  # y, and log π(a′|s′)
        indices = jax.random.choice(subset_key, config.critics, (config.subset,), replace=False)
        next_q, next_log_prob = parts.look_ahead(
            state.actor.params, state.target_critics, batch.next_obs, target_key, chosen=indices
        )
        return targets.bellman(batch, targets.soft_clipped_double(next_q, next_log_prob, alpha)), next_log_prob

    def td_error(state: State, batch: Transition, key: Key) -> Array:
        y, _ = target(state, batch, temperature(state.log_alpha), *jax.random.split(key))
        return parts.mean_q(state, batch.obs, batch.action) - y

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        subset_key, target_key, critic_key, actor_key = jax.random.split(key, 4)
        alpha = temperature(state.log_alpha)
        y, next_log_prob = target(state, batch, alpha, subset_key, target_key)
        critics, metrics = parts.update_critics(
            state.critics, batch, lambda q: losses.squared_error(q, y) / share, critic_key
        )
        judges = critics.params if config.order == "critics-first" else state.critics.params

        def improve(actor: TrainState, log_alpha: TrainState) -> tuple[TrainState, TrainState, Array]:
            actor, report = parts.update_actor(actor, judges, batch.obs, alpha, actor_key)
            return actor, parts.update_temperature(log_alpha, report["entropy"]), report["actor_loss"]

        def skip(actor: TrainState, log_alpha: TrainState) -> tuple[TrainState, TrainState, Array]:
            return actor, log_alpha, jnp.full((), jnp.nan)

        is_last = context.round == context.rounds - 1
        actor, log_alpha, actor_loss = jax.lax.cond(is_last, improve, skip, state.actor, state.log_alpha)
        target_critics = parts.follow(state.target_critics, critics)
        metrics |= {"actor_loss": actor_loss, "entropy": -next_log_prob.mean(), "alpha": alpha}
        return State(actor, critics, log_alpha, target_critics), metrics

    return Algorithm(parts.init, parts.explore, parts.exploit, update, td_error, parts.appraise)
