"""DrQ-v2 (Yarats et al., 2022): DDPG with twin critics from images, which are shifted at random.

h = f(shift(s)), h′ = f(shift(s′)): one encoder f, which only the critics' loss trains
ã = π(h′) + clip(ε, ±c),  ε ~ N(0, σ²): σ falls linearly over the first noise_steps agent steps
y = Σ γᵏ r + γⁿ (1 − d) min_i Q′_i(h′, ã)
critics and encoder:  min Σ_i mean (Q_i(h, a) − y)²
actor:                max mean min_i Q_i(h, π(h) + clip(ε, ±c)), h from before the encoder's step
targets:              θ′ ← τ θ + (1 − τ) θ′, of the critics; the encoder has none
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from smrl import layers
from smrl.algorithms.common import AugmentationConfig, require_images_and_continuous_actions, without_entropy
from smrl.kernels.dense import LAYER_NORM_EPSILON
from smrl.nn.losses import bellman, squared_error
from smrl.nn.networks import MLP, Activation, mlp_layers, orthogonal
from smrl.nn.optimiser import TrainState, apply_gradient, polyak_update
from smrl.nn.vision import ImageEncoder, encoder_layers, require_large_enough
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Count, NonNegative, PositiveShare, Size, Sizes

CENTRE = 0.5  # brightness that is zero for the encoder
LARGEST_ACTION = 1 - 1e-6


@dataclass(frozen=True, kw_only=True)
class DrQv2(AugmentationConfig):
    """Hyperparameters of DrQ-v2; the defaults are those of its authors' code."""

    learning_rate: float = 1e-4
    filters: Sizes = (32, 32, 32, 32)
    kernels: Sizes = (3, 3, 3, 3)
    strides: Sizes = (2, 1, 1, 1)
    augmentation: Literal["none", "reuse", "batch"] = "reuse"
    features: Size = 50
    """Number of features that the actor and the critics make of the encoder's output."""
    actor_hidden: Sizes = (1024, 1024)
    """Sizes of the actor's hidden layers."""
    critic_hidden: Sizes = (1024, 1024)
    """Sizes of each critic's hidden layers."""
    tau: PositiveShare = 0.01
    """Weight τ of the critics in every update of their target networks."""
    first_noise: NonNegative = 1.0
    """Standard deviation of the exploration noise at the first step."""
    last_noise: NonNegative = 0.1
    """Standard deviation of the exploration noise from noise_steps on."""
    noise_steps: Count = 100_000
    """Agent steps over which the exploration noise falls."""
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
    """Reduce the encoder's output to a few features: linear, LayerNorm, tanh."""

    features: int

    @nn.compact
    def __call__(self, h: Array) -> Array:
        return jnp.tanh(nn.LayerNorm(epsilon=LAYER_NORM_EPSILON)(MLP((self.features,), orthogonal())(h)))


class Actor(nn.Module):
    """π(h), the mean of the actions."""

    features: int
    hidden: Sequence[int]
    action_size: int
    activation: Activation

    @nn.compact
    def __call__(self, h: Array) -> Array:
        return jnp.tanh(MLP((*self.hidden, self.action_size), orthogonal(), self.activation)(Trunk(self.features)(h)))

    def network(self, params: Params) -> list[layers.Layer]:
        """Return the layers of π."""
        trunk, tanh = params["params"]["Trunk_0"], layers.Activation("tanh")
        norm = layers.LayerNorm(trunk["LayerNorm_0"]["scale"], trunk["LayerNorm_0"]["bias"], LAYER_NORM_EPSILON)
        features = [*mlp_layers(trunk["MLP_0"], "relu"), norm, tanh]
        return [*features, *mlp_layers(params["params"]["MLP_0"], self.activation), tanh]


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
    """Make DrQ-v2 for an environment."""
    action_size = require_images_and_continuous_actions(spec, "DrQ-v2")
    require_large_enough(spec.obs.shape, config.kernels, config.strides)
    encoder = ImageEncoder(config.filters, config.kernels, config.strides, CENTRE)
    actor = Actor(config.features, config.actor_hidden, action_size, config.activation)
    critics = Critics(config.features, config.critic_hidden, config.activation)
    optimiser = config.optimiser()

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
        fraction = jnp.minimum(agent_step / config.noise_steps, 1.0)
        return (1 - fraction) * config.first_noise + fraction * config.last_noise

    def act(params: Params, h: Array, scale: Array, clip: float, key: Key) -> Array:
        """Return π(h) plus noise; the gradient ignores that actions are bounded."""
        mean = actor.apply(params, h)
        action = mean + jnp.clip(scale * jax.random.normal(key, mean.shape), -clip, clip)
        return action + jax.lax.stop_gradient(jnp.clip(action, -LARGEST_ACTION, LARGEST_ACTION) - action)

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        shift_key, target_key, actor_key = jax.random.split(key, 3)
        batch, scale = config.augment(batch, context, shift_key), noise_scale(context.agent_step)

        # y = Σ γᵏ r + γⁿ (1 − d) min_i Q′_i(h′, ã)
        next_h = encoder.apply(state.encoder.params, batch.next_obs)
        next_action = act(state.actor.params, next_h, scale, config.noise_clip, target_key)
        y = bellman(batch, critics.apply(state.target_critics, next_h, next_action).min(axis=0))

        def critic_loss(encoder_params: Params, critic_params: Params) -> tuple[Array, tuple[Array, Metrics]]:
            h = encoder.apply(encoder_params, batch.obs)
            q = critics.apply(critic_params, h, batch.action)
            loss = squared_error(q, y)  # Σ_i mean (Q_i(h, a) − y)²
            return loss, (h, {"critic_loss": loss, "q": q.mean()})

        gradient = jax.grad(critic_loss, argnums=(0, 1), has_aux=True)
        (by_encoder, by_critics), (h, critic_metrics) = gradient(state.encoder.params, state.critics.params)
        new_encoder, new_critics = optimiser.step(state.encoder, by_encoder), optimiser.step(state.critics, by_critics)
        h = jax.lax.stop_gradient(h)

        def actor_loss(params: Params) -> tuple[Array, Metrics]:  # −mean min_i Q_i(h, π(h) + clip(ε, ±c))
            action = act(params, h, scale, config.noise_clip, actor_key)
            loss = -critics.apply(new_critics.params, h, action).min(axis=0).mean()
            return loss, {"actor_loss": loss}

        new_actor, actor_metrics = apply_gradient(state.actor, actor_loss, optimiser)
        new_targets = polyak_update(state.target_critics, new_critics.params, config.tau)
        return State(new_encoder, new_actor, new_critics, new_targets), critic_metrics | actor_metrics

    def explore(policy: tuple[Params, Params], obs: Array, step: Array, key: Key) -> Array:
        return act(policy[1], encoder.apply(policy[0], obs), noise_scale(step), jnp.inf, key)

    def exploit(policy: tuple[Params, Params], obs: Array) -> Array:
        return actor.apply(policy[1], encoder.apply(policy[0], obs))

    def network(policy: tuple[Params, Params]) -> list[layers.Layer]:
        return [*encoder_layers(policy[0]["params"], config.strides, CENTRE), *actor.network(policy[1])]

    def policy_params(state: State) -> tuple[Params, Params]:
        return state.encoder.params, state.actor.params

    def q_values(state: State, obs: Array, action: Array) -> Array:
        return critics.apply(state.critics.params, encoder.apply(state.encoder.params, obs), action)

    return Algorithm(
        init=init,
        update=update,
        explore=explore,
        exploit=exploit,
        policy_params=policy_params,
        reset=reset,
        learn_every=config.learn_every,
        q_values=q_values,
        policy_sample=lambda state, obs, key: without_entropy(exploit(policy_params(state), obs)),
        network=network,
    )
