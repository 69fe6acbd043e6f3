"""What deterministic actor-critics are put together from: DDPG and TD3 differ only in how they combine it."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from smrl import gradients, losses, targets
from smrl.algorithms.exploration import gaussian_noise
from smrl.algorithms.hyperparameters import Hyperparameters
from smrl.algorithms.regression import regress
from smrl.gradients import Trained
from smrl.networks import DeterministicActor, Ensemble, ensemble
from smrl.types import Appraisal, Array, Key, Metrics, Params, Spec, Transition


class State(NamedTuple):
    """What is learned."""

    actor: Trained
    critics: Trained
    target_actor: Params
    target_critics: Params


@dataclass(frozen=True)
class Pieces:
    """Networks with their optimisers, and the steps that an update is made of."""

    spec: Spec
    actor: DeterministicActor
    critics: Ensemble
    actor_optimiser: optax.GradientTransformation
    critic_optimiser: optax.GradientTransformation
    tau: float
    exploration_noise: float

    def init(self, key: Key) -> State:
        """Fresh networks; the targets start as exact copies."""
        actor_key, critic_key = jax.random.split(key)
        obs, action = jnp.zeros((1, self.spec.obs_size)), jnp.zeros((1, self.spec.action_size))
        actor, critics = self.actor.init(actor_key, obs), self.critics.init(critic_key, obs, action)
        return State(
            gradients.start(actor, self.actor_optimiser),
            gradients.start(critics, self.critic_optimiser),
            target_actor=actor,
            target_critics=critics,
        )

    def update_critics(self, state: State, batch: Transition, next_action: Array, key: Key) -> tuple[State, Metrics]:
        """Regress every critic to y = r + γ (1 − d) min_i Q′_i(s′, a′)."""
        target_key, critic_key = jax.random.split(key)
        next_q = self.critics(state.target_critics, batch.next_obs, next_action, key=target_key)
        y = targets.bellman(batch, targets.clipped_double(next_q))
        critics, metrics = regress(
            self.critics, state.critics, self.critic_optimiser, batch, lambda q: losses.squared_error(q, y), critic_key
        )
        return state._replace(critics=critics), metrics

    def update_actor(self, state: State, batch: Transition, key: Key) -> tuple[State, Metrics]:
        """Maximise mean Q_1(s, π(s)) under the newest critics."""

        def loss(params: Params) -> tuple[Array, Metrics]:
            q = self.critics(state.critics.params, batch.obs, self.actor.apply(params, batch.obs), key=key)
            value = -q[0].mean()
            return value, {"actor_loss": value}

        actor, metrics = gradients.descend(state.actor, loss, self.actor_optimiser)
        return state._replace(actor=actor), metrics

    def update_targets(self, state: State) -> State:
        """Move all targets a little towards the newest networks."""
        return state._replace(
            target_actor=targets.soft_update(state.target_actor, state.actor.params, self.tau),
            target_critics=targets.soft_update(state.target_critics, state.critics.params, self.tau),
        )

    def exploit(self, state: State, obs: Array | np.ndarray) -> Array:
        """π(s)."""
        return self.actor.apply(state.actor.params, obs)

    def explore(self, state: State, obs: Array | np.ndarray, step: Array, key: Key) -> Array:
        """π(s) + ε."""
        return gaussian_noise(self.exploit(state, obs), self.exploration_noise, key)

    def appraise(self, state: State, obs: Array | np.ndarray, key: Key) -> Appraisal:
        """π(s), and the mean of what all critics say of it."""
        action = self.exploit(state, obs)
        q = self.critics(state.critics.params, jnp.asarray(obs), action).mean(axis=0)
        return Appraisal(action, q, jnp.zeros_like(q), jnp.zeros(()))


def pieces(config: Hyperparameters, spec: Spec, critics: int) -> Pieces:
    """The pieces for an environment, with so many critics."""
    return Pieces(
        spec,
        DeterministicActor(config.actor_hidden, spec.action_size),
        ensemble(config.critic(), critics),
        gradients.adam(config.rate("actor")),
        gradients.adam(config.rate("critic")),
        config.tau,
        config.exploration_noise,
    )
