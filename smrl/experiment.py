"""What decides the numbers of a run: the algorithm, the environment, the reuse and all settings."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

import tyro

from smrl import algorithms, envs
from smrl.envs.environment import Environment
from smrl.errors import SmrlError, nearest, require
from smrl.experiments import presets
from smrl.schedule import Schedule

Hyper = TypeVar("Hyper")

PAPER_REUSE = Schedule((10,))

# What makes a variant of an algorithm, and the word for it in the name of a run's folder.
KNOBS = {
    "fresh_batches": "fresh",
    "learning_rate_factor": "rate",
    "reset_every": "reset",
    "layer_norm": "layernorm",
    "dropout": "dropout",
}

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
    """Steps before learning starts."""
    warmup_actions: Literal["uniform", "policy"] = "uniform"
    """What is done until then: uniformly random actions, or those of the policy that is still to learn."""
    batch_size: int = 256
    """Transitions in a batch."""
    fresh_batches: Annotated[int, tyro.conf.arg(aliases=("--utd",))] = 1
    """Fresh batches drawn per step (the update-to-data ratio G); each of them is updated on as often as reuse says."""
    gamma: float = 0.99
    """Discount factor."""
    n_step: int = 1
    """Rewards that are summed before bootstrapping."""
    envs: int = 1
    """Environments that are trained in side by side; a step is a step in any of them."""
    action_repeat: int = 1
    """Steps of the environment for which an action is held; all steps are counted, not only those that choose."""
    capacity: int = 1_000_000
    """Transitions that the replay memory holds."""
    reset_every: int | None = None
    """Steps after which the agent starts anew, again and again, with its memory kept."""
    eval_every: int = 1_000
    """Steps between two evaluations."""
    eval_episodes: int = 10
    """Episodes of the greedy policy in an evaluation."""
    bias_every: int | None = None
    """Steps between two measurements of how far Q is off, a multiple of eval_every."""
    bias_original: bool = False
    """Measure that as REDQ's authors did: temperature 0.2, normalised by 10 at least."""

    def __post_init__(self) -> None:
        for name in (
            "batch_size",
            "fresh_batches",
            "n_step",
            "envs",
            "action_repeat",
            "capacity",
            "reset_every",
            "eval_every",
            "eval_episodes",
            "bias_every",
        ):
            value = getattr(self, name)
            require(value is None or value >= 1, f"{name} must be at least 1, not {value}.")
        require(
            self.bias_every is None or self.bias_every % self.eval_every == 0,
            f"bias_every must be a multiple of the {self.eval_every} steps between evaluations, not {self.bias_every}.",
        )
        require(0 <= self.gamma <= 1, f"gamma must lie in [0, 1], not be {self.gamma}.")
        require(self.warmup >= 0, f"warmup must not be negative, as {self.warmup} is.")
        require(
            self.steps > self.warmup,
            f"{self.steps} steps are not more than the {self.warmup} of the warm-up, so nothing would be learned; "
            "raise --steps or lower --warmup.",
        )

    @property
    def stride(self) -> int:
        """Environment steps that are made at once."""
        return self.envs * self.action_repeat

    @property
    def algorithm(self) -> str:
        """The algorithm's name in the registry."""
        return next(name for name, entry in algorithms.ALGORITHMS.items() if entry.config is type(self.hyper))


@dataclass(frozen=True, kw_only=True)
class Experiment(Settings[Hyper]):
    """One run's settings."""

    reuse: ReuseArgument = PAPER_REUSE
    """How often each batch is updated on (the paper's M); 10:300000,1 is ten until step 300,000, then one."""
    seed: int = 0
    """Decides every random number of the run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.seed < 2**32, f"seed must lie in [0, 2^32), not be {self.seed}.")

    @property
    def title(self) -> str:
        """What a person calls it."""
        return f"{self.variant} {self.env} reuse {self.reuse} seed {self.seed}"

    @property
    def variant(self) -> str:
        """The algorithm's name with the knobs that are not as in the paper: sac, sac-fresh10, redq-dropout0.01."""
        paper, words = design(self.algorithm, self.env), [self.algorithm]
        for name, word in KNOBS.items():
            mine, usual = (getattr(each if hasattr(each, name) else each.hyper, name) for each in (self, paper))
            if mine != usual:
                words.append(word if mine is True else f"{word}{mine:g}")
        return "-".join(words)

    def make_env(self, render_mode: str | None = None) -> Environment:
        """The environment as this experiment sees it."""
        return envs.make(self.env, render_mode, self.action_repeat)

    def to_json(self) -> dict[str, Any]:
        """As config.json has it."""
        return {"algorithm": self.algorithm, **dataclasses.asdict(self), "reuse": str(self.reuse)}


def design(algorithm: str, env: str, preset: str = "paper", **settings: Any) -> Experiment[Any]:
    """An experiment from an algorithm's name and whatever differs from the preset.

    >>> design("sac", "Hopper-v4", reuse=10, tau=0.01).hyper.tau
    0.01
    """
    entry = algorithms.find(algorithm)
    settings = presets.find(preset, algorithm, env) | settings
    hyper_names = {field.name for field in dataclasses.fields(entry.config)}
    names = {field.name for field in dataclasses.fields(Experiment)} - {"env", "hyper"} | hyper_names
    for name in settings.keys() - names:
        raise SmrlError(f"{algorithm} has no setting '{name}'{nearest(name, names)}")
    hyper = entry.config(**{name: value for name, value in settings.items() if name in hyper_names})
    rest = {name: value for name, value in settings.items() if name not in hyper_names}
    if "reuse" in rest:
        rest["reuse"] = Schedule.of(rest["reuse"])
    return Experiment(env=env, hyper=hyper, **rest)


def from_json(config: dict[str, Any]) -> Experiment[Any]:
    """The experiment that `to_json` wrote."""
    settings: dict[str, Any] = {name: value for name, value in config.items() if name != "hyper"}
    settings |= {name: tuple(v) if isinstance(v, list) else v for name, v in config["hyper"].items()}
    return design(**settings)
