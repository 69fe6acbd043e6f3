"""What is published for a run's algorithm and task: which names are the same thing, and the band at a step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smrl.paper import published
from smrl.paper.published import PAPER_SEEDS, PaperNumber, PublishedCurve
from smrl.report.statistics import return_at
from smrl.runs.identity import canonical

WIDTH = 2  # sample standard deviations to either side: a run is one draw, so the band is that of single seeds
NEAR = 0.05  # of a step: how far a run's evaluation may be from the only published step

_PLAIN = {"fresh_batches": 1, "learning_rate_factor": 1.0}
_REDQ = {"fresh_batches": 20, "learning_rate_factor": 1.0, "reuse": "1"}
_SMALL = {"layer_norm": False, "dropout": 0.0}
_COMMON = {"gamma": 0.99, "reward_scale": 1.0, "reset_every": None, "max_episode_steps": None}
_SAC = {**_PLAIN, **_SMALL, "actor_hidden": [256, 256], "critic_hidden": [256, 256]}


@dataclass(frozen=True)
class Counterpart:
    """Settings of smrl, and the names under which the same is published; a setting that is not named may differ."""

    algorithm: str
    settings: dict[str, Any]
    curves: tuple[str, ...] = ()  # names in curves.csv
    paper: str = ""  # name in the paper's tables


COUNTERPARTS = (
    Counterpart("sac", {"reuse": "1", **_SAC}, ("sac",), "SAC"),
    Counterpart("sac", {"reuse": "10", **_SAC}, (), "SAC-SMR"),
    Counterpart("sac", {"reuse": "1", **_SAC, "fresh_batches": 10}, (), "SAC-UTD10"),
    Counterpart("tqc", {"reuse": "1", **_PLAIN, **_SMALL}, (), "TQC"),
    Counterpart("tqc", {"reuse": "10", **_PLAIN, **_SMALL}, (), "TQC-SMR"),
    Counterpart("darc", {"reuse": "1", **_PLAIN, **_SMALL}, (), "DARC"),
    Counterpart("darc", {"reuse": "10", **_PLAIN, **_SMALL}, (), "DARC-SMR"),
    Counterpart("redq", {**_REDQ, **_SMALL, "critics": 10}, ("redq-utd20", "redq")),
    Counterpart("redq", {**_REDQ, "layer_norm": True, "critics": 2}, ("droq-utd20",)),
    Counterpart("drqv2", {"reuse": "1", **_PLAIN}, ("drqv2",), "DrQ-v2"),
    Counterpart("drqv2", {"reuse": "5", **_PLAIN}, (), "DrQ-v2-SMR"),
    Counterpart("dqn", {"reuse": "1", **_PLAIN}, ("dqn-dopamine",)),
)


@dataclass(frozen=True)
class Band:
    """What is published at a step."""

    name: str  # of the algorithm where it is published
    source: str
    step: int  # of the run
    mean: float
    sd: float
    seeds: int
    remark: str  # how it was run otherwise than the run at hand, and what is not known; empty if nothing is

    @property
    def low(self) -> float:
        """Lower end of the band."""
        return self.mean - WIDTH * self.sd

    @property
    def high(self) -> float:
        """Upper end of the band."""
        return self.mean + WIDTH * self.sd


@dataclass(frozen=True, eq=False)
class Published:
    """What is published for the settings of a run on their task."""

    settings: Mapping[str, Any]
    curve: PublishedCurve | None
    numbers: tuple[PaperNumber, ...]  # of the paper's tables

    def band(self, step: int) -> Band | None:
        """The published band at a step; None where there is none.

        Between the steps of a published curve mean and deviation are linear; up to 5 % before its first step and after
        its last they are those of that step. Without a curve it is a number of the paper's within 5 % of the step.
        """
        if self.curve is not None:
            return self._on_curve(self.curve, step)
        for number in self.numbers:
            if number.sd is not None and abs(step - step_of(number)) <= NEAR * step_of(number):
                note = remark(self.settings, number.algorithm)
                return Band(number.algorithm, "the paper", step, number.value, number.sd, PAPER_SEEDS, note)
        return None

    def _on_curve(self, curve: PublishedCurve, step: int) -> Band | None:
        inside = float(np.clip(step, curve.steps[0], curve.steps[-1]))
        if abs(step - inside) > NEAR * inside:
            return None
        mean, sd = (float(return_at(inside, curve.steps, values)) for values in (curve.mean, curve.sd))
        seeds = int(curve.seeds[np.argmin(abs(curve.steps - inside))])
        return Band(curve.algorithm, curve.source, step, mean, sd, seeds, remark(self.settings, curve.algorithm))


def find(settings: Mapping[str, Any]) -> Published:
    """What is published for these settings on their task."""
    known = counterpart(settings)
    if known is None:
        return Published(settings, None, ())
    curves = filter(None, (published.curve(name, settings["env"]) for name in known.curves))
    numbers = tuple(number for number in paper_task(settings["env"]) if number.algorithm == known.paper)
    return Published(settings, next(curves, None), numbers)


def counterpart(settings: Mapping[str, Any]) -> Counterpart | None:
    """What these settings are called where they are published; a setting that an old run lacks counts as equal."""
    return next((one for one in COUNTERPARTS if _matches(settings, one)), None)


def paper_task(env: str) -> list[PaperNumber]:
    """What the paper's tables print for a task; its Gym tasks are -v2, which -v4 is closest to."""
    tables = {"gym": "sample_efficiency", "dmc": "performance", "dmc-pixels": "pixels"}
    suite, name = published.suite_of(env), published.task_name(env).rpartition("/")[2].replace("-v4", "-v2")
    numbers = published.paper_table(tables[suite]) if suite in tables else []
    return [number for number in numbers if number.task == name]


def step_of(number: PaperNumber) -> int:
    """The step, or for steps to a return the return, that a measure of the paper's tables names.

    >>> step_of(PaperNumber("performance", "cheetah-run", "return_at_250000", "SAC", 284.6, 20.5))
    250000
    """
    return int(number.measure.removesuffix("_frames").rpartition("_")[2])


def remark(settings: Mapping[str, Any], name: str) -> str:
    """Differences between the published runs of an algorithm and these settings, and what is unknown of those runs."""
    protocol, mine = published.protocol(name, settings["env"]), settings.get("action_repeat", 1)
    differs = protocol.action_repeat not in (None, mine)
    parts = [f"action repeat {protocol.action_repeat} there, {mine} here"] if differs else []
    return "; ".join([*parts, *filter(None, [protocol.remark])])


def _matches(settings: Mapping[str, Any], one: Counterpart) -> bool:
    wanted = {"algorithm": one.algorithm, **_COMMON, **one.settings}
    return canonical({name: settings.get(name, value) for name, value in wanted.items()}) == canonical(wanted)
