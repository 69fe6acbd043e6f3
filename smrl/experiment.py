"""What decides the numbers of a run: the algorithm, the environment, the reuse and all settings."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import tyro

from smrl import algorithms
from smrl.errors import SmrlError, nearest, require
from smrl.experiments import presets
from smrl.schedule import Schedule

Hyper = TypeVar("Hyper")

ReuseArgument = Annotated[
    Schedule,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="M",
        instance_from_str=lambda words: Schedule.of(words[0]),
        is_instance=lambda value: isinstance(value, Schedule),
        str_from_instance=lambda schedule: [str(schedule)],
    ),
]


@dataclass(frozen=True, kw_only=True)
class Settings(Generic[Hyper]):
    """What the runs of one study have in common; the defaults are the paper's."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")]
    """Gymnasium id, or module:id for an environment that a module registers."""
    hyper: Hyper
    """The algorithm's own hyperparameters."""
    steps: int = 300_000
    """Environment steps in all."""
    warmup: int = 5_000
    """Steps of uniformly random actions before learning starts."""
    batch_size: int = 256
    """Transitions in a batch."""
    gamma: float = 0.99
    """Discount factor."""
    n_step: int = 1
    """Rewards that are summed before bootstrapping."""
    capacity: int = 1_000_000
    """Transitions that the replay memory holds."""
    eval_every: int = 1_000
    """Steps between two evaluations."""
    eval_episodes: int = 10
    """Episodes of the greedy policy in an evaluation."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "n_step", "capacity", "eval_every", "eval_episodes"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}.")
        require(0 <= self.gamma <= 1, f"gamma must lie in [0, 1], not be {self.gamma}.")
        require(self.warmup >= 0, f"warmup must not be negative, as {self.warmup} is.")
        require(
            self.steps > self.warmup,
            f"{self.steps} steps are not more than the {self.warmup} of the warm-up, so nothing would be learned; "
            "raise --steps or lower --warmup.",
        )

    @property
    def algorithm(self) -> str:
        """The algorithm's name in the registry."""
        return next(name for name, entry in algorithms.ALGORITHMS.items() if entry.config is type(self.hyper))


@dataclass(frozen=True, kw_only=True)
class Experiment(Settings[Hyper]):
    """One run's settings."""

    reuse: ReuseArgument
    """How often each batch is updated on (the paper's M); 10:300000,1 is ten until step 300,000, then one."""
    seed: int = 0
    """Decides every random number of the run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.seed < 2**32, f"seed must lie in [0, 2^32), not be {self.seed}.")

    @property
    def title(self) -> str:
        """What a person calls it."""
        return f"{self.algorithm} {self.env} reuse {self.reuse} seed {self.seed}"

    def to_json(self) -> dict[str, Any]:
        """As config.json has it."""
        return {"algorithm": self.algorithm, **dataclasses.asdict(self), "reuse": str(self.reuse)}


def design(algorithm: str, env: str, preset: str = "paper", **settings: Any) -> Experiment[Any]:
    """An experiment from an algorithm's name and whatever differs from the preset.

    >>> design("sac", "Hopper-v4", reuse=10, tau=0.01).hyper.tau
    0.01
    """
    entry = algorithms.find(algorithm)
    settings = {"reuse": entry.reuse} | presets.find(preset, algorithm) | settings
    hyper_names = {field.name for field in dataclasses.fields(entry.config)}
    names = {field.name for field in dataclasses.fields(Experiment)} - {"env", "hyper"} | hyper_names
    for name in settings.keys() - names:
        raise SmrlError(f"{algorithm} has no setting '{name}'{nearest(name, names)}")
    hyper = entry.config(**{name: value for name, value in settings.items() if name in hyper_names})
    rest = {name: value for name, value in settings.items() if name not in hyper_names}
    return Experiment(env=env, hyper=hyper, **rest | {"reuse": Schedule.of(settings["reuse"])})


def from_json(config: dict[str, Any]) -> Experiment[Any]:
    """The experiment that `to_json` wrote."""
    settings: dict[str, Any] = {name: value for name, value in config.items() if name != "hyper"}
    settings |= {name: tuple(v) if isinstance(v, list) else v for name, v in config["hyper"].items()}
    return design(**settings)
