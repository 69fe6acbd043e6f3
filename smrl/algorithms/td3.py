"""TD3 (Fujimoto et al., 2018): DDPG with twin critics, target smoothing and a delayed actor.

    ã = clip(π′(s′) + clip(ε, ±c), ±1),  ε ~ N(0, σ̄²)
    y = r + γ (1 − d) min_i Q′_i(s′, ã)                 critics: min Σ_i mean (Q_i(s, a) − y)²
    every delay-th learning step:  actor:  max mean Q_1(s, π(s));  targets: θ′ ← τ θ + (1 − τ) θ′

The delay counts learning steps, not updates, so all reuses of a batch agree: the actor and the target networks are
updated M times at every delay-th learning step and not at all at the others.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from smrl.algorithms.parts.deterministic import State, pieces
from smrl.algorithms.parts.exploration import gaussian_noise
from smrl.algorithms.parts.hyperparameters import Hyperparameters
from smrl.types import Algorithm, Array, Key, Metrics, Spec, Transition, UpdateContext
from smrl.validation import Count, NonNegative


@dataclass(frozen=True, kw_only=True)
class TD3(Hyperparameters):
    """Hyperparameters of TD3; the defaults are the paper's table."""

    target_noise: NonNegative = 0.2
    """Standard deviation of the noise on the target policy's actions (target policy smoothing)."""
    noise_clip: NonNegative = 0.5
    """Bound of the noise on the target policy's actions."""
    delay: Count = 2
    """Learning steps between two updates of the actor and the target networks."""


def td3(config: TD3, spec: Spec) -> Algorithm[State]:
    """TD3 for an environment."""
    parts = pieces(config, spec, critics=2)

    def next_action(state: State, batch: Transition, key: Key) -> Array:
        action = parts.actor.apply(state.target_actor, batch.next_obs)
        return gaussian_noise(action, config.target_noise, key, config.noise_clip)

    def td_error(state: State, batch: Transition, key: Key) -> Array:
        noise_key, target_key = jax.random.split(key)
        return parts.td_error(state, batch, next_action(state, batch, noise_key), target_key)

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        noise_key, critic_key, actor_key = jax.random.split(key, 3)
        state, metrics = parts.update_critics(state, batch, next_action(state, batch, noise_key), critic_key)

        def improve(state: State) -> tuple[State, Array]:
            state, report = parts.update_actor(state, batch, actor_key)
            return parts.update_targets(state), report["actor_loss"]

        is_due = context.step % config.delay == 0
        state, actor_loss = jax.lax.cond(is_due, improve, lambda state: (state, jnp.full((), jnp.nan)), state)
        return state, metrics | {"actor_loss": actor_loss}

    return Algorithm(parts.init, parts.explore, parts.exploit, update, td_error, parts.appraise)
