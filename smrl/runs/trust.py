"""The code that a run's settings name: opening a downloaded run must not execute it without consent."""

import re
from collections.abc import Mapping
from typing import Any

from smrl.errors import require

_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:.+")  # module:name; a schedule such as 10:300000,1 begins with a digit


def named_code(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run with these settings would import besides smrl, as part of the run → ``module:name``.

    >>> named_code({"env": "my_module:Arm-v0", "algorithm": "sac", "reuse": "10:300000,1"})
    {'environment': 'my_module:Arm-v0'}
    """
    parts = {"environment": settings["env"], "algorithm": settings["algorithm"], "reuse rule": settings["reuse"]}
    return {
        part: name
        for part, name in parts.items()
        if _REFERENCE.fullmatch(name) and name.partition(":")[0].partition(".")[0] != "smrl"
    }


def refuse_code(path: object, code: Mapping[str, str]) -> None:
    """Refuse to open a run that would execute code which the user has not trusted."""
    named = " and ".join(f"the {part} {name}" for part, name in code.items())
    require(
        not code,
        f"{path} was trained with custom code, {named}, which would run now: if you trust it, add --trust "
        "(in Python: smrl.load(path, trust=True)).",
    )
