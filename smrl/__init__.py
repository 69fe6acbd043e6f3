"""smrl: sample-efficient off-policy reinforcement learning by sample multiple reuse.

The public names are loaded when they are first used, so importing smrl costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smrl.api import train
    from smrl.errors import SmrlError
    from smrl.smr.loop import reuse
    from smrl.studies.presets import Preset, Row
    from smrl.studies.registration import register
    from smrl.training.evaluator import evaluate
    from smrl.training.play import play
    from smrl.training.policy import Policy
    from smrl.training.run import Run, load

_HOMES = {
    "Policy": "smrl.training.policy",
    "Preset": "smrl.studies.presets",
    "Row": "smrl.studies.presets",
    "Run": "smrl.training.run",
    "SmrlError": "smrl.errors",
    "evaluate": "smrl.training.evaluator",
    "load": "smrl.training.run",
    "play": "smrl.training.play",
    "register": "smrl.studies.registration",
    "reuse": "smrl.smr.loop",
    "train": "smrl.api",
}

__all__ = ["Policy", "Preset", "Row", "Run", "SmrlError", "evaluate", "load", "play", "register", "reuse", "train"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'smrl' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
