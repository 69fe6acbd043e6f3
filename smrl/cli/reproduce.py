"""`smrl reproduce NAME`: reproduce a figure, a table or the theorems of the paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smrl.cli.common import Parser, exit_if_failed, out
from smrl.cli.flags import add_flags, add_settings, leading_names, parse, pop_into
from smrl.errors import nearest, require
from smrl.paper import batch_fit, reproduce
from smrl.paper.studies import STUDIES
from smrl.paper.tabular import q_smr
from smrl.paper.theory import claims
from smrl.report.text import as_terminal
from smrl.settings import RunOptions
from smrl.validation import Count, Few, Threads

BATCH_FIT = """\
Measure how far the TD error of a batch falls with 1, 2, 5, … updates on it.
Runs are trained or resumed as by smrl compare, and measured after --steps:

  smrl reproduce batch-fit sac HalfCheetah-v4 --reuse 1 10 --steps 10000 20000"""


@dataclass(frozen=True)
class BatchFit:
    """What to measure. No option stops a run before the steps after which it is measured."""

    updates: tuple[Count, ...] = batch_fit.UPDATES
    """Updates on one batch after which errors are measured."""
    batches: Count = batch_fit.BATCHES
    """Batches to measure at each of the --steps."""
    seeds: Few | None = None
    """Runs of each combination of settings, with seeds 0, 1, 2, …; by default 3."""
    runs: Path = Path("runs")
    """Folder of all runs."""
    threads: Threads | None = None
    """CPU threads of each run; a resumed run keeps its number."""
    quiet: bool = False
    """Print results and errors only."""


def run(words: Sequence[str]) -> None:
    """Run the study that the first word names; q-smr, theory and batch-fit have additional flags."""
    name, rest = (words[0], words[1:]) if leading_names(words) else ("", words)
    if name == "q-smr":
        return q_smr.run(parse(rest, "reproduce q-smr", q_smr.Options), out)
    if name == "theory":
        return claims.run(parse(rest, "reproduce theory", claims.Options), out)
    if name == "batch-fit":
        return _batch_fit(rest)
    options = parse(rest, f"reproduce {name or 'NAME'}", reproduce.Options)
    if options.list:
        return out.print(reproduce.overview(options))
    known = [*reproduce.WITHOUT_STUDY, *STUDIES]
    require(bool(name), f"begin with a name: smrl reproduce NAME, with one of {', '.join(known)}.")
    if name == "hyperparameters":
        return out.print(as_terminal(reproduce.hyperparameters()))
    require(name in STUDIES, f"there is no study '{name}' among {', '.join(known)}{nearest(name, known)}")
    if options.show:
        return reproduce.show_study(name, options, out)
    if outcome := reproduce.run_study(name, options, out):
        exit_if_failed(outcome.failures)
    return None


def _batch_fit(words: Sequence[str]) -> None:
    algorithm, env, *_ = [*leading_names(words), "", ""]
    parser = Parser("reproduce batch-fit ALGORITHM ENVIRONMENT", BATCH_FIT)
    add_flags(parser, "", {"": BatchFit})
    defaults = {"reuse": "1 and the preset's", "steps": " ".join(map(str, batch_fit.STEPS))}
    add_settings(parser, words, [algorithm] if algorithm else [], env, several=True, defaults=defaults)
    values = parser.read(words)
    command = pop_into(BatchFit, values)
    batch_fit.run(
        values.pop("algorithm"),
        values.pop("env"),
        RunOptions(runs=command.runs, threads=command.threads, quiet=command.quiet),
        out,
        updates=command.updates,
        batches=command.batches,
        seeds=command.seeds,
        **values,
    )
