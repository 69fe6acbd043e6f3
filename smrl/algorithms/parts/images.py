"""What algorithms that learn from images share: the encoder's hyperparameters, augmentation, and its training.

The critics' loss trains the encoder, and nothing else does. It runs anew in every reuse of a batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import flax.linen as nn
import jax

from smrl.algorithms.parts.hyperparameters import Optimisation
from smrl.errors import require
from smrl.nn.augmentation import random_shift
from smrl.nn.optimiser import Adam, TrainState
from smrl.types import Array, Key, Metrics, Params, Transition, UpdateContext
from smrl.validation import Index, Sizes


@dataclass(frozen=True, kw_only=True)
class Convolutions(Optimisation):
    """Hyperparameters of an encoder of images."""

    filters: Sizes
    """Filters of the convolutions."""
    kernels: Sizes
    """Sides of the convolutions' kernels, in pixels."""
    strides: Sizes
    """Strides of the convolutions, in pixels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            len(self.filters) == len(self.kernels) == len(self.strides),
            f"filters, kernels and strides must be as many, not {len(self.filters)}, {len(self.kernels)} and "
            f"{len(self.strides)}.",
        )


@dataclass(frozen=True, kw_only=True)
class Augmented(Convolutions):
    """Hyperparameters of an encoder whose images are shifted at random."""

    augmentation: Literal["none", "reuse", "batch"]
    """Random shifts of the images: none, drawn anew in every reuse of a batch, or the same in all its reuses."""
    shift: Index = 4
    """Pixels by which a random shift moves an image at most, in each direction."""


@dataclass(frozen=True)
class Sight:
    """An encoder in training."""

    config: Augmented
    encoder: nn.Module
    optimiser: Adam

    def augment(self, batch: Transition, context: UpdateContext, key: Key) -> Transition:
        """The batch with shifted images, those of s and of s′ independently."""
        if self.config.augmentation == "none":
            return batch
        obs_key, next_key = jax.random.split(key if self.config.augmentation == "reuse" else context.batch_key)
        reach = self.config.shift
        return batch._replace(
            obs=random_shift(batch.obs, reach, obs_key), next_obs=random_shift(batch.next_obs, reach, next_key)
        )

    def update_critics(
        self,
        encoder: TrainState,
        critics: TrainState,
        optimiser: Adam,
        obs: Array,
        q_of: Callable[[Params, Array], Array],
        error: Callable[[Array], Array],
    ) -> tuple[TrainState, TrainState, Array, Metrics]:
        """One optimiser step of encoder and critics on ``error(q_of(critics, features))``.

        Returns both, the features of the images before the step, which carry no gradient, and metrics.
        """

        def loss(encoder: Params, critics: Params) -> tuple[Array, tuple[Array, Metrics]]:
            features = self.encoder.apply(encoder, obs)
            q = q_of(critics, features)
            value = error(q)
            return value, (features, {"critic_loss": value, "q": q.mean()})

        by_both = jax.grad(loss, argnums=(0, 1), has_aux=True)
        (by_encoder, by_critics), (features, metrics) = by_both(encoder.params, critics.params)
        new_encoder = self.optimiser.step(encoder, by_encoder)
        return new_encoder, optimiser.step(critics, by_critics), jax.lax.stop_gradient(features), metrics
