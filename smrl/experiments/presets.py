"""Named settings; what a preset does not name has the algorithm's default, which is the paper's table."""

from dataclasses import dataclass, field
from typing import Any

from smrl.errors import SmrlError, nearest


@dataclass(frozen=True)
class Preset:
    """Settings by algorithm."""

    title: str
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)


PRESETS: dict[str, Preset] = {
    "paper": Preset("the paper's hyperparameter table"),
    "authors": Preset(
        "as the authors' code: SAC acts by its mean plus N(0, 0.1), not by sampling",
        {"sac": {"exploration": "mean-plus-noise"}},
    ),
}


def find(name: str, algorithm: str) -> dict[str, Any]:
    """A preset's settings for an algorithm."""
    if name not in PRESETS:
        raise SmrlError(f"there is no preset '{name}' among {', '.join(PRESETS)}{nearest(name, PRESETS)}")
    return PRESETS[name].settings.get(algorithm, {})
