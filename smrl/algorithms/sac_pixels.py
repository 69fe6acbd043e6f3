"""SAC from images: the SAC of `sac.py` on features that an encoder makes of them.

h = f(s), h′ = f(s′)                                 one encoder f, which the critics' loss alone trains
a′ ~ π(h′)
y = r + γ (1 − d) (min_i Q′_i(f′(s′), a′) − α log π(a′|h′))     critics and encoder: min Σ_i mean (Q_i(h, a) − y)²
actor: min mean (α log π(ã|h) − min_i Q_i(h, ã)),  ã ~ π(h)     at the features of before the encoder's step
targets: θ′ ← τ θ + (1 − τ) θ′                       of the critics and of the encoder

The paper tells the encoder's sizes; that it is trained so, has a target network and that images are not shifted unless
asked for are choices of ours.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from smrl.algorithms.parts import soft
from smrl.algorithms.parts.acceptance import image_control
from smrl.algorithms.parts.images import Augmented, Sight
from smrl.nn import losses, targets
from smrl.nn.networks import MLP, Start
from smrl.nn.optimiser import TrainState
from smrl.nn.vision import ORTHOGONAL, Encoder, check_size
from smrl.types import Algorithm, Appraisal, Array, ArraySpec, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Count, Sizes


@dataclass(frozen=True, kw_only=True)
class SACPixels(Augmented, soft.SoftHyperparameters):
    """Hyperparameters of SAC from images; the sizes are the paper's, the rest is as in its table for SAC."""

    filters: Sizes = (32, 32, 32, 32)
    kernels: Sizes = (7, 5, 3, 3)
    strides: Sizes = (2, 2, 2, 2)
    augmentation: Literal["none", "reuse", "batch"] = "none"
    features: Count = 200
    """Features that the encoder makes of an image."""
    actor_hidden: Sizes = (512, 512)
    critic_hidden: Sizes = (512, 512)


class State(NamedTuple):
    """The encoder with its optimiser and target network, and the state of SAC on its features."""

    encoder: TrainState
    actor: TrainState
    critics: TrainState
    log_alpha: TrainState
    target_encoder: Params
    target_critics: Params

    @property
    def sac(self) -> soft.State:
        """The part that knows features only."""
        return soft.State(self.actor, self.critics, self.log_alpha, self.target_critics)


class Features(nn.Module):
    """Convolutions and one linear layer."""

    config: SACPixels
    convolutions_start: Start
    start: Start

    @nn.compact
    def __call__(self, images: Array) -> Array:  # (batch, features)
        config = self.config
        convolutions = Encoder(config.filters, config.kernels, config.strides, start=self.convolutions_start)
        return MLP((config.features,), self.start)(convolutions(images))


def sac_pixels(config: SACPixels, spec: Spec) -> Algorithm[State]:
    """SAC from images for an environment."""
    image_control(spec, "SAC from images")
    check_size(spec.obs.shape, config.kernels, config.strides)
    of_features = Spec(ArraySpec((config.features,)), spec.action)
    parts = soft.pieces(config, of_features, critics=2, judge=targets.clipped_double)
    start = config.actor_start()
    encoder = Features(config, ORTHOGONAL if config.initialisation == "orthogonal" else start, start)
    sight = Sight(config, encoder, config.optimiser("critic"))

    def init(key: Key) -> State:
        encoder_key, sac_key = jax.random.split(key)
        params = encoder.init(encoder_key, spec.example().obs)
        sac = parts.init(sac_key)
        return State(sight.optimiser.start(params), *sac[:3], params, sac.target_critics)

    def reset(state: State, key: Key) -> State:
        return init(key)._replace(encoder=state.encoder, target_encoder=state.target_encoder)

    def target(state: State, batch: Transition, alpha: Array, key: Key) -> Array:
        action_key, dropout_key = jax.random.split(key)
        h = encoder.apply(state.encoder.params, batch.next_obs)
        next_action, log_prob = parts.sample(state.actor.params, h, action_key)
        h_of_critics = encoder.apply(state.target_encoder, batch.next_obs)
        next_q = parts.critics(state.target_critics, h_of_critics, next_action, key=dropout_key)
        return targets.bellman(batch, targets.soft_clipped_double(next_q, log_prob, alpha))

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        shift_key, target_key, critic_key, actor_key = jax.random.split(key, 4)
        batch, alpha = sight.augment(batch, context, shift_key), jnp.exp(state.log_alpha.params)
        y = target(state, batch, alpha, target_key)
        new_encoder, critics, h, critic_metrics = sight.update_critics(
            *(state.encoder, state.critics, parts.critic_optimiser, batch.obs),
            q_of=lambda params, h: parts.critics(params, h, batch.action, key=critic_key),
            error=lambda q: losses.squared_error(q, y),
        )
        actor, actor_metrics = parts.update_actor(state.actor, critics.params, h, alpha, actor_key)
        log_alpha = parts.update_temperature(state.log_alpha, actor_metrics["entropy"])
        target_encoder = targets.polyak_update(state.target_encoder, new_encoder.params, config.tau)
        target_critics = parts.follow(state.target_critics, critics)
        metrics = critic_metrics | actor_metrics | {"alpha": alpha}
        return State(new_encoder, actor, critics, log_alpha, target_encoder, target_critics), metrics

    def td_error(state: State, batch: Transition, key: Key) -> Array:
        """Of the images as they are."""
        h = encoder.apply(state.encoder.params, batch.obs)
        y = target(state, batch, jnp.exp(state.log_alpha.params), key)
        return parts.mean_q(state.sac, h, batch.action) - y

    def exploit(state: State, obs: Array) -> Array:
        return parts.exploit(state.sac, encoder.apply(state.encoder.params, obs))

    def explore(state: State, obs: Array, step: Array, key: Key) -> Array:
        return parts.explore(state.sac, encoder.apply(state.encoder.params, obs), step, key)

    def appraise(state: State, obs: Array, key: Key) -> Appraisal:
        return parts.appraise(state.sac, encoder.apply(state.encoder.params, obs), key)

    return Algorithm(init, explore, exploit, update, td_error, appraise, reset=reset)
