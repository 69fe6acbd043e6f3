"""`smrl theory`: the paper's statements measured one by one, with pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from smrl.errors import require
from smrl.files import writing
from smrl.parsing import out, parse
from smrl.tabular import theory, theory_figures, theory_finite_time, theory_limits
from smrl.tabular.theory import Finding

STATEMENTS: tuple[Callable[[int], Finding], ...] = (
    theory.update_rule,
    theory.stability,
    theory.nonreturnable,
    lambda seed: theory.effective_rates(),
    theory.deep_sum,
    lambda seed: theory.deep_never_equal(),
    theory_limits.convergence,
    theory_limits.vanishing_bias,
    theory_limits.constant_rate_bias,
    theory_finite_time.finite_time,
    theory_finite_time.sample_complexity,
    theory_finite_time.bound_is_informative,
    theory_finite_time.exploration_condition,
    lambda seed: theory_finite_time.repaired_rate(),
    theory_finite_time.two_states_mix,
)
PICTURES: dict[str, Callable[[Finding, Path], Path]] = {  # by how the statement begins
    "effective rate": theory_figures.draw_rates,
    "convergence:": theory_figures.draw_convergence,
    "finite time:": theory_figures.draw_finite_time,
}


@dataclass(frozen=True)
class Theory:
    """Measure the paper's theorems on random finite MDPs; about half a minute, ends with pictures."""

    seed: int = 0
    """Seed of the MDPs and trajectories."""
    runs: Path = Path("runs")
    """Folder whose subfolder theory gets the pictures."""


def theory_command(words: Sequence[str]) -> None:
    """`smrl theory --seed 0`: the paper's theorems, measured one by one on random finite MDPs."""
    command = parse(words, "theory", Theory)
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
                out.print(f"  picture: {picture}")
