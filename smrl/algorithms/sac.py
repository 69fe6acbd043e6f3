"""SAC (Haarnoja et al., 2018): twin soft critics, a tanh-Gaussian actor and a learned temperature.

a′ ~ π(s′)
y = r + γ (1 − d) (min_i Q′_i(s′, a′) − α log π(a′|s′))     critics: min Σ_i mean (Q_i(s, a) − y)²
actor: min mean (α log π(ã|s) − min_i Q_i(s, ã)),  ã ~ π(s)
temperature: min −α mean (log π(ã|s) + H̄),  α = exp(log α)
targets, every target_interval-th learning step: θ′ ← τ θ + (1 − τ) θ′
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from smrl.algorithms.parts.soft import SoftHyperparameters, State, pieces
from smrl.nn import losses, targets
from smrl.types import Algorithm, Array, Key, Metrics, Spec, Transition, UpdateContext
from smrl.validation import Count


@dataclass(frozen=True, kw_only=True)
class SAC(SoftHyperparameters):
    """Hyperparameters of SAC; the defaults are the paper's table."""

    target_interval: Count = 1
    """Learning steps between two soft updates of the target critics; at such a step every reuse makes one."""


def sac(config: SAC, spec: Spec) -> Algorithm[State]:
    """SAC for an environment."""
    parts = pieces(config, spec, critics=2, judge=targets.clipped_double)

    def target(state: State, batch: Transition, alpha: Array, key: Key) -> Array:
        next_q, next_log_prob = parts.look_ahead(state.actor.params, state.target_critics, batch.next_obs, key)
        return targets.bellman(batch, targets.soft_clipped_double(next_q, next_log_prob, alpha))

    def td_error(state: State, batch: Transition, key: Key) -> Array:
        y = target(state, batch, jnp.exp(state.log_alpha.params), key)
        return parts.mean_q(state, batch.obs, batch.action) - y

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        target_key, critic_key, actor_key = jax.random.split(key, 3)
        alpha = jnp.exp(state.log_alpha.params)
        y = target(state, batch, alpha, target_key)
        critics, critic_metrics = parts.update_critics(
            state.critics, batch, lambda q: losses.squared_error(q, y), critic_key
        )
        actor, actor_metrics = parts.update_actor(state.actor, critics.params, batch.obs, alpha, actor_key)
        log_alpha = parts.update_temperature(state.log_alpha, actor_metrics["entropy"])
        is_due = config.target_interval == 1 or context.step % config.target_interval == 0
        target_critics = jax.lax.cond(is_due, parts.follow, lambda old, _: old, state.target_critics, critics)
        metrics = critic_metrics | actor_metrics | {"alpha": alpha}
        return State(actor, critics, log_alpha, target_critics), metrics

    return Algorithm(parts.init, parts.explore, parts.exploit, update, td_error, parts.appraise)
