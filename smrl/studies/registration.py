"""Algorithms and presets of one's own, under a name."""

from smrl.algorithms import registry
from smrl.algorithms.registry import Make
from smrl.errors import SmrlError
from smrl.studies import presets
from smrl.studies.presets import Preset


def register(name: str, what: Make | Preset, title: str = "") -> None:
    """Make an algorithm or a preset known under a name in this process.

    An algorithm is a function ``(config, spec) → Algorithm``; see docs/extend.md. Packages use the entry-point groups
    ``smrl.algorithms`` and ``smrl.presets`` instead, and the command line also takes ``module:name``.

    >>> register("quick", Preset("a short run", (presets.Row("*", {"steps": 20_000}),)))
    >>> presets.resolve("sac", "Hopper-v4", "quick").steps
    20000
    """
    if not isinstance(what, Preset):
        registry.register(name, what, title)
    elif name in OURS:
        raise SmrlError(f"{name} is a preset of smrl; register yours under another name.")
    else:
        presets.PRESETS[name] = what


OURS = tuple(presets.PRESETS)
