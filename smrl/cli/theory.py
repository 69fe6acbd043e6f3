"""`smrl theory`: the paper's statements measured one by one, with pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from smrl.cli.parsing import out, parse
from smrl.errors import require
from smrl.paper.theory.claims import CLAIMS, STUDIES, Claim
from smrl.paper.theory.finding import Finding
from smrl.runs.atomic import writing


@dataclass(frozen=True)
class Theory:
    """Measure the paper's theorems on random finite MDPs, in about half a minute."""

    seed: int = 0
    """Seed of the MDPs and trajectories."""
    studies: bool = False
    """Run the longer studies instead (about two minutes): how steps grow with γ, μ_min, t_mix and learning rates."""
    what_if: bool = False
    """Change the world so that each verdict has to turn, and print what the checks then say; draws no pictures."""
    runs: Path = Path("runs")
    """Folder whose subfolder theory gets the pictures."""


def run(words: Sequence[str]) -> None:
    """Parse, measure, print a line per statement and where the pictures are."""
    command: Theory = parse(words, "theory", Theory)
    require(command.seed >= 0, f"seed must be at least 0, not {command.seed}.")
    for claim in STUDIES if command.studies else CLAIMS:
        if command.what_if:
            for change, arguments in claim.what_if.items():
                notify(claim.found(command.seed, **arguments), f", if {change}")
        else:
            show(claim, command)


def show(claim: Claim, command: Theory) -> None:
    """Print what a check finds, and draw it."""
    finding = claim.found(command.seed)
    notify(finding)
    if claim.draw:
        folder = command.runs / "theory"
        with writing(folder):
            picture = claim.draw(finding, folder)
        out.print(f"  picture: {picture}", markup=False)


def notify(finding: Finding, change: str = "") -> None:
    """Print a statement, what was measured and the verdict."""
    name, measured = escape(f"{finding.statement}{change}"), escape(finding.measured)
    out.print(f"[bold]{name}[/]: {measured}. [bold]{finding.verdict}[/]")
