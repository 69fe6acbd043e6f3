"""DDPG, as "our DDPG" of Fujimoto et al. (2018): deterministic policy gradient with one critic.

y = r + γ (1 − d) Q′(s′, π′(s′))                    critic:  min mean (Q(s, a) − y)²
actor:  max mean Q(s, π(s))                         targets: θ′ ← τ θ + (1 − τ) θ′
"""

from dataclasses import dataclass

from smrl.algorithms.checks import check_hyperparameters
from smrl.algorithms.deterministic import State, pieces
from smrl.types import Algorithm, Key, Metrics, Spec, Tick, Transition


@dataclass(frozen=True)
class DDPG:
    """Hyperparameters of DDPG; the defaults are the paper's table."""

    actor_hidden: tuple[int, ...] = (256, 256)
    critic_hidden: tuple[int, ...] = (256, 256)
    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    tau: float = 0.005
    exploration_noise: float = 0.1

    def __post_init__(self) -> None:
        check_hyperparameters(self)


def ddpg(config: DDPG, spec: Spec) -> Algorithm[State]:
    """DDPG for an environment."""
    parts = pieces(config, spec, critics=1)

    def update(state: State, batch: Transition, tick: Tick, key: Key) -> tuple[State, Metrics]:
        next_action = parts.actor.apply(state.target_actor, batch.next_obs)
        state, critic_metrics = parts.update_critics(state, batch, next_action)
        state, actor_metrics = parts.update_actor(state, batch)
        return parts.update_targets(state), critic_metrics | actor_metrics

    return Algorithm(parts.init, parts.explore, parts.exploit, update)
