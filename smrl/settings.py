"""Everything that decides the numbers of a run: the algorithm, the environment, the reuse rule and all else."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from smrl.algorithms import registry
from smrl.errors import SmrlError, nearest, require
from smrl.memory.replay import Windows
from smrl.runs import identity
from smrl.smr.rules import Schedule, rule_of
from smrl.validation import Count, Index, NonNegative, Positive, Seed, Share, convert, validate

Hyper = TypeVar("Hyper")


@dataclass(frozen=True, kw_only=True)
class Settings(Generic[Hyper]):
    """Settings of one run; the defaults are the paper's."""

    algorithm: str
    """Name of the algorithm; module:function for one of your own."""
    env: str
    """Gymnasium id; module:id for one that a module registers, module:function for a function that makes it."""
    reuse: int | str = "10"
    """Updates per batch (M of the paper): a number; 10:300000,1 for ten until step 300,000, then 1; or module:rule."""
    seed: Seed = 0
    """Seed of all random numbers of the run."""
    steps: Count = 300_000
    """Environment steps to train for."""
    warmup: Index = 5_000
    """Environment steps before learning starts."""
    warmup_actions: Literal["uniform", "policy"] = "uniform"
    """Actions during the warm-up: uniformly random, or those of the untrained policy."""
    batch_size: Count = 256
    """Transitions per batch."""
    fresh_batches: Count = 1
    """Batches drawn from the replay memory per step (the update-to-data ratio G); each is updated on M times."""
    gamma: Share = 0.99
    """Discount factor."""
    reward_scale: Positive = 1.0
    """Factor on the rewards that are learned from; evaluations report rewards as they are."""
    n_step: Count = 1
    """Rewards in an n-step return."""
    windows: Windows = "partial"
    """What the ends of episodes do to n-step returns: cut them short, or let only steps with n steps left be drawn."""
    envs: Count = 1
    """Environments to collect from in parallel; steps count in all of them together."""
    action_repeat: Count = 1
    """Environment steps for which each action is repeated."""
    max_episode_steps: Count | None = None
    """Environment steps after which every episode is truncated; by default only the environment's own limit holds."""
    pad_observations: Count | None = None
    """Zeros appended to every observation; by default none."""
    image_size: Count | None = None
    """Side of the images of dmc-pixels tasks and Atari games in pixels; by default 84."""
    capacity: Count = 1_000_000
    """Transitions that the replay memory holds."""
    reset_every: Count | None = None
    """Environment steps between two resets of the agent; the replay memory is kept. By default there are none."""
    eval_every: Count = 1_000
    """Environment steps between two evaluations."""
    eval_episodes: Count = 10
    """Episodes of the greedy policy per evaluation."""
    bias_every: Count | None = None
    """Environment steps between two measurements of the estimation bias, a multiple of --eval-every; default: none."""
    bias_original: bool = False
    """Measure the estimation bias as the authors of REDQ did: temperature 0.2, normalised by at least 10."""
    hyper: Hyper
    """Hyperparameters of the algorithm."""

    def __post_init__(self) -> None:
        validate(self)
        rule = rule_of(self.reuse)
        object.__setattr__(self, "reuse", str(rule if isinstance(rule, Schedule) else self.reuse))
        require(
            self.bias_every is None or self.bias_every % self.eval_every == 0,
            f"bias_every must be a multiple of the {self.eval_every} steps between evaluations, not {self.bias_every}.",
        )
        require(
            self.steps > self.warmup,
            f"{self.steps} steps are not more than the {self.warmup} of the warm-up, so nothing would be learned; "
            "raise --steps or lower --warmup.",
        )

    @property
    def env_options(self) -> dict[str, Any]:
        """The keywords of `smrl.envs.make.make` that the settings decide."""
        names = ("action_repeat", "max_episode_steps", "pad_observations", "image_size")
        return {name: getattr(self, name) for name in names}

    @property
    def title(self) -> str:
        """The run in words."""
        return f"{identity.label(identity.flat(self.to_json()), [])}, {self.env}, seed {self.seed}"

    def to_json(self) -> dict[str, Any]:
        """As config.json has it."""
        return dataclasses.asdict(self)


def names(algorithm: str) -> dict[str, Any]:
    """The settings of an algorithm with their default values, its hyperparameters among them, by name."""
    config = registry.find(algorithm).config
    own = {field.name: field.default for field in dataclasses.fields(Settings) if field.name != "hyper"}
    defaults = config()
    hyper = {field.name: getattr(defaults, field.name) for field in dataclasses.fields(config)}
    for name in own.keys() & hyper.keys():
        raise SmrlError(f"the hyperparameter {name} of {algorithm} has the name of a setting of smrl; rename it.")
    return own | hyper


def make_settings(algorithm: str, env: str, **values: Any) -> Settings[Any]:
    """Settings from values by name, hyperparameters among them; what is not given has its default.

    >>> make_settings("sac", "Hopper-v4", reuse=10, tau=0.01).hyper.tau
    0.01
    """
    config = registry.find(algorithm).config
    known = names(algorithm)
    for name in values.keys() - (known.keys() - {"algorithm", "env"}):
        raise SmrlError(f"{algorithm} has no setting '{name}'{nearest(name, known)}")
    hyper_names = {field.name for field in dataclasses.fields(config)}
    hyper = config(**{name: value for name, value in values.items() if name in hyper_names})
    validate(hyper)
    rest = {name: value for name, value in values.items() if name not in hyper_names}
    if hasattr(hyper, "for_steps"):
        steps, repeat = (convert(name, rest.get(name, known[name]), Count) for name in ("steps", "action_repeat"))
        hyper = hyper.for_steps(steps // repeat)
    return Settings(algorithm=algorithm, env=env, hyper=hyper, **rest)


def from_json(saved: dict[str, Any]) -> Settings[Any]:
    """The settings that `to_json` wrote."""
    return make_settings(**identity.flat(saved))


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out; nothing here changes its numbers."""

    runs: Path = Path("runs")
    """Folder of all runs."""
    threads: Count | None = None
    """CPU threads of each run; by default one per core for a single run. A resumed run keeps its number."""
    quiet: bool = False
    """Print nothing but errors."""
    checkpoint_seconds: NonNegative = 30.0
    """Seconds between two checkpoints."""
    max_minutes: Positive | None = None
    """Minutes after which the run is saved and stopped; the same command continues it. By default no limit."""
    stop_at: float | None = None
    """Mean return of an evaluation at which the run is saved and stopped; a larger value or none lets it go on."""
    wandb: str | None = None
    """Project of Weights & Biases to report to; by default none."""

    def __post_init__(self) -> None:
        validate(self)
