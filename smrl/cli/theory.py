"""`smrl theory`: the paper's statements measured one by one, with pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from smrl.cli.parsing import out, parse
from smrl.errors import require
from smrl.runs.files import writing
from smrl.theory import figures, finite_time, limits, statements
from smrl.theory.statements import Finding

STATEMENTS: tuple[Callable[[int], Finding], ...] = (
    statements.update_rule,
    statements.stability,
    statements.nonreturnable,
    lambda seed: statements.effective_rates(),
    statements.deep_sum,
    lambda seed: statements.deep_never_equal(),
    limits.convergence,
    limits.vanishing_bias,
    limits.constant_rate_bias,
    finite_time.finite_time,
    finite_time.sample_complexity,
    finite_time.bound_is_informative,
    finite_time.exploration_condition,
    lambda seed: finite_time.repaired_rate(),
    finite_time.two_states_mix,
)
PICTURES: dict[str, Callable[[Finding, Path], Path]] = {  # by how the statement begins
    "effective rate": figures.draw_rates,
    "convergence:": figures.draw_convergence,
    "finite time:": figures.draw_finite_time,
}


@dataclass(frozen=True)
class Theory:
    """Measure the paper's theorems on random finite MDPs, in about half a minute."""

    seed: int = 0
    """Seed of the MDPs and trajectories."""
    runs: Path = Path("runs")
    """Folder whose subfolder theory gets the pictures."""


def run(words: Sequence[str]) -> None:
    """Parse, measure, print a line per statement and where the pictures are."""
    command: Theory = parse(words, "theory", Theory)
    require(command.seed >= 0, f"seed must be at least 0, not {command.seed}.")
    folder = command.runs / "theory"
    for statement in STATEMENTS:
        finding = statement(command.seed)
        verdict = "holds" if finding.holds else "does not hold"
        out.print(f"[bold]{escape(finding.statement)}[/]: {escape(finding.measured)}. [bold]{verdict}[/]")
        for start, draw in PICTURES.items():
            if finding.lines and finding.statement.startswith(start):
                with writing(folder):
                    picture = draw(finding, folder / f"{start.rstrip(':').replace(' ', '-')}.png")
                out.print(f"  picture: {picture}", markup=False)
