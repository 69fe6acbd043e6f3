"""DDPG, as "our DDPG" of Fujimoto et al. (2018): deterministic policy gradient with one critic.

y = r + γ (1 − d) Q′(s′, π′(s′))                    critic:  min mean (Q(s, a) − y)²
actor:  max mean Q(s, π(s))                         targets: θ′ ← τ θ + (1 − τ) θ′
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from smrl import gradients, targets
from smrl.algorithms.checks import check_hyperparameters
from smrl.algorithms.exploration import gaussian_noise
from smrl.gradients import Trained
from smrl.networks import Critic, DeterministicActor
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Tick, Transition


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


class State(NamedTuple):
    """What is learned."""

    actor: Trained
    critic: Trained
    target_actor: Params
    target_critic: Params


def ddpg(config: DDPG, spec: Spec) -> Algorithm[State]:
    """DDPG for an environment."""
    actor = DeterministicActor(config.actor_hidden, spec.action_size)
    critic = Critic(config.critic_hidden)
    actor_optimiser = gradients.adam(config.actor_learning_rate)
    critic_optimiser = gradients.adam(config.critic_learning_rate)

    def init(key: Key) -> State:
        actor_key, critic_key = jax.random.split(key)
        obs, action = jnp.zeros((1, spec.obs_size)), jnp.zeros((1, spec.action_size))
        actor_params = actor.init(actor_key, obs)
        critic_params = critic.init(critic_key, obs, action)
        return State(
            gradients.start(actor_params, actor_optimiser),
            gradients.start(critic_params, critic_optimiser),
            target_actor=actor_params,
            target_critic=critic_params,
        )

    def update(state: State, batch: Transition, tick: Tick, key: Key) -> tuple[State, Metrics]:
        next_action = actor.apply(state.target_actor, batch.next_obs)
        next_q = critic.apply(state.target_critic, batch.next_obs, next_action)
        y = targets.bellman(batch, next_q)

        def critic_loss(params: Params) -> tuple[Array, Metrics]:
            q = critic.apply(params, batch.obs, batch.action)
            loss = gradients.squared_error(q, y)
            return loss, {"critic_loss": loss, "q": q.mean()}

        new_critic, critic_metrics = gradients.descend(state.critic, critic_loss, critic_optimiser)

        def actor_loss(params: Params) -> tuple[Array, Metrics]:
            loss = -critic.apply(new_critic.params, batch.obs, actor.apply(params, batch.obs)).mean()
            return loss, {"actor_loss": loss}

        new_actor, actor_metrics = gradients.descend(state.actor, actor_loss, actor_optimiser)

        return State(
            new_actor,
            new_critic,
            target_actor=targets.soft_update(state.target_actor, new_actor.params, config.tau),
            target_critic=targets.soft_update(state.target_critic, new_critic.params, config.tau),
        ), critic_metrics | actor_metrics

    def exploit(state: State, obs: Array | np.ndarray) -> Array:
        return actor.apply(state.actor.params, obs)

    def explore(state: State, obs: Array | np.ndarray, step: Array, key: Key) -> Array:
        return gaussian_noise(exploit(state, obs), config.exploration_noise, key)

    return Algorithm(init, explore, exploit, update)
