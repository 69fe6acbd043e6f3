"""Building blocks of soft actor-critics, shared by SAC, TQC and REDQ.

actor: min mean (α log π(ã|s) − Q(s, ã)),  ã ~ π(s)

Q combines the critics: their minimum in SAC, their mean in TQC and REDQ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from smrl.algorithms.parts.acceptance import continuous_control
from smrl.algorithms.parts.exploration import gaussian_noise
from smrl.algorithms.parts.hyperparameters import Hyperparameters
from smrl.algorithms.parts.regression import regress
from smrl.nn import gradients, targets
from smrl.nn.gradients import Trained
from smrl.nn.networks import Ensemble, GaussianActor, Start, ensemble, sample_tanh_gaussian, torch_default
from smrl.types import Appraisal, Array, Key, Metrics, Params, Spec, Transition
from smrl.validation import Positive


@dataclass(frozen=True, kw_only=True)
class SoftHyperparameters(Hyperparameters):
    """Hyperparameters of a soft actor-critic; the defaults are the paper's table."""

    temperature_learning_rate: Positive | None = None
    """Learning rate of the temperature; by default that of --learning-rate."""
    target_entropy: float | None = None
    """Target entropy of the temperature; by default minus the number of action dimensions."""
    exploration: Literal["sample", "mean-plus-noise"] = "sample"
    """Actions while training: samples of the policy, or its mean plus Gaussian noise as in the authors' code."""


class State(NamedTuple):
    """Networks with their optimisers, the temperature, and the target critics."""

    actor: Trained
    critics: Trained
    log_alpha: Trained
    target_critics: Params


@dataclass(frozen=True)
class Pieces:
    """Networks, optimisers and the steps of an update."""

    spec: Spec
    actor: GaussianActor
    critics: Ensemble
    judge: Callable[[Array], Array]  # values of the critics, members first → Q (batch,), which the actor maximises
    actor_optimiser: optax.GradientTransformation
    critic_optimiser: optax.GradientTransformation
    temperature_optimiser: optax.GradientTransformation
    tau: float
    target_entropy: float
    exploration: Literal["sample", "mean-plus-noise"]
    exploration_noise: float
    log_prob_floor: float

    def init(self, key: Key) -> State:
        """New networks; target networks start as exact copies, the temperature at 1."""
        actor_key, critic_key = jax.random.split(key)
        example = self.spec.example()
        critics = self.critics.init(critic_key, example.obs, example.action)
        return State(
            gradients.start(self.actor.init(actor_key, example.obs), self.actor_optimiser),
            gradients.start(critics, self.critic_optimiser),
            gradients.start(jnp.zeros(()), self.temperature_optimiser),
            target_critics=critics,
        )

    def sample(self, actor: Params, obs: Array, key: Key) -> tuple[Array, Array]:
        """a ~ π(s) and log π(a|s)."""
        mean, log_std = self.actor.apply(actor, obs)
        return sample_tanh_gaussian(mean, log_std, key, self.log_prob_floor)

    def look_ahead(
        self, actor: Params, critics: Ensemble, target_critics: Params, next_obs: Array, key: Key
    ) -> tuple[Array, Array]:
        """Target critics' values of a′ ~ π(s′), members first, and log π(a′|s′)."""
        action_key, dropout_key = jax.random.split(key)
        next_action, log_prob = self.sample(actor, next_obs, action_key)
        return critics(target_critics, next_obs, next_action, key=dropout_key), log_prob

    def update_critics(
        self, critics: Trained, batch: Transition, error: Callable[[Array], Array], key: Key
    ) -> tuple[Trained, Metrics]:
        """One optimiser step on the error of the critics' values of the batch."""
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
        """Minimise w(log α) (H(π) − H̄); w = exp is SAC's loss, the identity that of TQC and the original REDQ."""

        def loss(log_alpha: Params) -> tuple[Array, Metrics]:
            return weight(log_alpha) * (entropy - self.target_entropy), {}

        return gradients.descend(log_alpha, loss, self.temperature_optimiser)[0]

    def follow(self, target_critics: Params, critics: Trained) -> Params:
        """Soft update of the target critics."""
        return targets.soft_update(target_critics, critics.params, self.tau)

    def exploit(self, state: State, obs: Array) -> Array:
        """Greedy action: tanh of the mean."""
        return jnp.tanh(self.actor.apply(state.actor.params, obs)[0])

    def explore(self, state: State, obs: Array, step: Array, key: Key) -> Array:
        """A sample of the policy, or its greedy action plus Gaussian noise."""
        if self.exploration == "mean-plus-noise":
            return gaussian_noise(self.exploit(state, obs), self.exploration_noise, key)
        return self.sample(state.actor.params, obs, key)[0]

    def appraise(self, state: State, obs: Array, key: Key) -> Appraisal:
        """A sample of the policy and its mean value over all critics."""
        action, log_prob = self.sample(state.actor.params, obs, key)
        return Appraisal(action, self.mean_q(state, obs, action), log_prob, jnp.exp(state.log_alpha.params))

    def mean_q(self, state: State, obs: Array, action: Array) -> Array:
        """Mean over all critics, and over their atoms if they have any, (batch,)."""
        q = self.critics(state.critics.params, jnp.asarray(obs), action)
        return q.mean(axis=tuple(axis for axis in range(q.ndim) if axis != 1))


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
    """Networks and optimisers for an environment, with this number of critics."""
    action_size = continuous_control(spec, type(config).__name__)
    return Pieces(
        spec,
        GaussianActor(config.actor_hidden, action_size, actor_start),
        ensemble(config.critic(critic_start, atoms), critics),
        judge,
        gradients.adam(config.rate("actor")),
        gradients.adam(config.rate("critic")),
        gradients.adam(config.rate("temperature")),
        config.tau,
        -float(action_size) if config.target_entropy is None else config.target_entropy,
        config.exploration,
        config.exploration_noise,
        log_prob_floor,
    )
