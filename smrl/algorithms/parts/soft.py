"""Building blocks of soft actor-critics, shared by SAC, TQC and REDQ.

actor: min mean (α log π(ã|s) − Q(s, ã)),  ã ~ π(s)

Q combines the critics: their minimum in SAC, their mean in TQC and REDQ.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from smrl.algorithms.parts.acceptance import continuous_control
from smrl.algorithms.parts.exploration import gaussian_noise
from smrl.algorithms.parts.hyperparameters import Hyperparameters
from smrl.algorithms.parts.regression import regress
from smrl.errors import require
from smrl.nn import optimiser as gradients
from smrl.nn import targets
from smrl.nn.networks import Ensemble, GaussianActor, ensemble, sample_tanh_gaussian
from smrl.nn.optimiser import Adam, TrainState
from smrl.types import Appraisal, Array, Key, Metrics, Params, Spec, Transition
from smrl.validation import NonNegative, Positive


@dataclass(frozen=True, kw_only=True)
class SoftHyperparameters(Hyperparameters):
    """Hyperparameters of a soft actor-critic; the defaults are the paper's table."""

    temperature: Positive | Literal["auto"] = "auto"
    """Weight α of the entropy: a number, or auto to learn it, starting at 1."""
    temperature_learning_rate: Positive | None = None
    """Learning rate of the temperature; by default that of --learning-rate."""
    temperature_loss: Literal["alpha", "log-alpha"] = "alpha"
    """What the temperature's loss multiplies the missing entropy by: α, or log α."""
    target_entropy: float | None = None
    """Target entropy of the temperature; by default minus the number of action dimensions."""
    log_std_min: float = -20.0
    """Lower bound of the logarithm of the policy's standard deviation."""
    log_std_max: float = 2.0
    """Upper bound of the logarithm of the policy's standard deviation."""
    log_prob_floor: NonNegative = 0.0
    """Number ε in log(1 - a² + ε) of the policy's log-probability; 0 stands for the exact, stable form."""
    exploration: Literal["sample", "mean-plus-noise"] = "sample"
    """Actions while training: samples of the policy, or its mean plus Gaussian noise as in the authors' code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.log_std_min < self.log_std_max,
            f"log_std_min must be below log_std_max, but {self.log_std_min:g} is not below {self.log_std_max:g}.",
        )


class State(NamedTuple):
    """Networks with their optimisers, the temperature, and the target critics."""

    actor: TrainState
    critics: TrainState
    log_alpha: TrainState
    target_critics: Params


@dataclass(frozen=True)
class Pieces:
    """Networks, optimisers and the steps of an update."""

    spec: Spec
    actor: GaussianActor
    critics: Ensemble
    judge: Callable[[Array], Array]  # values of the critics, members first → Q (batch,), which the actor maximises
    actor_optimiser: Adam
    critic_optimiser: Adam
    temperature_optimiser: Adam
    target_entropy: float
    config: SoftHyperparameters

    def init(self, key: Key) -> State:
        """New networks; target networks start as exact copies, the temperature at 1 unless it is fixed."""
        actor_key, critic_key = jax.random.split(key)
        example, fixed = self.spec.example(), self.config.temperature
        critics = self.critics.init(critic_key, example.obs, example.action)
        return State(
            self.actor_optimiser.start(self.actor.init(actor_key, example.obs)),
            self.critic_optimiser.start(critics),
            self.temperature_optimiser.start(jnp.zeros(()) + (0.0 if fixed == "auto" else math.log(fixed))),
            target_critics=critics,
        )

    def sample(self, actor: Params, obs: Array, key: Key) -> tuple[Array, Array]:
        """a ~ π(s) and log π(a|s)."""
        mean, log_std = self.actor.apply(actor, obs)
        return sample_tanh_gaussian(mean, log_std, key, self.config.log_prob_floor)

    def look_ahead(
        self, actor: Params, target_critics: Params, next_obs: Array, key: Key, chosen: Array | None = None
    ) -> tuple[Array, Array]:
        """Values of a′ ~ π(s′) by all target critics or the chosen ones, members first, and log π(a′|s′)."""
        action_key, dropout_key = jax.random.split(key)
        next_action, log_prob = self.sample(actor, next_obs, action_key)
        return self.critics(target_critics, next_obs, next_action, dropout_key, chosen), log_prob

    def update_critics(
        self, critics: TrainState, batch: Transition, error: Callable[[Array], Array], key: Key
    ) -> tuple[TrainState, Metrics]:
        """One optimiser step on the error of the critics' values of the batch."""
        return regress(self.critics, critics, self.critic_optimiser, batch, error, key)

    def update_actor(
        self, actor: TrainState, critics: Params, obs: Array, alpha: Array, key: Key
    ) -> tuple[TrainState, Metrics]:
        """Minimise mean (α log π(ã|s) − Q(s, ã))."""
        action_key, dropout_key = jax.random.split(key)

        def loss(params: Params) -> tuple[Array, Metrics]:
            action, log_prob = self.sample(params, obs, action_key)
            q = self.judge(self.critics(critics, obs, action, key=dropout_key))
            value = (alpha * log_prob - q).mean()
            return value, {"actor_loss": value, "entropy": -log_prob.mean()}

        return gradients.apply_gradient(actor, loss, self.actor_optimiser)

    def update_temperature(self, log_alpha: TrainState, entropy: Array) -> TrainState:
        """Minimise w (H(π) − H̄) with w = α or log α, unless the temperature is fixed."""
        if self.config.temperature != "auto":
            return log_alpha

        def loss(log_alpha: Params) -> tuple[Array, Metrics]:
            weight = jnp.exp(log_alpha) if self.config.temperature_loss == "alpha" else log_alpha
            return weight * (entropy - self.target_entropy), {}

        return gradients.apply_gradient(log_alpha, loss, self.temperature_optimiser)[0]

    def follow(self, target_critics: Params, critics: TrainState) -> Params:
        """Soft update of the target critics."""
        return targets.polyak_update(target_critics, critics.params, self.config.tau)

    def exploit(self, state: State, obs: Array) -> Array:
        """Greedy action: tanh of the mean."""
        return jnp.tanh(self.actor.apply(state.actor.params, obs)[0])

    def explore(self, state: State, obs: Array, step: Array, key: Key) -> Array:
        """A sample of the policy, or its greedy action plus Gaussian noise."""
        if self.config.exploration == "mean-plus-noise":
            return gaussian_noise(self.exploit(state, obs), self.config.exploration_noise, key)
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
    atoms: int | None = None,
) -> Pieces:
    """Networks and optimisers for an environment, with this number of critics."""
    action_size = continuous_control(spec, type(config).__name__)
    return Pieces(
        spec,
        GaussianActor(
            config.actor_hidden,
            action_size,
            config.actor_start(heads=2),
            config.activation,
            (config.log_std_min, config.log_std_max),
        ),
        ensemble(config.critic(atoms), critics),
        judge,
        config.optimiser("actor"),
        config.optimiser("critic"),
        config.optimiser("temperature"),
        -float(action_size) if config.target_entropy is None else config.target_entropy,
        config,
    )
