"""Published learning curves and the numbers in the paper's tables, with their sources; read on first use."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from smrl.envs.catalogue import canonical
from smrl.errors import SmrlError, nearest
from smrl.report.report import PublishedCurve

ATARI = "NoFrameskip-v4"
ATARI_FRAMES = 4  # frames per step of smrl; the published axis counts frames
PAPER_SEEDS = 6


@dataclass(frozen=True)
class PaperNumber:
    """A number in one of the paper's tables."""

    table: str
    task: str  # the paper's name
    measure: str
    algorithm: str  # the paper's name
    value: float
    sd: float | None  # the paper does not define it


@dataclass(frozen=True)
class Source:
    """A repository that published curves."""

    key: str
    repository: str
    commit: str
    licence: str


@dataclass(frozen=True)
class Cost:
    """The computation of a system."""

    algorithm: str  # its published name
    name: str
    gflop: float  # per step of an environment with 17 observations and 6 actions, computed from its networks


@dataclass(frozen=True)
class Protocol:
    """How an algorithm was run on a suite: gym, dmc, dmc-pixels or atari."""

    algorithm: str
    suite: str
    action_repeat: int | None  # None where it is unknown
    remark: str


def curve(algorithm: str, env: str) -> PublishedCurve | None:
    """Return the curve of an algorithm, given its published name, on a task; None if there is none."""
    return _curves().get((algorithm, task_name(env)))


def curves_of(env: str) -> list[PublishedCurve]:
    """Return all published curves of a task."""
    name = task_name(env)
    return [found for (_, task), found in _curves().items() if task == name]


def paper_table(name: str) -> list[PaperNumber]:
    """Return a table of the paper: sample_efficiency (steps to a return), performance or pixels (returns at a step)."""
    rows = _rows("paper_tables.csv")
    tables = dict.fromkeys(row["table"] for row in rows)
    if name not in tables:
        raise SmrlError(f"the paper's tables are {', '.join(tables)}, not '{name}'{nearest(name, tables)}")
    return [_paper_number(row) for row in rows if row["table"] == name]


def sources() -> list[Source]:
    """Return the repositories that published the curves."""
    return [Source(**row) for row in _rows("sources.csv")]


def costs() -> list[Cost]:
    """Return the computation of the systems that scores are compared with."""
    return [Cost(row["algorithm"], row["name"], float(row["gflop"])) for row in _rows("costs.csv")]


def protocol(algorithm: str, env: str) -> Protocol:
    """Return how an algorithm, given its published name, was run on the suite of a task."""
    suite = suite_of(env)
    repeat = 1 if suite == "gym" else None
    for row in _rows("protocols.csv"):
        if (row["algorithm"], row["suite"]) == (algorithm, suite):
            known = int(row["action_repeat"]) if row["action_repeat"] else None
            return Protocol(algorithm, suite, known, row["remark"])
    return Protocol(algorithm, suite, repeat, "")


def suite_of(env: str) -> str:
    """Return the suite of a task: gym, dmc, dmc-pixels or atari."""
    if env.endswith(ATARI):
        return "atari"
    name = task_name(env)
    return name.partition("/")[0] if name.startswith(("dmc/", "dmc-pixels/")) else "gym"


def task_name(env: str) -> str:
    """Return the published name of a task.

    >>> task_name("dmc/ball_in_cup-catch"), task_name("dm_control/finger-turn_hard-v0"), task_name("Ant-v4")
    ('dmc/cup-catch', 'dmc/finger-turn-hard', 'Ant-v4')
    """
    env = canonical(env)
    return env.replace("ball_in_cup", "cup").replace("_", "-") if env.startswith(("dmc/", "dmc-pixels/")) else env


def _paper_number(row: dict[str, str]) -> PaperNumber:
    table, task, measure, algorithm, value, sd = row.values()
    return PaperNumber(table, task, measure, algorithm, float(value), float(sd) if sd else None)


@cache
def _curves() -> dict[tuple[str, str], PublishedCurve]:
    grouped: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in _rows("curves.csv"):
        grouped.setdefault((row["algorithm"], row["environment"]), []).append(row)
    return {key: _curve(*key, rows) for key, rows in grouped.items()}


def _curve(algorithm: str, env: str, rows: list[dict[str, str]]) -> PublishedCurve:
    steps, mean, sd, seeds = (np.array([float(row[name]) for row in rows]) for name in ("step", "mean", "sd", "seeds"))
    if env.endswith(ATARI):
        steps = steps / ATARI_FRAMES
    return PublishedCurve(algorithm, env, steps, mean, sd, seeds.astype(np.int64), rows[0]["source"])


@cache
def _rows(name: str) -> list[dict[str, str]]:
    text = files("smrl.paper").joinpath("published", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
