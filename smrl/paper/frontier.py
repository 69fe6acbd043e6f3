"""Scores per sample and per computation: runs beside published systems on four Gym tasks.

The score of a system at a step is the mean over tasks of its return divided by the best published one at that step.
Computation is counted for a task with 17 observations and 6 actions, as HalfCheetah and Walker2d have.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smrl.paper.published import Cost, costs, curve
from smrl.report.results import ResultRow
from smrl.report.text import TextTable, interval, number
from smrl.statistics import Array, Interval, bootstrap_interval, return_at

STEPS = (100_000, 50_000)
BEST = {  # the best published mean at these steps, in curves.csv or among SimbaV2's other ablations
    "Hopper-v4": (3386, 3231),
    "Walker2d-v4": (4546, 2584),
    "HalfCheetah-v4": (9815, 8114),
    "Ant-v4": (5219, 3601),
}
OBSERVATIONS, ACTIONS = 17, 6
SPEED = 90  # GFLOP/s of a core
WIDEST = 50_000  # steps between points of a published curve that a return is interpolated from
NORMAL_95 = 1.96  # standard errors on either side of a mean


@dataclass(frozen=True, eq=False)
class System:
    """A system with its scores and its cost."""

    name: str
    scores: tuple[Interval, ...]  # at STEPS
    seeds: int  # of the task with the fewest
    gflop: float  # per step of the environment
    hours: float = math.nan  # that 100,000 steps took

    @property
    def core_hours(self) -> float:
        """Core-hours of computation for 100,000 steps at SPEED."""
        return self.gflop * STEPS[0] / SPEED / 3600


def score_table(rows: Sequence[ResultRow]) -> TextTable:
    """Make the table of all systems, best first: settings of ours that have runs on all tasks, and published ones."""
    systems = [*_ours(rows), *map(_published, costs())]
    cells = tuple(
        (
            one.name,
            *(interval(*score) for score in one.scores),
            str(one.seeds),
            *map(number, (one.gflop, one.core_hours, one.hours)),
        )
        for one in sorted(systems, key=lambda one: -np.nan_to_num(one.scores[0].value))
    )
    columns = ("system", "score at 100K", "score at 50K", "seeds", "GFLOP per step", "core-hours", "hours")
    note = (
        "Score: mean over four tasks of the return over the best published one at that step; unknown where a published "
        "curve has no points near it. Brackets: 95 % interval over seeds; of published systems, from their standard "
        "deviations. Seeds: of the task with the fewest. Core-hours: computation of 100,000 steps at "
        f"{SPEED} GFLOP/s. Hours: what they took on one core."
    )
    return TextTable("Scores per sample and per computation", columns, cells, note, ("system",))


def update_gflop(settings: Mapping[str, Any]) -> float:
    """Return the GFLOP of one update of SAC or TD3, of which matrix products are nearly all; NaN for others.

    A pass is forward, or for one gradient. Two critics at (s, a) have those of their weights and inputs, and there are
    two targets at (s′, a′). In every delay-th update the actor learns, too: from both critics at (s, ã) in SAC, which
    have the gradient of the inputs, and from one in TD3.
    """
    if settings["algorithm"] == "sac":
        outputs, judges = 2 * ACTIONS, 2
    elif settings["algorithm"] == "td3":
        outputs, judges = ACTIONS, 1
    else:
        return math.nan
    share = 1 / settings.get("delay", 1)  # runs from before SAC had a delay do not name it
    actor_passes, critic_passes = 1 + 3 * share, 8 + 2 * judges * share
    actor = _weights(settings, settings["actor_hidden"], OBSERVATIONS, outputs)
    critic = _weights(settings, settings["critic_hidden"], OBSERVATIONS + ACTIONS, 1)
    return 2 * settings["batch_size"] * (actor_passes * actor + critic_passes * critic) / 1e9


def _weights(settings: Mapping[str, Any], hidden: Sequence[int], inputs: int, outputs: int) -> int:
    """Return the number of weights of a network, without biases."""
    if settings.get("network") == "simba":  # a block has d × 4d and 4d × d
        return inputs * hidden[0] + sum(8 * width**2 for width in hidden) + hidden[-1] * outputs
    sizes = (inputs, *hidden, outputs)
    return sum(before * after for before, after in itertools.pairwise(sizes))


def _ours(rows: Sequence[ResultRow]) -> Iterator[System]:
    for name in dict.fromkeys(row.setting for row in rows):
        by_task = {row.curve.env: row for row in rows if row.setting == name and row.step}
        if not by_task.keys() >= BEST.keys():
            continue
        chosen = [by_task[env] for env in BEST]
        settings = chosen[0].curve.settings
        updates = int(settings["reuse"]) * settings["fresh_batches"] if settings["reuse"].isdecimal() else math.nan
        hours = float(np.mean([row.hours * STEPS[0] / row.step for row in chosen]))
        seeds = min(len(row.returns) for row in chosen)
        scores = tuple(_score(chosen, at, seeds) for at in range(len(STEPS)))
        yield System(name, scores, seeds, updates * update_gflop(settings), hours)


def _score(rows: Sequence[ResultRow], at: int, seeds: int) -> Interval:
    """Return the score of the first ``seeds`` runs of every task."""
    reached = [
        return_at(STEPS[at], row.curve.steps, row.curve.values)[:seeds] / BEST[row.curve.env][at] for row in rows
    ]

    def mean(table: Array) -> Array:  # (…, seeds, tasks)
        return np.asarray(table.mean(axis=(-2, -1)))

    return bootstrap_interval(mean, np.stack(reached, axis=1))


def _published(cost: Cost) -> System:
    scores = tuple(_published_score(cost.algorithm, at) for at in range(len(STEPS)))
    known = [found for env in BEST if (found := curve(cost.algorithm, env))]
    seeds = min(int(return_at(STEPS[0], found.steps, found.seeds)) for found in known)
    return System(cost.name, scores, seeds, cost.gflop)


def _published_score(algorithm: str, at: int) -> Interval:
    """Return the score of published curves, with an interval for independent tasks and normal means over seeds."""
    means, errors = [], []
    for env, best in BEST.items():
        known = curve(algorithm, env)
        if known is None or not _is_known(known.steps, STEPS[at]):
            return Interval(*np.full(3, np.nan))
        mean, sd, seeds = (float(return_at(STEPS[at], known.steps, one)) for one in (known.mean, known.sd, known.seeds))
        means.append(mean / best[at])
        errors.append(sd / math.sqrt(seeds) / best[at])
    value, half = np.mean(means), NORMAL_95 * math.hypot(*errors) / len(errors)
    return Interval(np.asarray(value), np.asarray(value - half), np.asarray(value + half))


def _is_known(steps: Array, step: int) -> bool:
    """Return whether a curve has points close enough on both sides of a step.

    >>> _is_known(np.array([0.0, 20_000.0, 100_000.0]), 20_000), _is_known(np.array([0.0, 100_000.0]), 50_000)
    (True, False)
    """
    before, after = steps[steps <= step], steps[steps >= step]
    return bool(before.size and after.size and after.min() - before.max() <= WIDEST)
