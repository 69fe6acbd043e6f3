"""Decide what a stored run may import: a run that somebody else wrote executes no code without the user's consent."""

from collections.abc import Mapping
from typing import Any

from smrl.algorithms import registry
from smrl.envs.make import is_known
from smrl.errors import require
from smrl.smr.rules import is_built_in


def custom_code(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the names in these settings that are not on the list of what needs no trust, by part of the run.

    The list holds the ids in Gymnasium's registry and in smrl's suites, the registered algorithms, schedules and
    smrl's rules. Everything else could import a module, so it is not judged by its looks.

    >>> custom_code({"env": "my_module:Arm-v0", "algorithm": "sac", "reuse": "10:300000,1"})
    {'environment': 'my_module:Arm-v0'}
    """
    env, algorithm, reuse = settings["env"], settings["algorithm"], settings["reuse"]
    needs_trust = {
        "environment": (env, not is_known(env)),
        "algorithm": (algorithm, algorithm not in registry.names()),
        "reuse rule": (reuse, not is_built_in(reuse)),
    }
    return {part: name for part, (name, is_custom) in needs_trust.items() if is_custom}


def refuse_code(path: object, code: Mapping[str, str]) -> None:
    """Refuse to open a run that would execute code which the user has not trusted."""
    named = " and ".join(f"the {part} {name!r}" for part, name in code.items())
    require(
        not code,
        f"{path} was trained with custom code, {named}, which would run now: if you trust it, add --trust "
        "(in Python: smrl.load(path, trust=True)).",
    )
