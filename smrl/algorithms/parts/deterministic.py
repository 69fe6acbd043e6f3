"""Building blocks of deterministic actor-critics, shared by DDPG and TD3."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from smrl.algorithms.parts.acceptance import continuous_control
from smrl.algorithms.parts.exploration import gaussian_noise
from smrl.algorithms.parts.hyperparameters import Hyperparameters
from smrl.algorithms.parts.regression import regress
from smrl.nn import losses, targets
from smrl.nn import optimiser as gradients
from smrl.nn.networks import DeterministicActor, Ensemble, ensemble
from smrl.nn.optimiser import Adam, TrainState
from smrl.types import Appraisal, Array, Key, Metrics, Params, Spec, Transition


class State(NamedTuple):
    """Networks with their optimisers, and the target networks."""

    actor: TrainState
    critics: TrainState
    target_actor: Params
    target_critics: Params


@dataclass(frozen=True)
class Pieces:
    """Networks, optimisers and the steps of an update."""

    spec: Spec
    actor: DeterministicActor
    critics: Ensemble
    actor_optimiser: Adam
    critic_optimiser: Adam
    tau: float
    exploration_noise: float

    def init(self, key: Key) -> State:
        """New networks; target networks start as exact copies."""
        actor_key, critic_key = jax.random.split(key)
        example = self.spec.example()
        actor = self.actor.init(actor_key, example.obs)
        critics = self.critics.init(critic_key, example.obs, example.action)
        return State(
            self.actor_optimiser.start(actor),
            self.critic_optimiser.start(critics),
            target_actor=actor,
            target_critics=critics,
        )

    def target(self, state: State, batch: Transition, next_action: Array, key: Key) -> Array:
        """y = r + γ (1 − d) min_i Q′_i(s′, a′); the key is for dropout."""
        next_q = self.critics(state.target_critics, batch.next_obs, next_action, key=key)
        return targets.bellman(batch, targets.clipped_double(next_q))

    def td_error(self, state: State, batch: Transition, next_action: Array, key: Key) -> Array:
        """TD error mean_i Q_i(s, a) − y."""
        q = self.critics(state.critics.params, batch.obs, batch.action).mean(axis=0)
        return q - self.target(state, batch, next_action, key)

    def update_critics(self, state: State, batch: Transition, next_action: Array, key: Key) -> tuple[State, Metrics]:
        """Regress every critic to the target."""
        target_key, critic_key = jax.random.split(key)
        y = self.target(state, batch, next_action, target_key)
        critics, metrics = regress(
            self.critics, state.critics, self.critic_optimiser, batch, lambda q: losses.squared_error(q, y), critic_key
        )
        return state._replace(critics=critics), metrics

    def update_actor(self, state: State, batch: Transition, key: Key) -> tuple[State, Metrics]:
        """Maximise mean Q_1(s, π(s)) under the newest critics."""

        def loss(params: Params) -> tuple[Array, Metrics]:
            action = self.actor.apply(params, batch.obs)
            value = -self.critics.first(state.critics.params, batch.obs, action, key=key).mean()
            return value, {"actor_loss": value}

        actor, metrics = gradients.apply_gradient(state.actor, loss, self.actor_optimiser)
        return state._replace(actor=actor), metrics

    def update_targets(self, state: State) -> State:
        """Soft update of all target networks."""
        return state._replace(
            target_actor=targets.polyak_update(state.target_actor, state.actor.params, self.tau),
            target_critics=targets.polyak_update(state.target_critics, state.critics.params, self.tau),
        )

    def exploit(self, state: State, obs: Array) -> Array:
        """Greedy action π(s)."""
        return self.actor.apply(state.actor.params, obs)

    def explore(self, state: State, obs: Array, step: Array, key: Key) -> Array:
        """Greedy action plus Gaussian noise."""
        return gaussian_noise(self.exploit(state, obs), self.exploration_noise, key)

    def appraise(self, state: State, obs: Array, key: Key) -> Appraisal:
        """Greedy action and its mean value over all critics."""
        action = self.exploit(state, obs)
        q = self.critics(state.critics.params, jnp.asarray(obs), action).mean(axis=0)
        return Appraisal(action, q, jnp.zeros_like(q), jnp.zeros(()))


def pieces(config: Hyperparameters, spec: Spec, critics: int) -> Pieces:
    """Networks and optimisers for an environment, with this number of critics."""
    action_size = continuous_control(spec, type(config).__name__)
    return Pieces(
        spec,
        DeterministicActor(config.actor_hidden, action_size, config.actor_start(), config.activation),
        ensemble(config.critic(), critics),
        config.optimiser("actor"),
        config.optimiser("critic"),
        config.tau,
        config.exploration_noise,
    )
