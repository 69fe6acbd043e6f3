"""`smrl inspect RUN`: what a run is, whether it is whole, and what opening it would import."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape

from smrl.cli.parsing import out, parse
from smrl.runs.doctor import examine


@dataclass(frozen=True)
class Inspect:
    """Tell what a run is, whether it is whole and what it would import."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, such as runs/Hopper-v4/sac-reuse10/seed0."""


def run(words: Sequence[str]) -> None:
    """Parse, inspect, print."""
    command: Inspect = parse(words, "inspect", Inspect)
    for line in examine(command.run).lines():
        out.print(escape(line))
