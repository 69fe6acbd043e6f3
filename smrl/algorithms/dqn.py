"""DQN (Mnih et al., 2015): Q-learning with a network, a replay memory and a target network.

y = r + γ (1 − d) max_a Q′(s′, a)
critic:  min mean (Q(s, a) − y)²
target:  θ′ ← θ once every target_every agent steps, after all updates of a learning step
acting:  with probability ε a uniformly random action, else arg max_a Q(s, a); ε falls linearly from 1
"""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from smrl.algorithms.common import EncoderConfig, require_discrete_actions, without_entropy
from smrl.errors import require
from smrl.layers import Argmax, Layer
from smrl.nn.losses import bellman, squared_error
from smrl.nn.networks import MLP, mlp_layers
from smrl.nn.optimiser import TrainState, apply_gradient
from smrl.nn.vision import ImageEncoder, encoder_layers, require_large_enough
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Count, Share, Sizes


@dataclass(frozen=True, kw_only=True)
class DQN(EncoderConfig):
    """Hyperparameters of DQN; the defaults are those of the code that the paper ran."""

    learning_rate: float = 1e-4
    hidden: Sizes = (256,)
    """Sizes of the hidden layers, which follow the convolutions where there are images."""
    filters: Sizes = (32, 64, 32)
    """Filters of the convolutions, where there are images."""
    kernels: Sizes = (8, 4, 3)
    strides: Sizes = (4, 2, 1)
    learn_every: Count = 4
    """Agent steps per learning step."""
    target_every: Count = 1_000
    """Agent steps between two copies of the network to the target network, a multiple of --learn-every."""
    epsilon: Share = 0.01
    """Probability ε of a random action after it has fallen from 1."""
    epsilon_steps: Count | None = None
    """Agent steps over which ε falls from 1; by default a tenth of the run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.target_every % self.learn_every == 0,
            f"target_every must be a multiple of the {self.learn_every} agent steps per learning step, not "
            f"{self.target_every}.",
        )

    def for_steps(self, steps: int) -> "DQN":
        """Return these hyperparameters for a run of ``steps`` agent steps."""
        return dataclasses.replace(self, epsilon_steps=self.epsilon_steps or max(1, steps // 10))


class State(NamedTuple):
    """The network with its optimiser, and the target network."""

    critics: TrainState
    target_critics: Params


class Network(nn.Module):
    """Return Q(s, ·) for vectors or images."""

    config: DQN
    actions: int

    @nn.compact
    def __call__(self, obs: Array) -> Array:  # (batch, actions)
        config = self.config
        features = obs
        if obs.ndim == 4:  # the name is part of the path that seeds the initial weights
            features = ImageEncoder(config.filters, config.kernels, config.strides, name="Encoder_0")(obs)
        return MLP((*config.hidden, self.actions), activation=config.activation)(features)


def greedy_layers(config: DQN, params: Params) -> list[Layer]:
    """Return the layers of arg max_a Q(s, a)."""
    parts = params["params"]
    features = encoder_layers(parts["Encoder_0"], config.strides) if "Encoder_0" in parts else []
    return [*features, *mlp_layers(parts["MLP_0"], config.activation), Argmax()]


def dqn(config: DQN, spec: Spec) -> Algorithm[State]:
    """Make DQN for an environment."""
    actions = require_discrete_actions(spec, "DQN")
    if len(spec.obs.shape) == 3:
        require_large_enough(spec.obs.shape, config.kernels, config.strides)
    network, optimiser = Network(config, actions), config.optimiser()

    def init(key: Key) -> State:
        params = network.init(key, spec.example().obs)
        return State(optimiser.start(params), target_critics=params)

    def q_value(params: Params, obs: Array, action: Array) -> Array:
        return jnp.take_along_axis(network.apply(params, obs), action[:, None], axis=1)[:, 0]

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        # y = r + γ (1 − d) max_a Q′(s′, a)
        y = bellman(batch, network.apply(state.target_critics, batch.next_obs).max(axis=1))

        def critic_loss(params: Params) -> tuple[Array, Metrics]:  # mean (Q(s, a) − y)²
            q = q_value(params, batch.obs, batch.action)
            loss = squared_error(q, y)
            return loss, {"critic_loss": loss, "q": q.mean()}

        critics, metrics = apply_gradient(state.critics, critic_loss, optimiser)
        return state._replace(critics=critics), metrics

    def after_updates(state: State, context: UpdateContext) -> State:  # θ′ ← θ
        is_due = context.step % (config.target_every // config.learn_every) == 0
        copied = jax.tree.map(lambda new, old: jnp.where(is_due, new, old), state.critics.params, state.target_critics)
        return state._replace(target_critics=copied)

    def exploit(params: Params, obs: Array) -> Array:
        return network.apply(params, jnp.asarray(obs)).argmax(axis=1).astype(jnp.int32)

    def explore(params: Params, obs: Array, step: Array, key: Key) -> Array:
        chance_key, action_key = jax.random.split(key)
        fraction = jnp.minimum(step / (config.epsilon_steps or 1), 1.0)
        epsilon = 1 - (1 - config.epsilon) * fraction
        is_random = jax.random.uniform(chance_key, (len(obs),)) < epsilon
        return jnp.where(is_random, jax.random.randint(action_key, (len(obs),), 0, actions), exploit(params, obs))

    return Algorithm(
        init=init,
        update=update,
        explore=explore,
        exploit=exploit,
        policy_params=lambda state: state.critics.params,
        after_updates=after_updates,
        learn_every=config.learn_every,
        q_values=lambda state, obs, action: q_value(state.critics.params, jnp.asarray(obs), action)[None],
        policy_sample=lambda state, obs, key: without_entropy(exploit(state.critics.params, obs)),
        network=lambda params: greedy_layers(config, params),
    )
