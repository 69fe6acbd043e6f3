"""TD3 (Fujimoto et al., 2018): DDPG with twin critics, target smoothing and a delayed actor.

    ã = clip(π′(s′) + clip(ε, ±c), ±1),  ε ~ N(0, σ̄²)
    y = r + γ (1 − d) min_i Q′_i(s′, ã)                 critics: min Σ_i mean (Q_i(s, a) − y)²
    every d-th environment step:  actor:  max mean Q_1(s, π(s));  targets: θ′ ← τ θ + (1 − τ) θ′

The delay counts environment steps and not updates, so one answer holds for all reuses of a batch: with reuse M
the actor and the targets move M times every d-th step and not at all between.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from smrl import gradients, targets
from smrl.algorithms.checks import check_hyperparameters
from smrl.algorithms.exploration import gaussian_noise
from smrl.errors import require
from smrl.gradients import Trained
from smrl.networks import Critic, DeterministicActor, ensemble
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Tick, Transition


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


class State(NamedTuple):
    """What is learned."""

    actor: Trained
    critics: Trained
    target_actor: Params
    target_critics: Params


def td3(config: TD3, spec: Spec) -> Algorithm[State]:
    """TD3 for an environment."""
    actor = DeterministicActor(config.actor_hidden, spec.action_size)
    critics = ensemble(Critic(config.critic_hidden), 2)
    actor_optimiser = gradients.adam(config.actor_learning_rate)
    critic_optimiser = gradients.adam(config.critic_learning_rate)

    def init(key: Key) -> State:
        actor_key, critic_key = jax.random.split(key)
        obs, action = jnp.zeros((1, spec.obs_size)), jnp.zeros((1, spec.action_size))
        actor_params = actor.init(actor_key, obs)
        critic_params = critics.init(critic_key, obs, action)
        return State(
            gradients.start(actor_params, actor_optimiser),
            gradients.start(critic_params, critic_optimiser),
            target_actor=actor_params,
            target_critics=critic_params,
        )

    def update_critics(state: State, batch: Transition, key: Key) -> tuple[State, Metrics]:
        next_action = actor.apply(state.target_actor, batch.next_obs)
        next_action = gaussian_noise(next_action, config.target_noise, key, config.noise_clip)
        next_q = critics(state.target_critics, batch.next_obs, next_action)
        y = targets.bellman(batch, targets.clipped_double(next_q))

        def loss(params: Params) -> tuple[Array, Metrics]:
            q = critics(params, batch.obs, batch.action)
            value = gradients.squared_error(q, y)
            return value, {"critic_loss": value, "q": q.mean()}

        new_critics, metrics = gradients.descend(state.critics, loss, critic_optimiser)
        return state._replace(critics=new_critics), metrics

    def update_actor_and_targets(state: State, batch: Transition) -> State:
        def loss(params: Params) -> tuple[Array, Metrics]:
            q = critics(state.critics.params, batch.obs, actor.apply(params, batch.obs))
            return -q[0].mean(), {}

        new_actor, _ = gradients.descend(state.actor, loss, actor_optimiser)
        return state._replace(
            actor=new_actor,
            target_actor=targets.soft_update(state.target_actor, new_actor.params, config.tau),
            target_critics=targets.soft_update(state.target_critics, state.critics.params, config.tau),
        )

    def update(state: State, batch: Transition, tick: Tick, key: Key) -> tuple[State, Metrics]:
        state, metrics = update_critics(state, batch, key)
        state = jax.lax.cond(
            tick.step % config.delay == 0,
            lambda state: update_actor_and_targets(state, batch),
            lambda state: state,
            state,
        )
        return state, metrics

    def exploit(state: State, obs: Array | np.ndarray) -> Array:
        return actor.apply(state.actor.params, obs)

    def explore(state: State, obs: Array | np.ndarray, step: Array, key: Key) -> Array:
        return gaussian_noise(exploit(state, obs), config.exploration_noise, key)

    return Algorithm(init, explore, exploit, update)
