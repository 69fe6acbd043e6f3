"""What every actor-critic can be told, with the bounds that hyperparameters of one name have everywhere."""

import dataclasses
from dataclasses import dataclass

from smrl.errors import require
from smrl.networks import Critic, Start, torch_default


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """What every actor-critic has; the defaults are the paper's table."""

    actor_hidden: tuple[int, ...] = (256, 256)
    """Sizes of the actor's hidden layers."""
    critic_hidden: tuple[int, ...] = (256, 256)
    """Sizes of the critics' hidden layers."""
    learning_rate: float = 3e-4
    """Adam's step size, of all networks that have none of their own."""
    actor_learning_rate: float | None = None
    """The actor's own."""
    critic_learning_rate: float | None = None
    """The critics' own."""
    learning_rate_factor: float = 1.0
    """Multiplies all learning rates; 10 with reuse 1 is the paper's SAC-LR."""
    tau: float = 0.005
    """How far the targets move towards their networks in an update."""
    exploration_noise: float = 0.1
    """Standard deviation of the Gaussian noise on actions, where there is any."""
    layer_norm: bool = False
    """Normalise the critics' hidden layers; with dropout this is DroQ."""
    dropout: float = 0.0
    """Share of the critics' hidden units that every update drops, in their targets too; DroQ has 0.01."""

    def __post_init__(self) -> None:
        """Say which one is out of its bounds."""
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            if value is None:
                continue
            if "learning_rate" in name:
                require(value > 0, f"{name} must be positive, not {value}.")
            elif name.endswith(("noise", "clip", "regularisation")):
                require(value >= 0, f"{name} must not be negative, as {value} is.")
            elif name.endswith("hidden"):
                require(len(value) > 0 and min(value) > 0, f"{name} must be positive layer sizes, not {value}.")
            elif name in ("delay", "critics", "atoms", "subset"):
                require(value >= 1, f"{name} must be at least 1, not {value}.")
        require(0 < self.tau <= 1, f"tau must lie in (0, 1], not be {self.tau}.")
        require(0 <= self.dropout < 1, f"dropout must lie in [0, 1), not be {self.dropout}.")

    def rate(self, network: str) -> float:
        """The learning rate of the actor, the critic or the temperature."""
        own = getattr(self, f"{network}_learning_rate")
        return self.learning_rate_factor * (self.learning_rate if own is None else own)

    def critic(self, start: Start = torch_default, atoms: int | None = None) -> Critic:
        """A critic as these hyperparameters say."""
        return Critic(self.critic_hidden, atoms, start, self.layer_norm, self.dropout)
