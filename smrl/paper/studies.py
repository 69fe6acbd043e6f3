"""The paper's figures and tables as studies: which runs each of them needs.

Where the paper does not name a figure's tasks, or only suggests a study, ``ours`` describes our choice.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from smrl.errors import nearest, require
from smrl.paper.tasks import LISTS
from smrl.presets import SMR_PLUS
from smrl.runs.identity import canonical
from smrl.settings import Settings
from smrl.smr.rules import Schedule, rule_of
from smrl.studies.sweep import distinct, sweep

Layout = Literal["curves", "steps", "returns", "bias", "hours", "gain", "scores"]
EVALUATIONS = 20  # per run where runs are shorter than the paper's
IN_STEPS = ("epsilon_steps", "noise_steps")  # hyperparameters that are numbers of steps


@dataclass(frozen=True)
class Runs:
    """A grid of runs: algorithms × tasks × values, where a list holds several values of a setting."""

    algorithms: str | tuple[str, ...]
    tasks: str | tuple[str, ...]  # the name of a task list (`smrl list --tasks`), or ids
    values: dict[str, Any] = field(default_factory=dict)
    preset: str = "paper"
    label: str = ""  # of a grid of one combination: what tables and figures call it instead of naming its settings

    def ids(self) -> tuple[str, ...]:
        """Return the ids of the tasks."""
        return LISTS[self.tasks].tasks if isinstance(self.tasks, str) else self.tasks


@dataclass(frozen=True)
class Study:
    """A figure or table of the paper, or a study of ours."""

    shows: str  # where it is in the paper
    title: str
    runs: tuple[Runs, ...]
    seeds: int = 6
    first_seed: int = 0
    layout: Layout = "curves"
    at: tuple[int, ...] = ()  # the steps of a table of returns
    ours: str = ""  # what the paper leaves open and we chose


ANT, CHEETAH, HOPPER, WALKER = ("Ant-v4",), ("HalfCheetah-v4",), ("Hopper-v4",), ("Walker2d-v4",)
TWO = (*CHEETAH, *WALKER)
FOUR = (*HOPPER, *WALKER, *CHEETAH, *ANT)
BOTH = {"reuse": [1, 10]}
SCORED = {"steps": 100_000, "eval_every": 5_000}
PIXELS = tuple(
    f"dmc-pixels/{task}" for task in ("cheetah-run", "ball_in_cup-catch", "cartpole-swingup", "reacher-easy")
)
MAIN_PIXELS = ("dmc-pixels/finger-spin", "dmc-pixels/walker-walk")
TABLE_2 = ("dmc/cheetah-run", "dmc/fish-swim")
PONG = ("PongNoFrameskip-v4",)
GAMES = tuple(f"{game}NoFrameskip-v4" for game in ("Breakout", "BeamRider", "SpaceInvaders"))
RATES = (1e-3, 1e-4, 3e-4, 3e-5)
NORMALISED = {"normalise_rewards": True, "normalise_observations": True}
LOW_TEMPERATURE = {"initial_temperature": 0.01, "target_entropy_factor": -0.5, "log_std_min": -10.0}  # SimBa's
LAYER_NORM = NORMALISED | LOW_TEMPERATURE | {"layer_norm": True}
PROJECTED = {"weight_projection": True}
WIDE = {"critic_hidden": (512, 512)}
THREE_LAYERS = {"critic_hidden": (256, 256, 256)}
TWO_STEPS, THREE_STEPS = {"n_step": 2}, {"n_step": 3}
AVERAGED = {"average_policy": 0.003}
FIVE_CRITICS = {"critics": 5, "fresh_batches": 1, "target_entropy": None}  # of REDQ, whose presets set the entropy
SIMBA = {"network": "simba", "critic_hidden": (128, 128), "actor_hidden": (128,)}
CRITICS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # label, algorithm and settings
    ("SAC", "sac", {}),
    ("+ normalised rewards", "sac", {"normalise_rewards": True}),
    ("+ normalised observations", "sac", NORMALISED),
    ("+ low temperature", "sac", NORMALISED | LOW_TEMPERATURE),
    ("+ low temperature, reuse 10", "sac", NORMALISED | LOW_TEMPERATURE | {"reuse": 10}),
    ("+ LayerNorm", "sac", LAYER_NORM),
    ("+ LayerNorm, averaged policy", "sac", LAYER_NORM | AVERAGED),
    ("+ LayerNorm, critics' learning rate 1e-4", "sac", LAYER_NORM | {"critic_learning_rate": 1e-4}),
    ("+ LayerNorm, γ 0.995", "sac", LAYER_NORM | {"gamma": 0.995}),  # of SimBa and its successors
    ("+ LayerNorm, delay 4", "sac", LAYER_NORM | {"delay": 4}),  # a third less computation
    ("+ LayerNorm, 2-step returns", "sac", LAYER_NORM | TWO_STEPS),
    ("+ LayerNorm, 2-step returns, REDQ's 5 critics", "redq", LAYER_NORM | TWO_STEPS | FIVE_CRITICS),
    ("+ LayerNorm, 3-step returns", "sac", LAYER_NORM | THREE_STEPS),
    ("+ LayerNorm, 4 fresh batches", "sac", LAYER_NORM | {"reuse": 1, "fresh_batches": 4}),
    ("+ LayerNorm, 2 × 512", "sac", LAYER_NORM | WIDE),
    ("+ LayerNorm, 2 × 512, reuse 2", "sac", LAYER_NORM | WIDE | {"reuse": 2}),
    ("+ LayerNorm, reuse 10", "sac", LAYER_NORM | {"reuse": 10}),
    ("+ LayerNorm, projection", "sac", LAYER_NORM | PROJECTED),
    ("+ LayerNorm, projection, reuse 10", "sac", LAYER_NORM | PROJECTED | {"reuse": 10}),
    ("+ LayerNorm, projection, 3 × 256", "sac", LAYER_NORM | PROJECTED | THREE_LAYERS),
    ("+ SimBa", "sac", NORMALISED | LOW_TEMPERATURE | SIMBA),
    ("+ SimBa, projection", "sac", NORMALISED | LOW_TEMPERATURE | SIMBA | PROJECTED),
    ("XQC", "xqc", {"critic_hidden": 4 * (256,)}),
    ("TD3", "td3", {}),
    ("TD3 + normalised, LayerNorm", "td3", NORMALISED | {"layer_norm": True}),
)
ON_WALKER = (
    *("+ LayerNorm", "+ LayerNorm, averaged policy", "+ LayerNorm, delay 4"),
    *("+ LayerNorm, 2-step returns", "+ LayerNorm, 3-step returns"),
)
ON_ANT = ("+ LayerNorm, 2-step returns", "+ LayerNorm, 2-step returns, REDQ's 5 critics")
GATE = {"eval_every": 5_000, "reuse": 4}
GUESSED_TASKS = "tasks that smrl list --tasks marks as guessed"

STUDIES = {
    "gym": Study(
        "Fig. 4",
        "SAC, DARC, TQC and REDQ with and without reuse on Gym MuJoCo",
        (Runs(("sac", "darc", "tqc"), "gym", BOTH), Runs("redq", "gym", {"reuse": [1, 5]})),
    ),
    "sample-efficiency": Study(
        "Tab. 1",
        "steps to a return on Gym MuJoCo",
        (
            Runs(("sac", "tqc", "darc"), "gym", {"reuse": 1, "steps": 1_000_000}),
            Runs(("sac", "tqc", "darc"), "gym", {"reuse": 10, "steps": 400_000}),
        ),
        layout="steps",
        ours="the budgets: 1,000,000 steps without and 400,000 with reuse, enough for the paper's numbers",
    ),
    "dmc-pybullet": Study(
        "Fig. 5 and 12",
        "SAC with and without reuse on DeepMind Control and PyBullet",
        (Runs("sac", "dmc", BOTH), Runs("sac", "pybullet", BOTH), Runs("sac_pixels", MAIN_PIXELS, {"reuse": [1, 5]})),
        ours=GUESSED_TASKS,
    ),
    "performance": Study(
        "Tab. 2",
        "SAC, SAC with ten fresh batches and SAC with reuse on DeepMind Control",
        (Runs("sac", TABLE_2, BOTH), Runs("sac", TABLE_2, {"reuse": 1, "fresh_batches": 10})),
        layout="returns",
        at=(250_000, 500_000),
    ),
    "smr-ratio": Study(
        "Fig. 6", "SAC with reuse 1 to 20", (Runs("sac", (*ANT, *CHEETAH), {"reuse": [1, 2, 5, 10, 20]}),)
    ),
    "learning-rate": Study(
        "Fig. 7",
        "SAC with reuse against learning rates ten times as large",
        (Runs("sac", TWO, BOTH), Runs("sac", TWO, {"reuse": 1}, "lr")),
        ours="the two tasks, HalfCheetah and Walker2d",
    ),
    "bias": Study(
        "Fig. 8",
        "estimation bias of SAC with and without reuse",
        (Runs("sac", CHEETAH, BOTH | {"bias_every": 1_000, "bias_original": True}),),
        layout="bias",
    ),
    "utd": Study(
        "Fig. 9",
        "SAC with reuse against ten fresh batches",
        (
            Runs("sac", "dmc-utd", BOTH | {"steps": 1_000_000}),
            Runs("sac", "dmc-utd", {"reuse": 1}, "utd"),
        ),
        ours=GUESSED_TASKS,
    ),
    "td3-ddpg": Study("Fig. 10", "TD3 and DDPG with and without reuse", (Runs(("td3", "ddpg"), "gym", BOTH),)),
    "overfitting": Study(
        "Fig. 11",
        "TD3 and DDPG with smaller reuse and larger batches on Ant",
        (
            Runs(("td3", "ddpg"), ANT, {"reuse": 1}),
            Runs(("td3", "ddpg"), ANT, {"reuse": 10, "batch_size": [256, 300, 400]}),
            Runs("td3", ANT, {"reuse": 5}),
            Runs("ddpg", ANT, {"reuse": [2, 5]}),
        ),
    ),
    "pixels-sac": Study(
        "Fig. 13", "SAC from images with and without reuse", (Runs("sac_pixels", PIXELS, {"reuse": [1, 5]}),)
    ),
    "drqv2": Study(
        "Fig. 14 and Tab. 3",
        "DrQ-v2 with and without reuse",
        (Runs("drqv2", "dmc-pixels", {"reuse": [1, 5]}),),
        layout="returns",
        at=(500_000,),
    ),
    "longer": Study(
        "Fig. 15",
        "SAC with and without reuse for 1,000,000 steps on DeepMind Control",
        (Runs("sac", "dmc-1m", BOTH | {"steps": 1_000_000}),),
        ours=GUESSED_TASKS,
    ),
    "tqc-1m": Study(
        "Fig. 16",
        "TQC with and without reuse for 1,000,000 steps on Gym MuJoCo",
        (Runs("tqc", "gym", BOTH | {"steps": 1_000_000}),),
    ),
    "pong": Study("Fig. 17", "DQN with reuse 10 on Pong", (Runs("dqn", PONG, BOTH),), seeds=5),
    "atari": Study(
        "Fig. 18",
        "DQN with reuse 2 on four games",
        (Runs("dqn", PONG, {"reuse": [1, 2], "steps": 1_000_000}), Runs("dqn", GAMES, {"reuse": [1, 2]})),
        seeds=5,
    ),
    "lr-sweep": Study(
        "Fig. 19",
        "SAC with and without reuse at four learning rates of actor and critics",
        tuple(Runs("sac", TWO, BOTH | {"actor_learning_rate": rate, "critic_learning_rate": rate}) for rate in RATES),
    ),
    "budget": Study("text", "training time of reuse 10 over reuse 1", (Runs("sac", WALKER, BOTH),), layout="hours"),
    "warm-up": Study(
        "text",
        "reuse for the first 300,000 steps only",
        (Runs("sac", TWO, {"reuse": [1, 10, "10:300000,1"], "steps": 1_000_000}),),
        ours="the whole study: the paper only suggests it",
    ),
    "resets": Study(
        "text",
        "periodic resets against overfitting",
        (Runs("td3", ANT, {"reuse": [1, 10]}), Runs("td3", ANT, {"reuse": 10, "reset_every": 100_000})),
        ours="the whole study: the paper only suggests it",
    ),
    "controls": Study(
        "not in the paper",
        "what explains the gain of reuse: faster targets, the amount of computation, fresh batches, exploration",
        tuple(
            Runs("sac", tasks, control | {"steps": steps, "eval_every": every})
            for tasks, steps, every in (((*HOPPER, *CHEETAH), 30_000, 5_000), (TABLE_2[:1], 100_000, 10_000))
            for control in (
                BOTH,
                {"reuse": 1, "tau": 0.05},  # moves the targets as far per step as ten updates with 0.005
                {"reuse": 10, "tau": 0.0005},  # as far as one
                {"reuse": 10, "batch_size": 128, "learning_rate": 1.6e-4},  # half the computation
                {"reuse": 1, "fresh_batches": 10},
                BOTH | {"exploration": "mean-plus-noise"},
            )
        ),
        seeds=3,
        layout="gain",
    ),
    "scores": Study(
        "not in the paper",
        "SAC with reuse 1 and 10 and the preset smr+, by the newest policy and its average, beside published systems",
        (
            Runs("sac", FOUR, BOTH | SCORED),
            *(
                Runs("sac", tasks, SCORED | {"reuse": SMR_PLUS["reuse"]} | change, "smr+", label)
                for label, tasks, change in (
                    ("SAC, smr+", FOUR, {}),
                    ("SAC, smr+, averaged policy", FOUR, AVERAGED),
                    ("SAC, smr+, 2 × 512", FOUR, WIDE),
                    ("SAC, smr+, 2 × 512, averaged policy", FOUR, WIDE | AVERAGED),
                    ("SAC, smr+, 1-step returns", (*HOPPER, *CHEETAH), {"n_step": 1}),
                    ("SAC, smr+, 1-step returns, averaged policy", WALKER, {"n_step": 1} | AVERAGED),
                )
            ),
        ),
        seeds=3,
        layout="scores",
    ),
    "critics": Study(
        "not in the paper",
        "critics that bear reuse 4: one addition to SAC after the other, other reuse, SimBa, REDQ, XQC and TD3",
        (
            *(
                Runs(algorithm, (*HOPPER, *CHEETAH), GATE | {"steps": 30_000} | change, label=label)
                for label, algorithm, change in CRITICS
            ),
            *(
                Runs(algorithm, task, GATE | {"steps": 50_000} | change, label=label)
                for task, shown in ((WALKER, ON_WALKER), (ANT, ON_ANT))
                for label, algorithm, change in CRITICS
                if label in shown
            ),
        ),
        seeds=2,
        first_seed=10,  # settings are chosen by these runs; others with the seeds 0, 1, 2 report them
    ),
    "priming": Study(
        "text",
        "100,000 updates on the first batch, then one per step",
        (Runs("sac", ("dmc/quadruped-run",), {"reuse": [1, "100000:5001,1"], "steps": 500_000}),),
        ours="the whole study: the paper only mentions that such a large reuse overfits",
    ),
}


def runs(
    study: Study, scale: float = 1.0, seeds: int | None = None, patterns: Sequence[str] = ()
) -> list[Settings[Any]]:
    """Return the runs of a study at a fraction of the paper's steps, on the tasks that match a pattern or on all."""
    known = list(dict.fromkeys(env for grid in study.runs for env in grid.ids()))
    for pattern in patterns:
        require(
            any(fnmatchcase(env, pattern) for env in known),
            f"the study has no task '{pattern}' among {', '.join(known)}{nearest(pattern, known)}",
        )
    every_seed = range(study.first_seed, study.first_seed + (seeds or study.seeds))
    chosen = [env for env in known if not patterns or any(fnmatchcase(env, pattern) for pattern in patterns)]
    found = [
        one
        for grid in study.runs
        for env in grid.ids()
        if env in chosen
        for one in sweep(grid.algorithms, env, preset=grid.preset, seeds=every_seed, **grid.values)
    ]
    return distinct(scaled(one, scale) for one in found)


def to_train(several: Sequence[Settings[Any]]) -> list[Settings[Any]]:
    """Leave out runs that others record, too: those without an averaged policy beside the same runs with one."""
    recorded = [dataclasses.replace(one, average_policy=None) for one in several if one.average_policy is not None]
    return [one for one in several if one not in recorded]


def labels(study: Study, scale: float = 1.0) -> dict[str, str]:
    """Return the labels of a study's runs by their identity (`smrl.runs.identity`), without those that have none."""
    return {
        canonical(one.to_json()): grid.label
        for grid in study.runs
        if grid.label
        for one in runs(dataclasses.replace(study, runs=(grid,)), scale, 1)
    }


def scaled(settings: Settings[Any], scale: float) -> Settings[Any]:
    """Return a run with a fraction of its steps and of everything else in steps, and with 20 evaluations.

    At a scale of 1 it is the same run.
    """
    if scale == 1:
        return settings

    def scaled_steps(steps: int) -> int:
        return max(1, round(steps * scale / settings.action_repeat)) * settings.action_repeat

    eval_every = math.ceil(settings.steps * scale / EVALUATIONS / settings.action_repeat) * settings.action_repeat
    steps = EVALUATIONS * eval_every
    warmup = min(scaled_steps(settings.warmup), steps - 1)
    hyper = settings.hyper
    counted = {name: max(1, round(getattr(hyper, name) * scale)) for name in IN_STEPS if hasattr(hyper, name)}
    return dataclasses.replace(
        settings,
        steps=steps,
        warmup=warmup,
        eval_every=eval_every,
        bias_every=None if settings.bias_every is None else eval_every,
        reset_every=None if settings.reset_every is None else scaled_steps(settings.reset_every),
        reuse=_scaled_rule(settings, scale, warmup),
        hyper=dataclasses.replace(hyper, **counted),
    )


def _scaled_rule(settings: Settings[Any], scale: float, warmup: int) -> int | str:
    """Scale the steps of a schedule after the warm-up."""
    rule = rule_of(settings.reuse)
    if not isinstance(rule, Schedule):
        return settings.reuse
    until = (warmup + max(1, round((step - settings.warmup) * scale)) for step in rule.until)
    return str(Schedule(rule.values, tuple(until)))
