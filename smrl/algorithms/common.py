"""What algorithms share besides their mathematics: hyperparameters, networks, initial states, policies and checks.

The losses of an algorithm, and the order of its gradient steps, are in its own file.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from smrl.errors import SmrlError, require
from smrl.kernels.dense import Form
from smrl.nn.networks import (
    Activation,
    Critic,
    DeterministicActor,
    Ensemble,
    GaussianActor,
    Initializer,
    ensemble,
    orthogonal,
    small_last,
    torch_default,
    xavier,
)
from smrl.nn.optimiser import Adam, TrainState
from smrl.nn.vision import random_shift
from smrl.types import Algorithm, Array, Continuous, Discrete, Key, Params, Spec, Transition, UpdateContext
from smrl.validation import FewOrZero, NonNegative, Positive, PositiveShare, ProperShare, Sizes, validate


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """Hyperparameters of networks that Adam trains; the defaults are the paper's."""

    activation: Activation = "relu"
    """Nonlinearity between the layers of all networks."""
    learning_rate: Positive = 3e-4
    """Learning rate of Adam, for every network whose rate is not set by a more specific flag."""
    learning_rate_factor: Positive = 1.0
    """Factor on all learning rates; 10 with --reuse 1 is SAC-LR of the paper."""
    adam_beta1: ProperShare = 0.9
    """Adam's decay rate of the mean of the gradients."""
    adam_beta2: ProperShare = 0.999
    """Adam's decay rate of the mean of the squared gradients."""
    adam_epsilon: Positive = 1e-8
    """Adam's constant in the denominator."""
    weight_decay: NonNegative = 0.0
    """Weight λ of the decay of the parameters of actor and critics, in the form of --weight-decay-form."""
    weight_decay_form: Literal["l2", "decoupled"] = "l2"
    """Decay of the parameters: add λθ to the gradient (L2), or subtract it from θ with the learning rate (AdamW)."""
    gradient_clip: Positive | None = None
    """Largest norm of the gradient of the actor, and of all critics together; not clipped by default."""

    def __post_init__(self) -> None:
        validate(self)

    def optimiser(self, network: Literal["actor", "critic", "temperature"] = "critic") -> Adam:
        """Return Adam for a kind of network; the temperature is neither decayed nor clipped."""
        specific = getattr(self, f"{network}_learning_rate", None)
        rate = self.learning_rate_factor * (self.learning_rate if specific is None else specific)
        limits: dict[str, Any] = {"weight_decay": self.weight_decay, "gradient_clip": self.gradient_clip}
        limits["is_decoupled"] = self.weight_decay_form == "decoupled"
        if network == "temperature":
            limits = {}
        elif network == "critic":
            limits["projection"] = "hidden" if getattr(self, "weight_projection", False) else None
        return Adam(rate, self.adam_beta1, self.adam_beta2, self.adam_epsilon, **limits)


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(OptimiserConfig):
    """Hyperparameters of an actor-critic; the defaults are the paper's table."""

    network: Literal["mlp", "simba"] = "mlp"
    """Architecture of actor and critics: perceptrons, or SimBa's residual networks with their own initial weights."""
    actor_hidden: Sizes = (256, 256)
    """Sizes of the actor's hidden layers; of SimBa's, one width per residual block."""
    critic_hidden: Sizes = (256, 256)
    """Sizes of each critic's hidden layers; of SimBa's, one width per residual block."""
    initialisation: Literal["torch", "small-last", "xavier", "orthogonal"] = "torch"
    """Initial weights: PyTorch's default; the same with critics near 0; Xavier or orthogonal with zero biases."""
    actor_learning_rate: Positive | None = None
    """Learning rate of the actor; by default that of --learning-rate."""
    critic_learning_rate: Positive | None = None
    """Learning rate of the critics; by default that of --learning-rate."""
    tau: PositiveShare = 0.005
    """Weight τ of the online network in every update of its target network."""
    exploration_noise: NonNegative = 0.1
    """Standard deviation of the Gaussian exploration noise, in actions scaled to [-1, 1]."""
    layer_norm: bool = False
    """Layer normalisation in the critics; with --dropout this is DroQ."""
    dropout: ProperShare = 0.0
    """Dropout rate in the critics and their target networks; DroQ uses 0.01."""
    weight_projection: bool = False
    """Divide the weights of every hidden unit of the critics by their norm, at the start and after every step. It is
    harmless only where normalisation undoes the scale of a layer, so it needs --layer-norm or --network simba."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network == "simba":
            require(
                self.activation == "relu" and not self.layer_norm and not self.dropout,
                "network simba has ReLU, its own layer normalisation and no dropout: leave out activation, layer_norm "
                "and dropout, or choose network mlp.",
            )
            for name, widths in (("actor_hidden", self.actor_hidden), ("critic_hidden", self.critic_hidden)):
                require(
                    len(set(widths)) == 1,
                    f"the residual blocks of network simba must have the same width, not {','.join(map(str, widths))}; "
                    f"{name} {','.join(len(widths) * [str(widths[0])])} is {len(widths)} of width {widths[0]}.",
                )
        require(
            not self.weight_projection or self.layer_norm or self.network == "simba",
            "weight_projection takes the scale out of the critics' weights, which only normalisation makes up for: add "
            "layer_norm, or network simba.",
        )

    def form(self, network: Literal["actor", "critic"]) -> Form:
        """Return the form of the actor or of the critics; layer_norm is for critics only."""
        if self.network == "simba":
            return "residual"
        return "normalised" if self.layer_norm and network == "critic" else "plain"

    def actor_initializer(self, heads: int = 1) -> Initializer:
        """Return the initializer of an actor whose last layer has this many heads."""
        if self.network == "simba":
            return orthogonal()
        return {"xavier": xavier(heads), "orthogonal": orthogonal()}.get(self.initialisation, torch_default)

    def critic(self, atoms: int | None = None) -> Critic:
        """Return one critic."""
        is_small = self.initialisation == "small-last" and self.network == "mlp"
        initializer = small_last if is_small else self.actor_initializer()
        return Critic(self.critic_hidden, atoms, initializer, self.activation, self.form("critic"), self.dropout)


@dataclass(frozen=True, kw_only=True)
class SoftConfig(ActorCriticConfig):
    """Hyperparameters of a soft actor-critic; the defaults are the paper's table."""

    temperature: Positive | Literal["auto"] = "auto"
    """Weight α of the entropy: a number, or auto to learn it."""
    initial_temperature: Positive = 1.0
    """Temperature α at which learning it starts."""
    temperature_learning_rate: Positive | None = None
    """Learning rate of the temperature; by default that of --learning-rate."""
    temperature_loss: Literal["alpha", "log-alpha"] = "alpha"
    """Factor of the missing entropy in the temperature's loss: α, or log α."""
    target_entropy: float | None = None
    """Target entropy of the temperature; by default --target-entropy-factor times the number of action dimensions."""
    target_entropy_factor: float = -1.0
    """Target entropy per action dimension; SimBa and its successors use -0.5."""
    log_std_min: float = -20.0
    """Lower bound of the logarithm of the policy's standard deviation."""
    log_std_max: float = 2.0
    """Upper bound of the logarithm of the policy's standard deviation."""
    log_prob_floor: NonNegative = 0.0
    """Number ε in log(1 - a² + ε) of the policy's log-probability; 0 selects the exact, stable form."""
    exploration: Literal["sample", "mean-plus-noise"] = "sample"
    """Actions while training: samples of the policy, or its mean plus Gaussian noise as in the authors' code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.log_std_min < self.log_std_max,
            f"log_std_min must be below log_std_max, but {self.log_std_min:g} is not below {self.log_std_max:g}.",
        )
        require(
            self.temperature == "auto" or self.initial_temperature == type(self).initial_temperature,
            f"initial_temperature is where learning the temperature starts, but temperature fixes it at "
            f"{self.temperature}: leave out one of them.",
        )
        require(
            self.target_entropy is None or self.target_entropy_factor == type(self).target_entropy_factor,
            "target_entropy and target_entropy_factor both set the target entropy: leave out one of them, or set "
            "target_entropy to none where a preset has it.",
        )

    def initial_log_alpha(self) -> Array:
        """Return log α before the first step."""
        return jnp.zeros(()) + math.log(self.initial_temperature if self.temperature == "auto" else self.temperature)

    def target_entropy_of(self, action_size: int) -> float:
        """Return H̄ for this number of action dimensions."""
        return self.target_entropy_factor * action_size if self.target_entropy is None else self.target_entropy

    def temperature_weight(self, log_alpha: Array) -> Array:
        """Return α or log α, the factor of the missing entropy in the temperature's loss."""
        return jnp.exp(log_alpha) if self.temperature_loss == "alpha" else log_alpha


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(OptimiserConfig):
    """Hyperparameters of an image encoder."""

    filters: Sizes
    """Filters of the convolutions."""
    kernels: Sizes
    """Sides of the convolutions' kernels, in pixels."""
    strides: Sizes
    """Strides of the convolutions, in pixels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = len(self.filters), len(self.kernels), len(self.strides)
        require(
            len(set(lengths)) == 1,
            "filters, kernels and strides must have the same length, not {}, {} and {}.".format(*lengths),
        )


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig(EncoderConfig):
    """Hyperparameters of an encoder whose images are shifted at random."""

    augmentation: Literal["none", "reuse", "batch"]
    """Random shifts of the images: none, new ones in every reuse of a batch, or the same in all its reuses."""
    shift: FewOrZero = 4
    """Largest random shift of an image in each direction, in pixels."""

    def augment(self, batch: Transition, context: UpdateContext, key: Key) -> Transition:
        """Shift the images of s and of s′ independently of each other."""
        if self.augmentation == "none":
            return batch
        obs_key, next_key = jax.random.split(key if self.augmentation == "reuse" else context.batch_key)
        return batch._replace(
            obs=random_shift(batch.obs, self.shift, obs_key),
            next_obs=random_shift(batch.next_obs, self.shift, next_key),
        )


class ActorCriticState(NamedTuple):
    """Networks with their optimisers, and the target networks."""

    actor: TrainState
    critics: TrainState
    target_actor: Params
    target_critics: Params


@dataclass(frozen=True)
class DeterministicActorCritic:
    """Networks and policy of DDPG and TD3."""

    config: ActorCriticConfig
    spec: Spec
    actor: DeterministicActor
    critics: Ensemble

    def init(self, key: Key) -> ActorCriticState:
        """Initialise the networks; the target networks start as exact copies."""
        actor_key, critic_key = jax.random.split(key)
        example = self.spec.example()
        actor = self.actor.init(actor_key, example.obs)
        critics = self.config.optimiser("critic").start(self.critics.init(critic_key, example.obs, example.action))
        return ActorCriticState(
            self.config.optimiser("actor").start(actor),
            critics,
            target_actor=actor,
            target_critics=critics.params,
        )

    def explore(self, actor: Params, obs: Array, step: Array, key: Key) -> Array:
        """Return the greedy action plus Gaussian noise."""
        return gaussian_noise(self.actor.apply(actor, obs), self.config.exploration_noise, key)

    def policy_sample(self, state: ActorCriticState, obs: Array, key: Key) -> tuple[Array, Array]:
        """Return the greedy action, whose log-probability counts as zero."""
        return without_entropy(self.actor.apply(state.actor.params, obs))

    def q_values(self, state: ActorCriticState, obs: Array, action: Array) -> Array:
        """Return Q_i(s, a), (critics, batch)."""
        return self.critics(state.critics.params, jnp.asarray(obs), action)

    def algorithm(self, update: Any) -> Algorithm[ActorCriticState]:
        """Bundle the update with the rest."""
        return Algorithm(
            init=self.init,
            update=update,
            explore=self.explore,
            exploit=self.actor.apply,
            policy_params=lambda state: state.actor.params,
            q_values=self.q_values,
            policy_sample=self.policy_sample,
            network=self.actor.network,
            critic_networks=lambda state: self.critics.networks(state.critics.params),
        )


def deterministic_actor(config: ActorCriticConfig, action_size: int) -> DeterministicActor:
    """Make a deterministic actor."""
    initializer, form = config.actor_initializer(), config.form("actor")
    return DeterministicActor(config.actor_hidden, action_size, initializer, config.activation, form)


def deterministic_actor_critic(config: ActorCriticConfig, spec: Spec, critics: int) -> DeterministicActorCritic:
    """Make the networks of a deterministic actor-critic with this number of critics."""
    action_size = require_vectors_and_continuous_actions(spec, type(config).__name__)
    actor = deterministic_actor(config, action_size)
    return DeterministicActorCritic(config, spec, actor, ensemble(config.critic(), critics))


class SoftState(NamedTuple):
    """Networks with their optimisers, the logarithm of the temperature, and the target critics."""

    actor: TrainState
    critics: TrainState
    log_alpha: TrainState
    target_critics: Params


@dataclass(frozen=True)
class SoftActorCritic:
    """Networks and policy of SAC, TQC and REDQ, and of SAC from images behind its encoder."""

    config: SoftConfig
    actor: GaussianActor
    critics: Ensemble
    target_entropy: float

    def init(self, key: Key, obs: Array, action: Array) -> SoftState:
        """Initialise the networks for examples of s and a, and the temperature."""
        actor_key, critic_key = jax.random.split(key)
        critics = self.config.optimiser("critic").start(self.critics.init(critic_key, obs, action))
        return SoftState(
            self.config.optimiser("actor").start(self.actor.init(actor_key, obs)),
            critics,
            self.config.optimiser("temperature").start(self.config.initial_log_alpha()),
            target_critics=critics.params,
        )

    def explore(self, actor: Params, obs: Array, step: Array, key: Key) -> Array:
        """Sample the policy, or add Gaussian noise to its greedy action."""
        if self.config.exploration == "mean-plus-noise":
            return gaussian_noise(self.actor.mode(actor, obs), self.config.exploration_noise, key)
        return self.actor.sample(actor, obs, key)[0]

    def algorithm(self, spec: Spec, update: Any, q_values: Any = None) -> Algorithm[SoftState]:
        """Bundle the update with the rest; ``q_values`` replaces the plain values of the critics."""
        example = spec.example()
        return Algorithm(
            init=lambda key: self.init(key, example.obs, example.action),
            update=update,
            explore=self.explore,
            exploit=self.actor.mode,
            policy_params=lambda state: state.actor.params,
            q_values=q_values or (lambda state, obs, action: self.critics(state.critics.params, obs, action)),
            policy_sample=lambda state, obs, key: self.actor.sample(state.actor.params, obs, key),
            temperature=lambda state: jnp.exp(state.log_alpha.params),
            network=self.actor.network,
            critic_networks=lambda state: self.critics.networks(state.critics.params),
        )


def soft_actor_critic(config: SoftConfig, action_size: int, critics: int, atoms: int | None = None) -> SoftActorCritic:
    """Make the networks of a soft actor-critic with this number of critics, and of atoms per critic."""
    actor = GaussianActor(
        config.actor_hidden,
        action_size,
        config.actor_initializer(heads=2),
        config.activation,
        (config.log_std_min, config.log_std_max),
        config.log_prob_floor,
        config.form("actor"),
    )
    return SoftActorCritic(
        config, actor, ensemble(config.critic(atoms), critics), config.target_entropy_of(action_size)
    )


def gaussian_noise(action: Array, scale: float, key: Key, clip: float = jnp.inf) -> Array:
    """Return clip(a + ε, ±1), where ε ~ N(0, scale²) is first clipped to ±clip (TD3's target policy smoothing)."""
    noise = scale * jax.random.normal(key, (action.size,)).reshape(action.shape)  # XLA is slow on short rows
    return jnp.clip(action + jnp.clip(noise, -clip, clip), -1.0, 1.0)


def without_entropy(action: Array) -> tuple[Array, Array]:
    """Return the action of a deterministic policy with a log-probability of zero, as `policy_sample` does."""
    return action, jnp.zeros(len(action))


def require_vectors_and_continuous_actions(spec: Spec, algorithm: str) -> int:
    """Check that observations are vectors and actions continuous; return the number of action dimensions."""
    size = _continuous_actions(spec, algorithm)
    if len(spec.obs.shape) != 1:
        raise SmrlError(
            f"{algorithm} needs a vector of observations, but this environment gives {_described(spec)}; sac_pixels "
            "and drqv2 learn from images."
        )
    return size


def require_images_and_continuous_actions(spec: Spec, algorithm: str) -> int:
    """Check that observations are images and actions continuous; return the number of action dimensions."""
    size = _continuous_actions(spec, algorithm)
    if len(spec.obs.shape) != 3:
        raise SmrlError(f"{algorithm} needs images, but this environment gives {_described(spec)}.")
    return size


def require_discrete_actions(spec: Spec, algorithm: str) -> int:
    """Check that observations are vectors or images and actions discrete; return the number of actions."""
    if not isinstance(spec.action, Discrete):
        raise SmrlError(f"{algorithm} needs discrete actions, but this environment has {spec.action}.")
    if len(spec.obs.shape) not in (1, 3):
        raise SmrlError(f"{algorithm} needs vectors or images, but this environment gives {_described(spec)}.")
    return spec.action.count


def _continuous_actions(spec: Spec, algorithm: str) -> int:
    if not isinstance(spec.action, Continuous):
        raise SmrlError(f"{algorithm} needs continuous actions, but this environment has {spec.action}.")
    return spec.action.size


def _described(spec: Spec) -> str:
    shape = spec.obs.shape
    if len(shape) == 1:
        return f"vectors of {shape[0]} numbers"
    return f"{spec.obs.dtype} images of {'×'.join(map(str, shape))}"
