"""TD3 (Fujimoto et al., 2018): DDPG with twin critics, target smoothing and a delayed actor.

    ã = clip(π′(s′) + clip(ε, ±c), ±1),  ε ~ N(0, σ̄²)
    y = r + γ (1 − d) min_i Q′_i(s′, ã)
    critics:  min Σ_i mean (Q_i(s, a) − y)²

Every delay-th learning step:

    actor:    max mean Q_1(s, π(s))
    targets:  θ′ ← τ θ + (1 − τ) θ′

The delay counts learning steps, not updates, so all reuses of a batch agree: the actor and the target networks are
updated M times at every delay-th learning step, and not at all at the others.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from smrl.algorithms.common import ActorCriticConfig, ActorCriticState, deterministic_actor_critic, gaussian_noise
from smrl.nn.losses import bellman, squared_error
from smrl.nn.optimiser import apply_gradient, polyak_update
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Count, NonNegative


@dataclass(frozen=True, kw_only=True)
class TD3(ActorCriticConfig):
    """Hyperparameters of TD3; the defaults are the paper's table."""

    target_noise: NonNegative = 0.2
    """Standard deviation of the noise on the target policy's actions (target policy smoothing)."""
    noise_clip: NonNegative = 0.5
    """Bound of the noise on the target policy's actions."""
    delay: Count = 2
    """Learning steps between two updates of the actor, and in TD3 of the target networks."""


def td3(config: TD3, spec: Spec) -> Algorithm[ActorCriticState]:
    """Make TD3 for an environment."""
    base = deterministic_actor_critic(config, spec, critics=2)
    actor, critics = base.actor, base.critics

    def update(
        state: ActorCriticState, batch: Transition, context: UpdateContext, key: Key
    ) -> tuple[ActorCriticState, Metrics]:
        noise_key, both_critics_key, actor_key = jax.random.split(key, 3)
        target_key, critic_key = jax.random.split(both_critics_key)

        # y = r + γ (1 − d) min_i Q′_i(s′, ã),  ã = clip(π′(s′) + clip(ε, ±c), ±1)
        next_action = actor.apply(state.target_actor, batch.next_obs)
        next_action = gaussian_noise(next_action, config.target_noise, noise_key, config.noise_clip)
        next_q = critics(state.target_critics, batch.next_obs, next_action, target_key)
        y = bellman(batch, next_q.min(axis=0))

        def critic_loss(params: Params) -> tuple[Array, Metrics]:  # Σ_i mean (Q_i(s, a) − y)²
            q = critics(params, batch.obs, batch.action, critic_key)
            loss = squared_error(q, y)
            return loss, {"critic_loss": loss, "q": q.mean()}

        new_critics, metrics = apply_gradient(state.critics, critic_loss, config.optimiser("critic"))
        state = state._replace(critics=new_critics)

        def actor_loss(params: Params) -> tuple[Array, Metrics]:  # −mean Q_1(s, π(s))
            action = actor.apply(params, batch.obs)
            loss = -critics.first(new_critics.params, batch.obs, action, actor_key).mean()
            return loss, {"actor_loss": loss}

        def update_actor_and_targets(state: ActorCriticState) -> tuple[ActorCriticState, Array]:
            new_actor, report = apply_gradient(state.actor, actor_loss, config.optimiser("actor"))
            new_state = state._replace(
                actor=new_actor,
                target_actor=polyak_update(state.target_actor, new_actor.params, config.tau),
                target_critics=polyak_update(state.target_critics, state.critics.params, config.tau),
            )
            return new_state, report["actor_loss"]

        is_due = context.step % config.delay == 0
        state, loss = jax.lax.cond(
            is_due, update_actor_and_targets, lambda state: (state, jnp.full((), jnp.nan)), state
        )
        return state, metrics | {"actor_loss": loss}

    return base.algorithm(update)
