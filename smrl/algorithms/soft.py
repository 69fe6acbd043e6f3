"""What soft actor-critics are put together from: SAC, TQC and REDQ differ in how they judge an action.

ã ~ π(s)    actor: min mean (α log π(ã|s) − Q(s, ã)), where Q is the algorithm's judgement by its critics
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from smrl import gradients, targets
from smrl.algorithms.exploration import gaussian_noise
from smrl.algorithms.hyperparameters import Hyperparameters
from smrl.algorithms.regression import regress
from smrl.gradients import Trained
from smrl.networks import Ensemble, GaussianActor, Start, ensemble, sample_tanh_gaussian, torch_default
from smrl.types import Appraisal, Array, Key, Metrics, Params, Spec, Transition


@dataclass(frozen=True, kw_only=True)
class SoftHyperparameters(Hyperparameters):
    """What every soft actor-critic has besides."""

    temperature_learning_rate: float | None = None
    """The temperature's own."""
    target_entropy: float | None = None
    """The entropy that the temperature aims at; by default minus the number of action dimensions."""
    exploration: Literal["sample", "mean-plus-noise"] = "sample"
    """How to act while training: by a sample of the policy, or as the authors' code by its mean plus noise."""


class State(NamedTuple):
    """What is learned."""

    actor: Trained
    critics: Trained
    log_alpha: Trained
    target_critics: Params


@dataclass(frozen=True)
class Pieces:
    """Networks with their optimisers, and the steps that an update is made of."""

    spec: Spec
    actor: GaussianActor
    critics: Ensemble
    judge: Callable[[Array], Array]  # what the critics say, members first → Q (batch,), which the actor maximises
    actor_optimiser: optax.GradientTransformation
    critic_optimiser: optax.GradientTransformation
    temperature_optimiser: optax.GradientTransformation
    tau: float
    target_entropy: float
    exploration: Literal["sample", "mean-plus-noise"]
    exploration_noise: float
    log_prob_floor: float

    def init(self, key: Key) -> State:
        """Fresh networks; the targets start as exact copies, the temperature at 1."""
        actor_key, critic_key = jax.random.split(key)
        obs, action = jnp.zeros((1, self.spec.obs_size)), jnp.zeros((1, self.spec.action_size))
        critics = self.critics.init(critic_key, obs, action)
        return State(
            gradients.start(self.actor.init(actor_key, obs), self.actor_optimiser),
            gradients.start(critics, self.critic_optimiser),
            gradients.start(jnp.zeros(()), self.temperature_optimiser),
            target_critics=critics,
        )

    def sample(self, actor: Params, obs: Array | np.ndarray, key: Key) -> tuple[Array, Array]:
        """a ~ π(s) and log π(a|s)."""
        mean, log_std = self.actor.apply(actor, obs)
        return sample_tanh_gaussian(mean, log_std, key, self.log_prob_floor)

    def look_ahead(
        self, actor: Params, critics: Ensemble, target_critics: Params, next_obs: Array, key: Key
    ) -> tuple[Array, Array]:
        """What the target critics say of a′ ~ π(s′), members first, and log π(a′|s′)."""
        action_key, dropout_key = jax.random.split(key)
        next_action, log_prob = self.sample(actor, next_obs, action_key)
        return critics(target_critics, next_obs, next_action, key=dropout_key), log_prob

    def update_critics(
        self, critics: Trained, batch: Transition, error: Callable[[Array], Array], key: Key
    ) -> tuple[Trained, Metrics]:
        """Minimise the error of what the critics say of the batch's actions."""
        return regress(self.critics, critics, self.critic_optimiser, batch, error, key)

    def update_actor(
        self, actor: Trained, critics: Params, obs: Array, alpha: Array, key: Key
    ) -> tuple[Trained, Metrics]:
        """Minimise mean (α log π(ã|s) − Q(s, ã))."""
        action_key, dropout_key = jax.random.split(key)

        def loss(params: Params) -> tuple[Array, Metrics]:
            action, log_prob = self.sample(params, obs, action_key)
            q = self.judge(self.critics(critics, obs, action, key=dropout_key))
            value = (alpha * log_prob - q).mean()
            return value, {"actor_loss": value, "entropy": -log_prob.mean()}

        return gradients.descend(actor, loss, self.actor_optimiser)

    def update_temperature(
        self, log_alpha: Trained, entropy: Array, weight: Callable[[Array], Array] = jnp.exp
    ) -> Trained:
        """Minimise w(log α) (H(π) − H̄); w = exp is SAC's loss, the identity that of TQC and the first REDQ."""

        def loss(log_alpha: Params) -> tuple[Array, Metrics]:
            return weight(log_alpha) * (entropy - self.target_entropy), {}

        return gradients.descend(log_alpha, loss, self.temperature_optimiser)[0]

    def follow(self, target_critics: Params, critics: Trained) -> Params:
        """The targets, a little nearer to the critics."""
        return targets.soft_update(target_critics, critics.params, self.tau)

    def exploit(self, state: State, obs: Array | np.ndarray) -> Array:
        """tanh of the mean."""
        return jnp.tanh(self.actor.apply(state.actor.params, obs)[0])

    def explore(self, state: State, obs: Array | np.ndarray, step: Array, key: Key) -> Array:
        """A sample, or the mean plus noise."""
        if self.exploration == "mean-plus-noise":
            return gaussian_noise(self.exploit(state, obs), self.exploration_noise, key)
        return self.sample(state.actor.params, obs, key)[0]

    def appraise(self, state: State, obs: Array | np.ndarray, key: Key) -> Appraisal:
        """A sample of the policy, and the mean of what all critics say of it."""
        action, log_prob = self.sample(state.actor.params, obs, key)
        q = self.critics(state.critics.params, jnp.asarray(obs), action)
        mean = q.mean(axis=tuple(axis for axis in range(q.ndim) if axis != 1))  # members, and atoms if any
        return Appraisal(action, mean, log_prob, jnp.exp(state.log_alpha.params))


def pieces(
    config: SoftHyperparameters,
    spec: Spec,
    critics: int,
    judge: Callable[[Array], Array],
    *,
    atoms: int | None = None,
    actor_start: Start = torch_default,
    critic_start: Start = torch_default,
    log_prob_floor: float = 0.0,
) -> Pieces:
    """The pieces for an environment, with so many critics."""
    return Pieces(
        spec,
        GaussianActor(config.actor_hidden, spec.action_size, actor_start),
        ensemble(config.critic(critic_start, atoms), critics),
        judge,
        gradients.adam(config.rate("actor")),
        gradients.adam(config.rate("critic")),
        gradients.adam(config.rate("temperature")),
        config.tau,
        -float(spec.action_size) if config.target_entropy is None else config.target_entropy,
        config.exploration,
        config.exploration_noise,
        log_prob_floor,
    )
