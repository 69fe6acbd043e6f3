"""TD3 (Fujimoto et al., 2018): DDPG with twin critics, target smoothing and a delayed actor.

    ã = clip(π′(s′) + clip(ε, ±c), ±1),  ε ~ N(0, σ̄²)
    y = r + γ (1 − d) min_i Q′_i(s′, ã)                 critics: min Σ_i mean (Q_i(s, a) − y)²
    every d-th environment step:  actor:  max mean Q_1(s, π(s));  targets: θ′ ← τ θ + (1 − τ) θ′

The delay counts environment steps and not updates, so one answer holds for all reuses of a batch: with reuse M
the actor and the targets move M times every d-th step and not at all between.
"""

from dataclasses import dataclass

import jax

from smrl.algorithms.checks import check_hyperparameters
from smrl.algorithms.deterministic import State, pieces
from smrl.algorithms.exploration import gaussian_noise
from smrl.errors import require
from smrl.types import Algorithm, Key, Metrics, Spec, Tick, Transition


@dataclass(frozen=True)
class TD3:
    """Hyperparameters of TD3; the defaults are the paper's table."""

    actor_hidden: tuple[int, ...] = (256, 256)
    critic_hidden: tuple[int, ...] = (256, 256)
    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    tau: float = 0.005
    exploration_noise: float = 0.1
    target_noise: float = 0.2
    noise_clip: float = 0.5
    delay: int = 2

    def __post_init__(self) -> None:
        check_hyperparameters(self)
        require(self.delay >= 1, f"delay must be at least 1, not {self.delay}.")


def td3(config: TD3, spec: Spec) -> Algorithm[State]:
    """TD3 for an environment."""
    parts = pieces(config, spec, critics=2)

    def update(state: State, batch: Transition, tick: Tick, key: Key) -> tuple[State, Metrics]:
        next_action = parts.actor.apply(state.target_actor, batch.next_obs)
        next_action = gaussian_noise(next_action, config.target_noise, key, config.noise_clip)
        state, metrics = parts.update_critics(state, batch, next_action)
        state = jax.lax.cond(
            tick.step % config.delay == 0,
            lambda state: parts.update_targets(parts.update_actor(state, batch)[0]),
            lambda state: state,
            state,
        )
        return state, metrics

    return Algorithm(parts.init, parts.explore, parts.exploit, update)
