"""Hyperparameters that algorithms share."""

from dataclasses import dataclass
from typing import Any, Literal

from smrl.nn.networks import Activation, Critic, Start, orthogonal, small_last, torch_default, xavier
from smrl.nn.optimiser import Adam
from smrl.validation import NonNegative, Positive, PositiveShare, ProperShare, Sizes, validate


@dataclass(frozen=True, kw_only=True)
class Optimisation:
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
    """Multiple of the parameters that is added to the gradients of actor and critics (L2 regularisation)."""
    gradient_clip: Positive | None = None
    """Largest norm of the gradient of the actor, and of all critics together; by default it is not clipped."""

    def __post_init__(self) -> None:
        validate(self)

    def rate(self, network: str) -> float:
        """Learning rate of the actor, critic or temperature, with the factor."""
        specific = getattr(self, f"{network}_learning_rate", None)
        return self.learning_rate_factor * (self.learning_rate if specific is None else specific)

    def optimiser(self, network: str = "critic") -> Adam:
        """Adam for the actor, critic or temperature, of which the latter is neither decayed nor clipped."""
        limits: dict[str, Any] = {"weight_decay": self.weight_decay, "gradient_clip": self.gradient_clip}
        return Adam(
            self.rate(network),
            self.adam_beta1,
            self.adam_beta2,
            self.adam_epsilon,
            **{} if network == "temperature" else limits,
        )


@dataclass(frozen=True, kw_only=True)
class Hyperparameters(Optimisation):
    """Hyperparameters of an actor-critic; the defaults are the paper's table."""

    actor_hidden: Sizes = (256, 256)
    """Sizes of the actor's hidden layers."""
    critic_hidden: Sizes = (256, 256)
    """Sizes of each critic's hidden layers."""
    initialisation: Literal["torch", "small-last", "xavier", "orthogonal"] = "torch"
    """Initial weights: PyTorch's default; that with critics near 0; Xavier or orthogonal ones with zero biases."""
    actor_learning_rate: Positive | None = None
    """Learning rate of the actor; by default that of --learning-rate."""
    critic_learning_rate: Positive | None = None
    """Learning rate of the critics; by default that of --learning-rate."""
    tau: PositiveShare = 0.005
    """Share of the network's weights in every soft update of its target network."""
    exploration_noise: NonNegative = 0.1
    """Standard deviation of the Gaussian exploration noise, in actions scaled to [-1, 1]."""
    layer_norm: bool = False
    """Layer normalisation in the critics; with --dropout this is DroQ."""
    dropout: ProperShare = 0.0
    """Dropout rate in the critics and their target networks; DroQ uses 0.01."""

    def actor_start(self, heads: int = 1) -> Start:
        """Initialisation of an actor whose last layer has this many heads."""
        return {"xavier": xavier(heads), "orthogonal": orthogonal()}.get(self.initialisation, torch_default)

    def critic(self, atoms: int | None = None) -> Critic:
        """A critic with these hyperparameters."""
        start = small_last if self.initialisation == "small-last" else self.actor_start()
        return Critic(self.critic_hidden, atoms, start, self.activation, self.layer_norm, self.dropout)
