"""TD3 (Fujimoto et al., 2018): DDPG with twin critics, target smoothing and a delayed actor.

    ã = clip(π′(s′) + clip(ε, ±c), ±1),  ε ~ N(0, σ̄²)
    y = r + γ (1 − d) min_i Q′_i(s′, ã)                 critics: min Σ_i mean (Q_i(s, a) − y)²
    every d-th environment step:  actor:  max mean Q_1(s, π(s));  targets: θ′ ← τ θ + (1 − τ) θ′

The delay counts environment steps and not updates, so one answer holds for all reuses of a batch: with reuse M
the actor and the targets move M times every d-th step and not at all between.
"""

from dataclasses import dataclass

import jax

from smrl.algorithms.deterministic import State, pieces
from smrl.algorithms.exploration import gaussian_noise
from smrl.algorithms.hyperparameters import Hyperparameters
from smrl.types import Algorithm, Key, Metrics, Spec, Tick, Transition


@dataclass(frozen=True, kw_only=True)
class TD3(Hyperparameters):
    """Hyperparameters of TD3; the defaults are the paper's table."""

    target_noise: float = 0.2
    """Standard deviation of the noise on the target's actions."""
    noise_clip: float = 0.5
    """That noise is clipped to plus or minus this."""
    delay: int = 2
    """Environment steps per one on which the actor and the targets learn."""


def td3(config: TD3, spec: Spec) -> Algorithm[State]:
    """TD3 for an environment."""
    parts = pieces(config, spec, critics=2)

    def update(state: State, batch: Transition, tick: Tick, key: Key) -> tuple[State, Metrics]:
        noise_key, critic_key, actor_key = jax.random.split(key, 3)
        next_action = parts.actor.apply(state.target_actor, batch.next_obs)
        next_action = gaussian_noise(next_action, config.target_noise, noise_key, config.noise_clip)
        state, metrics = parts.update_critics(state, batch, next_action, critic_key)
        state = jax.lax.cond(
            tick.step % config.delay == 0,
            lambda state: parts.update_targets(parts.update_actor(state, batch, actor_key)[0]),
            lambda state: state,
            state,
        )
        return state, metrics

    return Algorithm(parts.init, parts.explore, parts.exploit, update, parts.appraise)
