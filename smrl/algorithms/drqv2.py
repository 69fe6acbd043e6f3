"""DrQ-v2 (Yarats et al., 2022): DDPG with twin critics from images, which are shifted at random.

h = f(shift(s)), h′ = f(shift(s′))                   one encoder f, which the critics' loss alone trains
ã = π(h′) + clip(ε, ±c),  ε ~ N(0, σ²)               σ falls linearly over the first noise_steps agent steps
y = Σ γᵏ r + γⁿ (1 − d) min_i Q′_i(h′, ã)            critics and encoder: min Σ_i mean (Q_i(h, a) − y)²
actor: max mean min_i Q_i(h, π(h) + clip(ε, ±c))     at the features of before the encoder's step
targets: θ′ ← τ θ + (1 − τ) θ′                       of the critics; the encoder has none
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from smrl.algorithms.parts.acceptance import image_control
from smrl.algorithms.parts.images import Augmented, Sight
from smrl.nn import losses, targets
from smrl.nn import optimiser as gradients
from smrl.nn.networks import MLP, Activation, orthogonal
from smrl.nn.optimiser import TrainState
from smrl.nn.vision import Encoder, check_size
from smrl.types import Algorithm, Appraisal, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Count, NonNegative, PositiveShare, Sizes

LARGEST_ACTION = 1 - 1e-6


@dataclass(frozen=True, kw_only=True)
class DrQv2(Augmented):
    """Hyperparameters of DrQ-v2; the defaults are those of its authors' code."""

    learning_rate: float = 1e-4
    filters: Sizes = (32, 32, 32, 32)
    kernels: Sizes = (3, 3, 3, 3)
    strides: Sizes = (2, 1, 1, 1)
    augmentation: Literal["none", "reuse", "batch"] = "reuse"
    features: Count = 50
    """Features that the actor and the critics make of the encoder's output."""
    actor_hidden: Sizes = (1024, 1024)
    """Sizes of the actor's hidden layers."""
    critic_hidden: Sizes = (1024, 1024)
    """Sizes of each critic's hidden layers."""
    tau: PositiveShare = 0.01
    """Share of the critics' weights in every soft update of their target networks."""
    first_noise: NonNegative = 1.0
    """Standard deviation of the exploration noise at the first step."""
    last_noise: NonNegative = 0.1
    """Standard deviation of the exploration noise once it has fallen."""
    noise_steps: Count = 100_000
    """Agent steps in which the exploration noise falls."""
    noise_clip: NonNegative = 0.3
    """Bound of the noise on the actions in the updates."""
    learn_every: Count = 2
    """Agent steps per learning step."""


class State(NamedTuple):
    """Networks with their optimisers, and the target critics."""

    encoder: TrainState
    actor: TrainState
    critics: TrainState
    target_critics: Params


class Trunk(nn.Module):
    """The encoder's output to a few features: linear, LayerNorm, tanh."""

    features: int

    @nn.compact
    def __call__(self, h: Array) -> Array:
        return jnp.tanh(nn.LayerNorm(epsilon=1e-5)(MLP((self.features,), orthogonal())(h)))


class Actor(nn.Module):
    """π(h), the mean of the actions."""

    features: int
    hidden: Sequence[int]
    action_size: int
    activation: Activation

    @nn.compact
    def __call__(self, h: Array) -> Array:
        return jnp.tanh(MLP((*self.hidden, self.action_size), orthogonal(), self.activation)(Trunk(self.features)(h)))


class Critics(nn.Module):
    """Q_1(h, a) and Q_2(h, a), which share a trunk."""

    features: int
    hidden: Sequence[int]
    activation: Activation

    @nn.compact
    def __call__(self, h: Array, action: Array) -> Array:  # (2, batch)
        x = jnp.concatenate([Trunk(self.features)(h), action], -1)
        heads = [MLP((*self.hidden, 1), orthogonal(), self.activation) for _ in range(2)]
        return jnp.stack([head(x).squeeze(-1) for head in heads])


def drqv2(config: DrQv2, spec: Spec) -> Algorithm[State]:
    """DrQ-v2 for an environment."""
    actions = image_control(spec, "DrQ-v2")
    check_size(spec.obs.shape, config.kernels, config.strides)
    encoder = Encoder(config.filters, config.kernels, config.strides, centre=0.5)
    actor = Actor(config.features, config.actor_hidden, actions, config.activation)
    critics = Critics(config.features, config.critic_hidden, config.activation)
    optimiser = config.optimiser()
    sight = Sight(config, encoder, optimiser)

    def init(key: Key) -> State:
        encoder_key, actor_key, critic_key = jax.random.split(key, 3)
        example = spec.example()
        encoder_params = encoder.init(encoder_key, example.obs)
        h = encoder.apply(encoder_params, example.obs)
        critic_params = critics.init(critic_key, h, example.action)
        return State(
            optimiser.start(encoder_params),
            optimiser.start(actor.init(actor_key, h)),
            optimiser.start(critic_params),
            target_critics=critic_params,
        )

    def reset(state: State, key: Key) -> State:
        return init(key)._replace(encoder=state.encoder)

    def noise_scale(agent_step: Array) -> Array:
        fallen = jnp.minimum(agent_step / config.noise_steps, 1.0)
        return (1 - fallen) * config.first_noise + fallen * config.last_noise

    def act(params: Params, h: Array, scale: Array, clip: float, key: Key) -> Array:
        """π(h) plus noise; the gradient ignores that actions are bounded."""
        mean = actor.apply(params, h)
        wanted = mean + jnp.clip(scale * jax.random.normal(key, mean.shape), -clip, clip)
        return wanted + jax.lax.stop_gradient(jnp.clip(wanted, -LARGEST_ACTION, LARGEST_ACTION) - wanted)

    def target(state: State, batch: Transition, scale: Array, key: Key) -> Array:
        h = encoder.apply(state.encoder.params, batch.next_obs)
        next_action = act(state.actor.params, h, scale, config.noise_clip, key)
        return targets.bellman(batch, targets.clipped_double(critics.apply(state.target_critics, h, next_action)))

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        shift_key, target_key, actor_key = jax.random.split(key, 3)
        batch, scale = sight.augment(batch, context, shift_key), noise_scale(context.agent_step)
        y = target(state, batch, scale, target_key)
        new_encoder, new_critics, h, metrics = sight.update_critics(
            *(state.encoder, state.critics, optimiser, batch.obs),
            q_of=lambda params, h: critics.apply(params, h, batch.action),
            error=lambda q: losses.squared_error(q, y),
        )

        def loss(params: Params) -> tuple[Array, Metrics]:
            action = act(params, h, scale, config.noise_clip, actor_key)
            value = -critics.apply(new_critics.params, h, action).min(axis=0).mean()
            return value, {"actor_loss": value}

        new_actor, actor_metrics = gradients.apply_gradient(state.actor, loss, optimiser)
        target_critics = targets.polyak_update(state.target_critics, new_critics.params, config.tau)
        return State(new_encoder, new_actor, new_critics, target_critics), metrics | actor_metrics

    def td_error(state: State, batch: Transition, key: Key) -> Array:
        """Of the images as they are and the policy without noise."""
        h = encoder.apply(state.encoder.params, batch.obs)
        q = critics.apply(state.critics.params, h, batch.action).mean(axis=0)
        return q - target(state, batch, jnp.zeros(()), key)

    def exploit(state: State, obs: Array) -> Array:
        return actor.apply(state.actor.params, encoder.apply(state.encoder.params, obs))

    def explore(state: State, obs: Array, step: Array, key: Key) -> Array:
        h = encoder.apply(state.encoder.params, obs)
        return act(state.actor.params, h, noise_scale(step), jnp.inf, key)

    def appraise(state: State, obs: Array, key: Key) -> Appraisal:
        h = encoder.apply(state.encoder.params, obs)
        action = actor.apply(state.actor.params, h)
        q = critics.apply(state.critics.params, h, action).mean(axis=0)
        return Appraisal(action, q, jnp.zeros_like(q), jnp.zeros(()))

    return Algorithm(init, explore, exploit, update, td_error, appraise, reset=reset, learn_every=config.learn_every)
