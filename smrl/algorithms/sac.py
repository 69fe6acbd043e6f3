"""SAC (Haarnoja et al., 2018): twin soft critics, a tanh-Gaussian actor and a learned temperature.

y = r + γ (1 − d) (min_i Q′_i(s′, a′) − α log π(a′|s′)),  a′ ~ π(s′)
critics:      min Σ_i mean (Q_i(s, a) − y)²
actor:        min mean (α log π(ã|s) − min_i Q_i(s, ã)),  ã ~ π(s), every delay-th learning step
temperature:  min −α mean (log π(ã|s) + H̄),  α = exp(log α), with the actor
targets:      θ′ ← τ θ + (1 − τ) θ′, every target_interval-th learning step
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from smrl.algorithms.common import SoftConfig, SoftState, require_vectors_and_continuous_actions, soft_actor_critic
from smrl.nn.losses import bellman, squared_error
from smrl.nn.optimiser import TrainState, apply_gradient, polyak_update
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Count


@dataclass(frozen=True, kw_only=True)
class SAC(SoftConfig):
    """Hyperparameters of SAC; the defaults are the paper's table."""

    delay: Count = 1
    """Learning steps between two updates of the actor and the temperature."""
    target_interval: Count = 1
    """Learning steps between two updates of the target critics; at such a step every reuse makes one."""


def is_due(context: UpdateContext, every: int) -> Array | bool:
    """Return whether this learning step is one of every so many; where all are, XLA compiles nothing for others."""
    return every == 1 or context.step % every == 0


def sac(config: SAC, spec: Spec) -> Algorithm[SoftState]:
    """Make SAC for an environment."""
    base = soft_actor_critic(config, require_vectors_and_continuous_actions(spec, "SAC"), critics=2)
    actor, critics = base.actor, base.critics

    def target(state: SoftState, batch: Transition, alpha: Array, key: Key) -> Array:
        action_key, dropout_key = jax.random.split(key)
        next_action, next_log_prob = actor.sample(state.actor.params, batch.next_obs, action_key)
        next_q = critics(state.target_critics, batch.next_obs, next_action, dropout_key)
        # y = r + γ (1 − d) (min_i Q′_i(s′, a′) − α log π(a′|s′))
        return bellman(batch, next_q.min(axis=0) - alpha * next_log_prob)

    def update(state: SoftState, batch: Transition, context: UpdateContext, key: Key) -> tuple[SoftState, Metrics]:
        target_key, critic_key, actor_key = jax.random.split(key, 3)
        alpha = jnp.exp(state.log_alpha.params)
        y = target(state, batch, alpha, target_key)

        def critic_loss(params: Params) -> tuple[Array, Metrics]:  # Σ_i mean (Q_i(s, a) − y)²
            q = critics(params, batch.obs, batch.action, critic_key)
            loss = squared_error(q, y)
            return loss, {"critic_loss": loss, "q": q.mean()}

        new_critics, critic_metrics = apply_gradient(state.critics, critic_loss, config.optimiser("critic"))
        action_key, dropout_key = jax.random.split(actor_key)

        def actor_loss(params: Params) -> tuple[Array, Metrics]:  # mean (α log π(ã|s) − min_i Q_i(s, ã))
            action, log_prob = actor.sample(params, batch.obs, action_key)
            q = critics(new_critics.params, batch.obs, action, dropout_key).min(axis=0)
            loss = (alpha * log_prob - q).mean()
            return loss, {"actor_loss": loss, "entropy": -log_prob.mean()}

        def update_policy(actor: TrainState, log_alpha: TrainState) -> tuple[TrainState, TrainState, Metrics]:
            new_actor, report = apply_gradient(actor, actor_loss, config.optimiser("actor"))

            def temperature_loss(log_alpha: Params) -> tuple[Array, Metrics]:  # −α mean (log π(ã|s) + H̄)
                return config.temperature_weight(log_alpha) * (report["entropy"] - base.target_entropy), {}

            if config.temperature == "auto":
                log_alpha, _ = apply_gradient(log_alpha, temperature_loss, config.optimiser("temperature"))
            return new_actor, log_alpha, report

        def keep_policy(actor: TrainState, log_alpha: TrainState) -> tuple[TrainState, TrainState, Metrics]:
            return actor, log_alpha, dict.fromkeys(("actor_loss", "entropy"), jnp.full((), jnp.nan))

        new_actor, new_log_alpha, actor_metrics = jax.lax.cond(
            is_due(context, config.delay), update_policy, keep_policy, state.actor, state.log_alpha
        )
        new_targets = jax.lax.cond(
            is_due(context, config.target_interval),
            lambda old, new: polyak_update(old, new, config.tau),  # θ′ ← τ θ + (1 − τ) θ′
            lambda old, new: old,
            *(state.target_critics, new_critics.params),
        )
        metrics = critic_metrics | actor_metrics | {"alpha": alpha}
        return SoftState(new_actor, new_critics, new_log_alpha, new_targets), metrics

    return base.algorithm(spec, update)
