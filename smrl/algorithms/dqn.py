"""DQN (Mnih et al., 2015): Q-learning with a network, a replay memory and a target network.

y = r + γ (1 − d) max_a Q′(s′, a)                   critic: min mean (Q(s, a) − y)²
acting: with probability ε a uniformly random action, else arg max_a Q(s, a); ε falls linearly from 1
target: θ′ ← θ once every target_every agent steps, after all updates of a learning step
"""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from smrl.algorithms.parts.acceptance import discrete_control
from smrl.algorithms.parts.images import Convolutions
from smrl.errors import require
from smrl.nn import optimiser as gradients
from smrl.nn import targets
from smrl.nn.networks import MLP
from smrl.nn.optimiser import TrainState
from smrl.nn.vision import Encoder, check_size
from smrl.types import Algorithm, Appraisal, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Count, Share, Sizes


@dataclass(frozen=True, kw_only=True)
class DQN(Convolutions):
    """Hyperparameters of DQN; the defaults are those of the code that the paper ran."""

    learning_rate: float = 1e-4
    hidden: Sizes = (256,)
    """Sizes of the hidden layers, behind the convolutions where there are images."""
    filters: Sizes = (32, 64, 32)
    """Filters of the convolutions, where there are images."""
    kernels: Sizes = (8, 4, 3)
    strides: Sizes = (4, 2, 1)
    learn_every: Count = 4
    """Agent steps per learning step."""
    target_every: Count = 1_000
    """Agent steps between two copies of the network to the target network, a multiple of --learn-every."""
    epsilon: Share = 0.01
    """Probability ε of a random action, once it has fallen from 1."""
    epsilon_steps: Count | None = None
    """Agent steps in which ε falls from 1; by default a tenth of those that --steps makes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.target_every % self.learn_every == 0,
            f"target_every must be a multiple of the {self.learn_every} agent steps per learning step, not "
            f"{self.target_every}.",
        )

    def for_steps(self, steps: int) -> "DQN":
        """These hyperparameters in a run of so many agent steps."""
        return dataclasses.replace(self, epsilon_steps=self.epsilon_steps or max(1, steps // 10))


class State(NamedTuple):
    """The network with its optimiser, and the target network."""

    critics: TrainState
    target_critics: Params


class Network(nn.Module):
    """Q(s, ·) of vectors or images."""

    config: DQN
    actions: int

    @nn.compact
    def __call__(self, obs: Array) -> Array:  # (batch, actions)
        config = self.config
        features = Encoder(config.filters, config.kernels, config.strides)(obs) if obs.ndim == 4 else obs
        return MLP((*config.hidden, self.actions), activation=config.activation)(features)


def dqn(config: DQN, spec: Spec) -> Algorithm[State]:
    """DQN for an environment."""
    actions = discrete_control(spec, "DQN")
    if len(spec.obs.shape) == 3:
        check_size(spec.obs.shape, config.kernels, config.strides)
    network, optimiser = Network(config, actions), config.optimiser()

    def init(key: Key) -> State:
        params = network.init(key, spec.example().obs)
        return State(optimiser.start(params), target_critics=params)

    def q_value(params: Params, batch: Transition) -> Array:
        q = network.apply(params, batch.obs)
        return jnp.take_along_axis(q, batch.action[:, None], axis=1)[:, 0]

    def target(state: State, batch: Transition) -> Array:
        return targets.bellman(batch, network.apply(state.target_critics, batch.next_obs).max(axis=1))

    def td_error(state: State, batch: Transition, key: Key) -> Array:
        return q_value(state.critics.params, batch) - target(state, batch)

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        y = target(state, batch)

        def loss(params: Params) -> tuple[Array, Metrics]:
            q = q_value(params, batch)
            value = ((q - y) ** 2).mean()
            return value, {"critic_loss": value, "q": q.mean()}

        critics, metrics = gradients.apply_gradient(state.critics, loss, optimiser)
        return state._replace(critics=critics), metrics

    def after_updates(state: State, context: UpdateContext) -> State:
        is_due = context.step % (config.target_every // config.learn_every) == 0
        copied = jax.tree.map(lambda new, old: jnp.where(is_due, new, old), state.critics.params, state.target_critics)
        return state._replace(target_critics=copied)

    def exploit(state: State, obs: Array) -> Array:
        return network.apply(state.critics.params, jnp.asarray(obs)).argmax(axis=1).astype(jnp.int32)

    def explore(state: State, obs: Array, step: Array, key: Key) -> Array:
        chance_key, action_key = jax.random.split(key)
        fallen = jnp.minimum(step / (config.epsilon_steps or 1), 1.0)
        epsilon = 1 - (1 - config.epsilon) * fallen
        is_random = jax.random.uniform(chance_key, (len(obs),)) < epsilon
        return jnp.where(is_random, jax.random.randint(action_key, (len(obs),), 0, actions), exploit(state, obs))

    def appraise(state: State, obs: Array, key: Key) -> Appraisal:
        q = network.apply(state.critics.params, jnp.asarray(obs))
        nothing = jnp.zeros(len(q))
        return Appraisal(q.argmax(axis=1).astype(jnp.int32), q.max(axis=1), nothing, jnp.zeros(()))

    return Algorithm(init, explore, exploit, update, td_error, appraise, after_updates, learn_every=config.learn_every)
