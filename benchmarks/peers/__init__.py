"""What smrl is compared with: SBX, Stable-Baselines3 and eager PyTorch; `pip install "smrl[peers]"` installs them.

A maker in one of these modules prepares networks and batches and returns a call that makes so many updates.
"""

import importlib
import sys
from typing import Any

LIBRARIES = {"SBX": "sbx", "SB3": "stable_baselines3"}


def calls_of(makers: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """What those makers make, given as module, function and arguments, whose packages are installed."""
    calls = dict[str, Any]()
    for name, (module, maker, *arguments) in makers.items():
        try:
            calls[name] = getattr(importlib.import_module(f"{__name__}.{module}"), maker)(*arguments)
        except ModuleNotFoundError as error:
            print(f"{name}: {error.name} is not installed", file=sys.stderr)
    return calls
