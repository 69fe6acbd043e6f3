"""smrl: sample-efficient off-policy reinforcement learning by sample multiple reuse.

The public names are imported on first use, so that importing smrl is fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smrl.api import register, train
    from smrl.errors import SmrlError
    from smrl.presets import Preset, Row
    from smrl.smr.auto import Auto, Probe
    from smrl.smr.loop import reuse
    from smrl.training.evaluator import evaluate
    from smrl.training.play import play
    from smrl.training.run import Policy, Run, load
    from smrl.training.status import Status

    __version__: str

_MODULES = {
    "Auto": "smrl.smr.auto",
    "Policy": "smrl.training.run",
    "Preset": "smrl.presets",
    "Probe": "smrl.smr.auto",
    "Row": "smrl.presets",
    "Run": "smrl.training.run",
    "SmrlError": "smrl.errors",
    "Status": "smrl.training.status",
    "evaluate": "smrl.training.evaluator",
    "load": "smrl.training.run",
    "play": "smrl.training.play",
    "register": "smrl.api",
    "reuse": "smrl.smr.loop",
    "train": "smrl.api",
}

__all__ = [
    "Auto",
    "Policy",
    "Preset",
    "Probe",
    "Row",
    "Run",
    "SmrlError",
    "Status",
    "evaluate",
    "load",
    "play",
    "register",
    "reuse",
    "train",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = importlib.import_module("importlib.metadata").version("smrl")
    elif name in _MODULES:
        value = getattr(importlib.import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module 'smrl' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
