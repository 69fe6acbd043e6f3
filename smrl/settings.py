"""Settings, which decide the numbers of a run, and options, which do not."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from smrl.algorithms import registry
from smrl.errors import SmrlError, nearest, require
from smrl.memory.mixed import data_rows
from smrl.memory.replay import HELD_OUT_STEPS, Windows
from smrl.smr.auto import Auto
from smrl.smr.rules import Budget, ProbingRule, Schedule, rule_of
from smrl.validation import (
    Count,
    Few,
    Index,
    Name,
    Names,
    NonNegative,
    Positive,
    PositiveShare,
    Seed,
    Share,
    Size,
    SizeOrZero,
    Threads,
    Word,
    convert,
    validate,
)

Hyper = TypeVar("Hyper")
GREEDY_EVERY = 10  # default of greedy_every
ALIASES = {  # names of settings that users of other libraries type
    "buffer_size": "capacity",
    "gradient_steps": "fresh_batches",  # of Stable-Baselines3: each on a fresh batch
    "learning_starts": "warmup",
    "n_envs": "envs",
    "normalize_observations": "normalise_observations",
    "normalize_rewards": "normalise_rewards",
}
MAX_EVALUATIONS = 50_000  # per run, so that its tables stay small enough to be read (`smrl.reading`)


@dataclass(frozen=True, kw_only=True)
class Settings(Generic[Hyper]):
    """Settings of one run; the defaults are the paper's."""

    algorithm: Name
    """Name of the algorithm, or module:function for a custom one."""
    env: Name
    """Gymnasium id, module:id for one that a module registers, or module:function for a function that makes it."""
    reuse: int | Name = "10"
    """Updates per batch (the paper's M): a number, 10:300000,1 (10 until step 300,000, then 1), auto, or module:rule.

    auto:20 chooses up to 20 by the TD error on held-out episodes (docs/reuse-auto.md); 20 is the default. budget:2h,
    also 30m or 90s, chooses so that the run ends in time. With --real-time also the word realtime: as many as fit into
    the control period.
    """
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
    fresh_batches: Few = 1
    """Batches drawn from the replay memory per step (the update-to-data ratio G); each is updated on M times."""
    gamma: Share = 0.99
    """Discount factor."""
    reward_scale: Positive = 1.0
    """Factor on the rewards that the agent learns from; evaluations report unscaled rewards."""
    normalise_observations: bool = False
    """Normalise observations by their running mean and standard deviation, and clip them at ±10."""
    normalise_rewards: bool = False
    """Divide the rewards that the agent learns from by the standard deviation of the running discounted return."""
    n_step: Few = 1
    """Rewards in an n-step return."""
    windows: Windows = "partial"
    """n-step returns at the end of an episode: shorten them (partial) or draw only complete ones (full)."""
    envs: Few = 1
    """Environments to collect from in parallel; steps are counted over all of them together."""
    action_repeat: Few = 1
    """Environment steps for which each action is repeated."""
    max_episode_steps: Count | None = None
    """Environment steps after which an episode is truncated; by default only the environment's own limit applies."""
    pad_observations: Size | None = None
    """Number of zeros to append to every observation; by default none."""
    image_size: Few | None = None
    """Width and height in pixels of the images of dmc-pixels tasks and Atari games; by default 84."""
    capacity: Count = 1_000_000
    """Transitions that the replay memory holds."""
    data: Names | None = None
    """Earlier data to learn from: minari:ID, a Minari dataset, an .npz file, a run or several; by default none."""
    data_share: Share | None = None
    """Fraction of each batch that is drawn from the data; by default data and replay memory are drawn from as one."""
    from_run: Name | None = None
    """Run whose networks and optimisers this one starts with, those of its newest checkpoint; by default new ones."""
    hold_out: bool = False
    """Keep 1 episode in 16 from training for 10,000 steps, to measure on; --reuse auto does so by itself."""
    reset_every: Count | None = None
    """Environment steps between two resets of the agent, which keep the replay memory; by default there are none."""
    average_policy: PositiveShare | None = None
    """Act greedily (in evaluations and exports) with a running average of the policy's parameters, to which every
    learning step adds the newest ones with this weight, such as 0.003; by default with the newest policy itself."""
    eval_every: Count = 1_000
    """Environment steps between two evaluations."""
    eval_episodes: SizeOrZero = 10
    """Episodes of the greedy policy per evaluation. With --real-time the default is 1, and 0 evaluates never."""
    bias_every: Count | None = None
    """Environment steps between two measurements of the estimation bias, a multiple of eval_every; by default none."""
    bias_original: bool = False
    """Measure the estimation bias as the authors of REDQ did: temperature 0.2, normalised by at least 10."""
    real_time: bool = False
    """Train on a device: one environment, which never waits for learning within an episode (docs/robots.md)."""
    control_period: Positive | None = None
    """Seconds per environment step in real time; by default metadata["control_period"] of the environment."""
    greedy_every: Count | None = None
    """Length in episodes of a cycle in real time, whose last eval_episodes are greedy; by default 10."""
    hyper: Hyper
    """Hyperparameters of the algorithm."""

    def __post_init__(self) -> None:
        # One source may be given as a text. It is no part of the type: msgspec crashes on Name | Names.
        object.__setattr__(self, "data", (self.data,) if isinstance(self.data, str | Path) else self.data)
        validate(self)
        rule = rule_of(self.reuse, self.real_time)
        has_text = isinstance(rule, Schedule | Budget) or Auto.read(str(self.reuse)) is not None
        object.__setattr__(self, "reuse", str(rule if has_text else self.reuse))
        self._check_data()
        self._check_hold_out()
        self._check_real_time()
        require(
            self.bias_every is None or self.bias_every % self.eval_every == 0,
            f"bias_every must be a multiple of the {self.eval_every} steps between evaluations, not {self.bias_every}.",
        )
        evaluations = self.steps // self.eval_every
        require(
            evaluations <= MAX_EVALUATIONS,
            f"a run records at most {MAX_EVALUATIONS:,} evaluations, not {evaluations:,}; raise --eval-every.",
        )
        require(
            self.steps > self.warmup,
            f"{self.steps} steps are not more than the {self.warmup} of the warm-up, so nothing would be learned; "
            "raise --steps or lower --warmup.",
        )

    def _check_data(self) -> None:
        for source in (source for source in self.data or () if list(self.data or ()).count(source) > 1):
            raise SmrlError(f"data names {source} twice; name every source once.")
        if self.data_share is None:
            return
        require(self.data is not None, "--data-share needs data to draw from: name it with --data, or leave it out.")
        count = data_rows(self.data_share, self.batch_size)
        none = "of the data" if count == 0 else "that the run collects itself"
        require(
            0 < count < self.batch_size,
            f"a data_share of {self.data_share:g} leaves no row {none} in batches of {self.batch_size}: choose one "
            "between, such as 0.5.",
        )

    def _check_hold_out(self) -> None:
        if not self.holds_out:
            return
        flag = "--hold-out" if self.hold_out else f"--reuse {self.reuse}"
        require(
            not self.real_time,
            f"{flag} needs held-out episodes, which runs in real time do not keep: leave it out with --real-time.",
        )
        require(
            self.capacity > self.held_out_rows,
            f"{flag} holds episodes out for {self.held_out_rows:,} transitions, so the replay memory must hold more: "
            f"raise --capacity above {self.held_out_rows:,}.",
        )

    @property
    def holds_out(self) -> bool:
        """Whether episodes are held out of training."""
        return self.hold_out or isinstance(rule_of(self.reuse, self.real_time), ProbingRule)

    @property
    def held_out_rows(self) -> int:
        """Transitions for which an episode is held out."""
        return max(1, HELD_OUT_STEPS // self.action_repeat)

    def _check_real_time(self) -> None:
        """Refuse what makes no sense on a device, and what makes sense only there."""
        if not self.real_time:
            only = {
                "--eval-episodes 0": self.eval_episodes == 0,
                "--control-period": self.control_period is not None,
                "--greedy-every": self.greedy_every is not None,
            }
            for flag, is_given in only.items():
                require(not is_given, f"{flag} is for devices: add --real-time (docs/robots.md), or leave it out.")
            return
        require(
            Budget.read(str(self.reuse)) is None,
            f"--reuse {self.reuse} is for simulators: with --real-time choose realtime, a number or a schedule.",
        )
        require(self.envs == 1, f"--real-time drives one device, so there is one environment, not {self.envs}.")
        require(
            self.bias_every is None,
            "--bias-every plays episodes in environments of its own, which a device does not have: leave it out with "
            "--real-time.",
        )
        require(
            self.eval_episodes > 0 or self.greedy_every is None,
            "--eval-episodes 0 plays no greedy episodes; leave --greedy-every out.",
        )
        require(
            self.eval_episodes < self.greedy_cycle,
            f"{self.eval_episodes} of every {self.greedy_cycle} episodes cannot be greedy, because none would be left "
            "to explore; lower --eval-episodes or raise --greedy-every.",
        )

    @property
    def greedy_cycle(self) -> int:
        """Episodes of a real-time run of which the last ``eval_episodes`` are greedy."""
        return self.greedy_every or GREEDY_EVERY

    @property
    def env_options(self) -> dict[str, Any]:
        """Keywords for `smrl.envs.make.make`."""
        names = ("action_repeat", "max_episode_steps", "pad_observations", "image_size")
        return {name: getattr(self, name) for name in names}

    def to_json(self) -> dict[str, Any]:
        """Return the settings as config.json stores them."""
        return dataclasses.asdict(self)


def names(algorithm: str, steps: int | None = None) -> dict[str, Any]:
    """Return the default values of an algorithm's settings and hyperparameters by name.

    With ``steps``, hyperparameters that depend on the number of agent steps have their values for it.
    """
    config = registry.find(algorithm).config
    own = {field.name: field.default for field in dataclasses.fields(Settings) if field.name != "hyper"}
    defaults = config()
    if steps is not None and hasattr(defaults, "for_steps"):
        defaults = defaults.for_steps(steps)
    hyper = {field.name: getattr(defaults, field.name) for field in dataclasses.fields(config)}
    for name in own.keys() & hyper.keys():
        raise SmrlError(f"the hyperparameter {name} of {algorithm} has the name of a setting of smrl; rename it.")
    return own | hyper


def without_aliases(algorithm: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by smrl's names where they have those of other libraries.

    >>> without_aliases("sac", {"learning_starts": 100, "tau": 0.01})
    {'warmup': 100, 'tau': 0.01}
    """
    own, renamed = names(algorithm), dict[str, Any]()
    for name, value in values.items():
        meant = name if name in own else ALIASES.get(name, name)
        require(meant not in renamed, f"{meant} is given twice, once as {name}: leave one of them out.")
        renamed[meant] = value
    return renamed


def make_settings(algorithm: str, env: str, **values: Any) -> Settings[Any]:
    """Make settings from values of settings and hyperparameters; all others have their defaults.

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
    """Return the settings that `to_json` stored."""
    return make_settings(**{name: value for name, value in saved.items() if name != "hyper"} | saved["hyper"])


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that do not change its numbers."""

    runs: Path = Path("runs")
    """Folder of all runs."""
    name: Word | None = None
    """A word to add to the name of a new run's folder. It is no setting: the same settings are still the same run."""
    threads: Threads | None = None
    """CPU threads of each run; by default one per core for a single run. A resumed run keeps its number."""
    quiet: bool = False
    """Print nothing but errors."""
    checkpoint_seconds: NonNegative = 30.0
    """Seconds between two checkpoints."""
    log_seconds: Positive = 10.0
    """Seconds between two rows of training.csv, TensorBoard and Weights & Biases; every evaluation adds one."""
    env_workers: Literal["none", "process"] = "none"
    """Processes of the environments: none of their own, or one each, for simulators that are slow."""
    env_timeout: Positive | None = None
    """Seconds after which a reset or step in a process of its own counts as hanging; by default there is no limit."""
    env_restarts: Index = 0
    """How often processes of environments that die or hang are replaced; their episodes count as truncated."""
    max_minutes: Positive | None = None
    """Minutes after which the run is saved and stopped; the same command continues it. By default there is no limit."""
    stop_at: float | None = None
    """Mean return of an evaluation at which the run is saved and stopped; by default none."""
    diagnostics: bool = False
    """Add norms, dormant units, effective rank and values of the networks to training.csv (docs/diagnostics.md)."""
    wandb: Name | None = None
    """Weights & Biases project to log to; by default none."""

    def __post_init__(self) -> None:
        validate(self)
        for name in ("env_timeout", "env_restarts"):
            require(
                self.env_workers == "process" or not getattr(self, name),
                f"{name} concerns environments in processes of their own: add --env-workers process.",
            )
