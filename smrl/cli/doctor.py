"""`smrl doctor RUN`: show a run's settings, verify its files, repair what is damaged."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smrl.cli.common import out
from smrl.cli.flags import parse
from smrl.runs import doctor


@dataclass(frozen=True)
class Doctor:
    """Show a run's settings, the modules it imports, and which files are damaged."""

    run: Path
    """Folder of the run, such as runs/Hopper-v4/sac-reuse10/seed0."""
    repair: bool = False
    """Repair the run with as little loss as possible."""


def run(words: Sequence[str]) -> None:
    """Print what was found or, with --repair, what was done."""
    command = parse(words, "doctor RUN", Doctor)
    lines = doctor.repair(command.run) if command.repair else doctor.examine(command.run).lines()
    for line in lines:
        out.print(line, markup=False)
