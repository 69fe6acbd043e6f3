"""SAC from images: the SAC of `sac.py` on features h = f(s) of an encoder f.

    y = r + γ (1 − d) (min_i Q′_i(f′(s′), a′) − α log π(a′|h′)),  h′ = f(s′), a′ ~ π(h′)
    critics and encoder:  min Σ_i mean (Q_i(h, a) − y)²
    actor:                min mean (α log π(ã|h) − min_i Q_i(h, ã)),  ã ~ π(h), h from before the encoder's step
    temperature:          min −α mean (log π(ã|h) + H̄),  α = exp(log α)
    targets:              θ′ ← τ θ + (1 − τ) θ′, of the critics and of the encoder

The paper gives the encoder's sizes. That only the critics' loss trains it, that it has a target network and that images
are not shifted by default are our choices.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from smrl.algorithms.common import (
    AugmentationConfig,
    SoftConfig,
    require_images_and_continuous_actions,
    soft_actor_critic,
)
from smrl.layers import Layer
from smrl.nn.losses import bellman, squared_error
from smrl.nn.networks import MLP, Initializer, mlp_layers
from smrl.nn.optimiser import TrainState, apply_gradient, polyak_update
from smrl.nn.vision import ORTHOGONAL, ImageEncoder, encoder_layers, require_large_enough
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Size, Sizes


@dataclass(frozen=True, kw_only=True)
class SACPixels(AugmentationConfig, SoftConfig):
    """Hyperparameters of SAC from images; the sizes are the paper's, the rest is as in its table for SAC."""

    filters: Sizes = (32, 32, 32, 32)
    kernels: Sizes = (7, 5, 3, 3)
    strides: Sizes = (2, 2, 2, 2)
    augmentation: Literal["none", "reuse", "batch"] = "none"
    features: Size = 200
    """Number of features that the encoder makes of an image."""
    actor_hidden: Sizes = (512, 512)
    critic_hidden: Sizes = (512, 512)


class State(NamedTuple):
    """Networks with their optimisers, the logarithm of the temperature, and the target networks."""

    encoder: TrainState
    actor: TrainState
    critics: TrainState
    log_alpha: TrainState
    target_encoder: Params
    target_critics: Params


class Encoder(nn.Module):
    """Convolutions and one linear layer."""

    config: SACPixels
    convolution_initializer: Initializer
    initializer: Initializer

    @nn.compact
    def __call__(self, images: Array) -> Array:  # (batch, features)
        config = self.config
        convolve = ImageEncoder(
            *(config.filters, config.kernels, config.strides),
            initializer=self.convolution_initializer,
            name="Encoder_0",  # part of the path that seeds the initial weights
        )
        return MLP((config.features,), self.initializer)(convolve(images))


def sac_pixels(config: SACPixels, spec: Spec) -> Algorithm[State]:
    """Make SAC from images for an environment."""
    action_size = require_images_and_continuous_actions(spec, "SAC from images")
    require_large_enough(spec.obs.shape, config.kernels, config.strides)
    base = soft_actor_critic(config, action_size, critics=2)
    actor, critics = base.actor, base.critics
    initializer = config.actor_initializer()
    encoder = Encoder(config, ORTHOGONAL if config.initialisation == "orthogonal" else initializer, initializer)
    critic_optimiser = config.optimiser("critic")
    encoder_optimiser = replace(critic_optimiser, projection=None)

    def init(key: Key) -> State:
        encoder_key, sac_key = jax.random.split(key)
        params = encoder.init(encoder_key, spec.example().obs)
        soft = base.init(sac_key, jnp.zeros((1, config.features)), spec.example().action)
        return State(encoder_optimiser.start(params), *soft[:3], params, soft.target_critics)

    def reset(state: State, key: Key) -> State:
        return init(key)._replace(encoder=state.encoder, target_encoder=state.target_encoder)

    def target(state: State, batch: Transition, alpha: Array, key: Key) -> Array:
        action_key, dropout_key = jax.random.split(key)
        next_h = encoder.apply(state.encoder.params, batch.next_obs)
        next_action, next_log_prob = actor.sample(state.actor.params, next_h, action_key)
        target_h = encoder.apply(state.target_encoder, batch.next_obs)
        next_q = critics(state.target_critics, target_h, next_action, dropout_key)
        # y = r + γ (1 − d) (min_i Q′_i(f′(s′), a′) − α log π(a′|h′))
        return bellman(batch, next_q.min(axis=0) - alpha * next_log_prob)

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        shift_key, target_key, critic_key, actor_key = jax.random.split(key, 4)
        batch, alpha = config.augment(batch, context, shift_key), jnp.exp(state.log_alpha.params)
        y = target(state, batch, alpha, target_key)

        def critic_loss(encoder_params: Params, critic_params: Params) -> tuple[Array, tuple[Array, Metrics]]:
            h = encoder.apply(encoder_params, batch.obs)
            q = critics(critic_params, h, batch.action, critic_key)
            loss = squared_error(q, y)  # Σ_i mean (Q_i(h, a) − y)²
            return loss, (h, {"critic_loss": loss, "q": q.mean()})

        gradient = jax.grad(critic_loss, argnums=(0, 1), has_aux=True)
        (by_encoder, by_critics), (h, critic_metrics) = gradient(state.encoder.params, state.critics.params)
        new_encoder = encoder_optimiser.step(state.encoder, by_encoder)
        new_critics = critic_optimiser.step(state.critics, by_critics)
        h = jax.lax.stop_gradient(h)
        action_key, dropout_key = jax.random.split(actor_key)

        def actor_loss(params: Params) -> tuple[Array, Metrics]:  # mean (α log π(ã|h) − min_i Q_i(h, ã))
            action, log_prob = actor.sample(params, h, action_key)
            q = critics(new_critics.params, h, action, dropout_key).min(axis=0)
            loss = (alpha * log_prob - q).mean()
            return loss, {"actor_loss": loss, "entropy": -log_prob.mean()}

        new_actor, actor_metrics = apply_gradient(state.actor, actor_loss, config.optimiser("actor"))

        def temperature_loss(log_alpha: Params) -> tuple[Array, Metrics]:  # −α mean (log π(ã|h) + H̄)
            return config.temperature_weight(log_alpha) * (actor_metrics["entropy"] - base.target_entropy), {}

        new_log_alpha = state.log_alpha
        if config.temperature == "auto":
            new_log_alpha, _ = apply_gradient(state.log_alpha, temperature_loss, config.optimiser("temperature"))

        new_state = State(
            *(new_encoder, new_actor, new_critics, new_log_alpha),
            target_encoder=polyak_update(state.target_encoder, new_encoder.params, config.tau),
            target_critics=polyak_update(state.target_critics, new_critics.params, config.tau),
        )
        return new_state, critic_metrics | actor_metrics | {"alpha": alpha}

    def network(policy: tuple[Params, Params]) -> list[Layer]:
        parts = policy[0]["params"]
        features = [*encoder_layers(parts["Encoder_0"], config.strides), *mlp_layers(parts["MLP_0"], "relu")]
        return [*features, *actor.network(policy[1])]

    def features(state: State, obs: Array) -> Array:
        return encoder.apply(state.encoder.params, obs)

    return Algorithm(
        init=init,
        update=update,
        explore=lambda policy, obs, step, key: base.explore(policy[1], encoder.apply(policy[0], obs), step, key),
        exploit=lambda policy, obs: actor.mode(policy[1], encoder.apply(policy[0], obs)),
        policy_params=lambda state: (state.encoder.params, state.actor.params),
        reset=reset,
        q_values=lambda state, obs, action: critics(state.critics.params, features(state, obs), action),
        policy_sample=lambda state, obs, key: actor.sample(state.actor.params, features(state, obs), key),
        temperature=lambda state: jnp.exp(state.log_alpha.params),
        network=network,
    )
