"""Bounds that hyperparameters of one name have in every algorithm."""

import dataclasses
from typing import Any

from smrl.errors import require


def check_hyperparameters(config: Any) -> None:
    """Say which hyperparameter of a frozen dataclass is out of its bounds."""
    for field in dataclasses.fields(config):
        name, value = field.name, getattr(config, field.name)
        if name.endswith("learning_rate"):
            require(value > 0, f"{name} must be positive, not {value}.")
        elif name.endswith("noise") or name.endswith("clip"):
            require(value >= 0, f"{name} must not be negative, as {value} is.")
        elif name.endswith("hidden"):
            require(len(value) > 0 and min(value) > 0, f"{name} must be positive layer sizes, not {value}.")
        elif name == "tau":
            require(0 < value <= 1, f"tau must lie in (0, 1], not be {value}.")
