"""`smrl evaluate RUN`: measure the return of a trained policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smrl import plugins, runtime
from smrl.cli.common import out
from smrl.cli.flags import parse
from smrl.runs.identity import title
from smrl.statistics import sample_sd
from smrl.training.evaluator import evaluate
from smrl.training.run import Run, load
from smrl.validation import Size


@dataclass(frozen=True)
class Evaluate:
    """Measure a run's greedy policy: mean return ± sample standard deviation (n − 1)."""

    run: Path
    """Folder of the run, such as runs/Hopper-v4/sac-reuse10/seed0."""
    episodes: Size = 10
    """Episodes to play; the first are those of the run's evaluations."""
    best: bool = False
    """Use the policy of the run's best evaluation instead of the newest one."""
    env: str | None = None
    """Environment to use, as in smrl train; by default that of the run."""
    trust: bool = False
    """Import and execute the modules that the run's settings name, also from the working directory."""


def run(words: Sequence[str]) -> None:
    """Evaluate and print the statistics."""
    command = parse(words, "evaluate RUN", Evaluate)
    trained = load_run(command)
    played = evaluate(trained, command.episodes, best=command.best, env=command.env)
    returns = played.returns
    sd = f" ± {sample_sd(returns):,.2f}" if len(returns) > 1 else ""
    out.print(
        f"{title(trained.settings.to_json())}, {len(returns)} episodes: return {returns.mean():,.2f}{sd} "
        f"(from {returns.min():,.2f} to {returns.max():,.2f}), mean length {played.lengths.mean():,.1f}",
        markup=False,
    )


def load_run(command: Evaluate) -> Run:
    """Load a run and use its number of threads, so that the episodes of its evaluations come out the same."""
    if command.trust or command.env:
        plugins.use_working_directory()
    trained = load(command.run, command.trust)
    runtime.start(trained.threads)
    return trained
