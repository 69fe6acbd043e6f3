"""DDPG, as "our DDPG" of Fujimoto et al. (2018): deterministic policy gradient with one critic.

y = r + γ (1 − d) Q′(s′, π′(s′))
critic:   min mean (Q(s, a) − y)²
actor:    max mean Q(s, π(s))
targets:  θ′ ← τ θ + (1 − τ) θ′
"""

from dataclasses import dataclass

import jax

from smrl.algorithms.common import ActorCriticConfig, ActorCriticState, deterministic_actor_critic
from smrl.nn.losses import bellman, squared_error
from smrl.nn.optimiser import apply_gradient, polyak_update
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Transition, UpdateContext


@dataclass(frozen=True, kw_only=True)
class DDPG(ActorCriticConfig):
    """Hyperparameters of DDPG; the defaults are the paper's table."""


def ddpg(config: DDPG, spec: Spec) -> Algorithm[ActorCriticState]:
    """Make DDPG for an environment."""
    base = deterministic_actor_critic(config, spec, critics=1)
    actor, critic = base.actor, base.critics

    def update(
        state: ActorCriticState, batch: Transition, context: UpdateContext, key: Key
    ) -> tuple[ActorCriticState, Metrics]:
        both_critics_key, actor_key = jax.random.split(key)
        target_key, critic_key = jax.random.split(both_critics_key)

        # y = r + γ (1 − d) Q′(s′, π′(s′))
        next_action = actor.apply(state.target_actor, batch.next_obs)
        next_q = critic(state.target_critics, batch.next_obs, next_action, target_key)
        y = bellman(batch, next_q.min(axis=0))

        def critic_loss(params: Params) -> tuple[Array, Metrics]:  # mean (Q(s, a) − y)²
            q = critic(params, batch.obs, batch.action, critic_key)
            loss = squared_error(q, y)
            return loss, {"critic_loss": loss, "q": q.mean()}

        new_critic, critic_metrics = apply_gradient(state.critics, critic_loss, config.optimiser("critic"))

        def actor_loss(params: Params) -> tuple[Array, Metrics]:  # −mean Q(s, π(s))
            action = actor.apply(params, batch.obs)
            loss = -critic.first(new_critic.params, batch.obs, action, actor_key).mean()
            return loss, {"actor_loss": loss}

        new_actor, actor_metrics = apply_gradient(state.actor, actor_loss, config.optimiser("actor"))
        new_state = ActorCriticState(
            new_actor,
            new_critic,
            target_actor=polyak_update(state.target_actor, new_actor.params, config.tau),
            target_critics=polyak_update(state.target_critics, new_critic.params, config.tau),
        )
        return new_state, critic_metrics | actor_metrics

    return base.algorithm(update)
