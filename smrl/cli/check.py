"""`smrl check RUNS…`: whether runs lie within the published band of their algorithm and task."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from smrl.cli.parsing import out, parse
from smrl.errors import require
from smrl.paper.check import check
from smrl.report.gather import gather
from smrl.report.text import printable


@dataclass(frozen=True)
class Check:
    """Tell whether runs learn as published; exit code 1 if one is below the band.

    The band is the published mean ± 2 sample standard deviations over seeds.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS…", help_behavior_hint="")]
    """Folders of runs, or folders with runs in them, such as runs/Hopper-v4."""


def run(words: Sequence[str]) -> None:
    """Parse, compare, print; exit code 1 if a run is below its band, or else 2 if one cannot be read."""
    command: Check = parse(words, "check", Check)
    require(bool(command.runs), "write smrl check RUNS…, with one or more folders of runs: smrl check runs.")
    gathered = gather(command.runs)
    verdicts = [check(record) for record in gathered.records]
    for verdict in verdicts:
        out.print(printable(verdict.line), markup=False)
    for message in gathered.problems:
        print(f"smrl: {printable(message)}", file=sys.stderr)
    if any(verdict.outcome == "below" for verdict in verdicts):
        sys.exit(1)
    if gathered.problems:
        sys.exit(2)
