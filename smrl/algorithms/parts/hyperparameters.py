"""Hyperparameters common to all actor-critics."""

from dataclasses import dataclass

from smrl.nn.networks import Critic, Start, torch_default
from smrl.validation import NonNegative, Positive, PositiveShare, ProperShare, Sizes, validate


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """Hyperparameters of an actor-critic; the defaults are the paper's table."""

    actor_hidden: Sizes = (256, 256)
    """Sizes of the actor's hidden layers."""
    critic_hidden: Sizes = (256, 256)
    """Sizes of each critic's hidden layers."""
    learning_rate: Positive = 3e-4
    """Learning rate of Adam, for every network without a learning rate of its own."""
    actor_learning_rate: Positive | None = None
    """Learning rate of the actor; by default that of --learning-rate."""
    critic_learning_rate: Positive | None = None
    """Learning rate of the critics; by default that of --learning-rate."""
    learning_rate_factor: Positive = 1.0
    """Factor on all learning rates; 10 with --reuse 1 is SAC-LR of the paper."""
    tau: PositiveShare = 0.005
    """Share of the network's weights in every soft update of its target network."""
    exploration_noise: NonNegative = 0.1
    """Standard deviation of the Gaussian exploration noise, in actions scaled to [-1, 1]."""
    layer_norm: bool = False
    """Layer normalisation in the critics; with --dropout this is DroQ."""
    dropout: ProperShare = 0.0
    """Dropout rate in the critics and their target networks; DroQ uses 0.01."""

    def __post_init__(self) -> None:
        validate(self)

    def rate(self, network: str) -> float:
        """Learning rate of the actor, critic or temperature, with the factor."""
        own = getattr(self, f"{network}_learning_rate")
        return self.learning_rate_factor * (self.learning_rate if own is None else own)

    def critic(self, start: Start = torch_default, atoms: int | None = None) -> Critic:
        """A critic with these hyperparameters."""
        return Critic(self.critic_hidden, atoms, start, self.layer_norm, self.dropout)
