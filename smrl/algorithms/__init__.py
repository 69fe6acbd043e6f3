"""The registry: a name, its hyperparameters, and the function that makes it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smrl.algorithms.darc import DARC, darc
from smrl.algorithms.ddpg import DDPG, ddpg
from smrl.algorithms.redq import REDQ, redq
from smrl.algorithms.sac import SAC, sac
from smrl.algorithms.td3 import TD3, td3
from smrl.algorithms.tqc import TQC, tqc
from smrl.errors import SmrlError, nearest
from smrl.types import Algorithm, Spec


@dataclass(frozen=True)
class Entry:
    """An algorithm as it is listed."""

    title: str
    config: type[Any]  # a frozen dataclass, Hyperparameters and more
    make: Callable[[Any, Spec], Algorithm[Any]]


ALGORITHMS: dict[str, Entry] = {
    "ddpg": Entry("deep deterministic policy gradient", DDPG, ddpg),
    "td3": Entry("twin delayed DDPG", TD3, td3),
    "sac": Entry("soft actor-critic", SAC, sac),
    "darc": Entry("double actors regularised critics", DARC, darc),
    "tqc": Entry("truncated quantile critics", TQC, tqc),
    "redq": Entry("randomised ensembled double Q-learning", REDQ, redq),
}


def find(name: str) -> Entry:
    """The entry of a name, or a sentence that names the nearest."""
    if name not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise SmrlError(f"there is no algorithm '{name}' among {known}{nearest(name, ALGORITHMS)}")
    return ALGORITHMS[name]
