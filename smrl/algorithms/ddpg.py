"""DDPG, as "our DDPG" of Fujimoto et al. (2018): deterministic policy gradient with one critic.

y = r + γ (1 − d) Q′(s′, π′(s′))                    critic:  min mean (Q(s, a) − y)²
actor:  max mean Q(s, π(s))                         targets: θ′ ← τ θ + (1 − τ) θ′
"""

from dataclasses import dataclass

import jax

from smrl.algorithms.parts.deterministic import State, pieces
from smrl.algorithms.parts.hyperparameters import Hyperparameters
from smrl.types import Algorithm, Array, Key, Metrics, Spec, Transition, UpdateContext


@dataclass(frozen=True, kw_only=True)
class DDPG(Hyperparameters):
    """Hyperparameters of DDPG; the defaults are the paper's table."""


def ddpg(config: DDPG, spec: Spec) -> Algorithm[State]:
    """DDPG for an environment."""
    parts = pieces(config, spec, critics=1)

    def next_action(state: State, batch: Transition) -> Array:
        return parts.actor.apply(state.target_actor, batch.next_obs)

    def td_error(state: State, batch: Transition, key: Key) -> Array:
        return parts.td_error(state, batch, next_action(state, batch), key)

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        critic_key, actor_key = jax.random.split(key)
        state, critic_metrics = parts.update_critics(state, batch, next_action(state, batch), critic_key)
        state, actor_metrics = parts.update_actor(state, batch, actor_key)
        return parts.update_targets(state), critic_metrics | actor_metrics

    return Algorithm(parts.init, parts.explore, parts.exploit, update, td_error, parts.appraise)
