"""`smrl check-env ENVIRONMENT`: check an environment for common problems."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.markup import escape

from smrl.cli.common import out
from smrl.cli.flags import parse
from smrl.envs.check import check
from smrl.errors import require


@dataclass(frozen=True)
class CheckEnv:
    """Check an environment for common problems.

    The exit code is 2 if it is not fit for training.
    """

    env: str
    """Gymnasium id; module:id for one that a module registers, module:function for a function that makes it."""


def run(words: Sequence[str]) -> None:
    """Print the findings; raise an error if the environment cannot be used for training."""
    command = parse(words, "check-env ENVIRONMENT", CheckEnv)
    findings = check(command.env)
    for finding in findings:
        out.print(f"[bold]{finding.level}[/]: {escape(finding.what)}. {escape(finding.meaning)}")
    errors = sum(finding.level == "error" for finding in findings)
    require(errors == 0, f"{command.env} is not fit for training: correct the errors listed above ({errors}).")
    out.print(f"{command.env} is fit for training.", markup=False)
