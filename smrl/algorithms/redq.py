"""REDQ (Chen et al., 2021): many critics, a random subset in the target, many fresh batches per learning step.

    y = r + γ (1 − d) (min_{i ∈ 𝓜} Q′_i(s′, a′) − α log π(a′|s′)),  a′ ~ π(s′), 𝓜 a new random subset in every update
    critics:      min Σ_i mean (Q_i(s, a) − y)²
    targets:      θ′ ← τ θ + (1 − τ) θ′

Only on the last fresh batch of a learning step, in each of its reuses:

    actor:        min mean (α log π(ã|s) − mean_i Q_i(s, ã)),  ã ~ π(s)
    temperature:  min −α mean (log π(ã|s) + H̄),  α = exp(log α)
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import optax

from smrl.algorithms.common import SoftConfig, SoftState, require_vectors_and_continuous_actions, soft_actor_critic
from smrl.errors import require
from smrl.nn.losses import bellman, squared_error
from smrl.nn.optimiser import TrainState, apply_gradient, polyak_update
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Few, Positive


@dataclass(frozen=True, kw_only=True)
class REDQ(SoftConfig):
    """Hyperparameters of REDQ; the defaults are the paper's table."""

    critics: Few = 10
    """Number of critics."""
    subset: Few = 2
    """Number of critics drawn at random for every target."""
    critic_loss: Literal["sum", "mean"] = "sum"
    """Loss of the critics: the sum of their squared errors, or the mean as in the authors' code."""
    order: Literal["critics-first", "together"] = "critics-first"
    """Order of the steps of an update: the actor under the new critics, or all gradients before any step."""
    first_temperature: Positive | None = None
    """Temperature until its first update; by default --initial-temperature, where learning it starts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.subset <= self.critics,
            f"a subset of {self.subset} cannot be drawn from {self.critics} critics; lower subset or raise critics.",
        )


def redq(config: REDQ, spec: Spec) -> Algorithm[SoftState]:
    """Make REDQ for an environment."""
    base = soft_actor_critic(config, require_vectors_and_continuous_actions(spec, "REDQ"), config.critics)
    actor, critics = base.actor, base.critics
    divisor = config.critics if config.critic_loss == "mean" else 1

    def temperature(log_alpha: TrainState) -> Array:
        alpha = jnp.exp(log_alpha.params)
        if config.first_temperature is None:
            return alpha
        return jnp.where(optax.tree.get(log_alpha.optimiser, "count") == 0, config.first_temperature, alpha)

    def update(state: SoftState, batch: Transition, context: UpdateContext, key: Key) -> tuple[SoftState, Metrics]:
        subset_key, target_key, critic_key, actor_key = jax.random.split(key, 4)
        alpha = temperature(state.log_alpha)

        # y = r + γ (1 − d) (min_{i ∈ 𝓜} Q′_i(s′, a′) − α log π(a′|s′))
        subset = jax.random.choice(subset_key, config.critics, (config.subset,), replace=False)
        next_action_key, next_dropout_key = jax.random.split(target_key)
        next_action, next_log_prob = actor.sample(state.actor.params, batch.next_obs, next_action_key)
        next_q = critics(state.target_critics, batch.next_obs, next_action, next_dropout_key, chosen=subset)
        y = bellman(batch, next_q.min(axis=0) - alpha * next_log_prob)

        def critic_loss(params: Params) -> tuple[Array, Metrics]:  # Σ_i mean (Q_i(s, a) − y)²
            q = critics(params, batch.obs, batch.action, critic_key)
            loss = squared_error(q, y) / divisor
            return loss, {"critic_loss": loss, "q": q.mean()}

        new_critics, metrics = apply_gradient(state.critics, critic_loss, config.optimiser("critic"))
        critic_params = new_critics.params if config.order == "critics-first" else state.critics.params
        action_key, dropout_key = jax.random.split(actor_key)

        def actor_loss(params: Params) -> tuple[Array, Metrics]:  # mean (α log π(ã|s) − mean_i Q_i(s, ã))
            action, log_prob = actor.sample(params, batch.obs, action_key)
            q = critics(critic_params, batch.obs, action, dropout_key).mean(axis=0)
            loss = (alpha * log_prob - q).mean()
            return loss, {"actor_loss": loss, "entropy": -log_prob.mean()}

        def update_policy(actor: TrainState, log_alpha: TrainState) -> tuple[TrainState, TrainState, Array]:
            new_actor, report = apply_gradient(actor, actor_loss, config.optimiser("actor"))

            def temperature_loss(log_alpha: Params) -> tuple[Array, Metrics]:  # −α mean (log π(ã|s) + H̄)
                return config.temperature_weight(log_alpha) * (report["entropy"] - base.target_entropy), {}

            if config.temperature == "auto":
                log_alpha, _ = apply_gradient(log_alpha, temperature_loss, config.optimiser("temperature"))
            return new_actor, log_alpha, report["actor_loss"]

        def keep_policy(actor: TrainState, log_alpha: TrainState) -> tuple[TrainState, TrainState, Array]:
            return actor, log_alpha, jnp.full((), jnp.nan)

        is_last = context.round == context.rounds - 1
        new_actor, new_log_alpha, loss = jax.lax.cond(is_last, update_policy, keep_policy, state.actor, state.log_alpha)
        new_targets = polyak_update(state.target_critics, new_critics.params, config.tau)
        metrics |= {"actor_loss": loss, "entropy": -next_log_prob.mean(), "alpha": alpha}
        return SoftState(new_actor, new_critics, new_log_alpha, new_targets), metrics

    return base.algorithm(spec, update)
