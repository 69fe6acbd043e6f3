"""`smrl check-env ENVIRONMENT`: is an environment fit for training?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.markup import escape

from smrl.cli.parsing import out, parse
from smrl.envs.check import check
from smrl.errors import require


@dataclass(frozen=True)
class CheckEnv:
    """Tell whether an environment is fit for training, and what is wrong with it."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")]
    """Gymnasium id, module:id for one that a module registers, or module:function for a function that makes it."""


def run(words: Sequence[str]) -> None:
    """Parse, check, print what was found; errors make the exit code 2."""
    command: CheckEnv = parse(words, "check-env", CheckEnv)
    findings = check(command.env)
    for finding in findings:
        out.print(f"[bold]{finding.level}[/]: {escape(finding.what)}. {escape(finding.meaning)}")
    errors = sum(finding.level == "error" for finding in findings)
    require(errors == 0, f"{command.env} is not fit for training: correct the errors listed above ({errors}).")
    out.print(f"{command.env} is fit for training.", markup=False)
