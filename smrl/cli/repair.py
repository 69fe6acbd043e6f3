"""`smrl repair RUN`: make a damaged run usable again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape

from smrl.cli.parsing import out, parse
from smrl.runs.doctor import repair


@dataclass(frozen=True)
class Repair:
    """Make a damaged run usable again, with as little loss as possible."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, such as runs/Hopper-v4/sac-reuse10/seed0."""


def run(words: Sequence[str]) -> None:
    """Parse, repair, print what was done."""
    command: Repair = parse(words, "repair", Repair)
    for message in repair(command.run):
        out.print(escape(message))
