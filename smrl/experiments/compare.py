"""Several reuse ratios side by side: the same settings, several seeds each."""

import dataclasses
from dataclasses import dataclass
from typing import TypeVar

from smrl.errors import require
from smrl.experiment import Experiment, ReuseArgument, Settings

Hyper = TypeVar("Hyper")


@dataclass(frozen=True, kw_only=True)
class Comparison(Settings[Hyper]):
    """The settings of a comparison."""

    reuse: tuple[ReuseArgument, ...]
    """The reuse ratios to compare (the paper's M)."""
    seeds: int = 3
    """How many runs of each: seeds 0, 1, 2, …"""
    target: float | None = None
    """A return: tell how many steps each needs to reach it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.seeds >= 1, f"seeds must be at least 1, not {self.seeds}.")
        require(len(self.reuse) >= 1, "give at least one reuse ratio, for example --reuse 1 10.")

    def experiments(self) -> list[Experiment[Hyper]]:
        """One experiment per reuse ratio and seed."""
        common = {field.name: getattr(self, field.name) for field in dataclasses.fields(Settings)}
        return [Experiment(**common, reuse=reuse, seed=seed) for reuse in self.reuse for seed in range(self.seeds)]
