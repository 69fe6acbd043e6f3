"""`smrl compare ALGORITHM… ENVIRONMENT`: train with several settings and seeds, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smrl.algorithms import registry
from smrl.cli.common import Parser, exit_if_failed
from smrl.cli.curves import FIGURES, picture_of, require_ending, show_results
from smrl.cli.flags import HELP, add_flags, add_settings, leading_names, pop_into
from smrl.errors import require
from smrl.paper.tasks import LISTS
from smrl.settings import RunOptions
from smrl.studies.launch import run_all
from smrl.studies.sweep import expand_tasks, sweep
from smrl.validation import Few, Index

USAGE = "compare ALGORITHM… ENVIRONMENT"
ABOUT = """\
Train all combinations of settings and seeds; show a table and learning curves.
Every setting takes one or more values; lists of layer sizes have commas:

  smrl compare sac td3 Hopper-v4 --reuse 1 10 --actor-hidden 64,64 256,256

@LIST stands for all tasks of a list; smrl list --tasks shows the lists:

  smrl compare sac @dmc-utd --preset paper utd"""


@dataclass(frozen=True)
class Study:
    """What to do with the runs of a comparison."""

    seeds: Few | None = None
    """Runs per combination, with seeds 0, 1, 2, …; by default 3, and the paper's 6 with the presets lr and utd."""
    retries: Index = 1
    """How often to resume a run whose process the system has killed."""
    target: float | None = None
    """A return: the table shows how many environment steps each combination needs to reach it."""
    output: Path | None = None
    """File for the learning curves, .png, .pdf or .svg; by default a .png in the folder of the runs."""


def run(words: Sequence[str]) -> None:
    """Train all runs, print the table and where the figure is; exit with code 2 if a run failed."""
    *algorithms, env = _names(words)
    parser = Parser(USAGE, ABOUT)
    add_flags(parser, "", {"": Study})
    add_settings(parser, words, algorithms, env, several=True, defaults={"reuse": "1 and the preset's"})
    add_flags(parser, "run options", {"": RunOptions}, {})
    values = parser.read(words)
    study, options = pop_into(Study, values), pop_into(RunOptions, values)
    if study.output:
        require_ending(study.output, FIGURES)
    algorithms, env = values.pop("algorithm"), values.pop("env")
    tasks = expand_tasks(env, {name: found.tasks for name, found in LISTS.items()})
    settings = [one for task in tasks for one in sweep(algorithms, task, seeds=study.seeds, **values)]
    outcome = run_all(settings, options, study.retries, is_announced=False)
    if outcome.records:
        show_results(outcome.records, study.output or picture_of(settings, options), study.target)
    exit_if_failed(outcome.failures)


def _names(words: Sequence[str]) -> list[str]:
    """Return the algorithms, then the environment, which may be "" if the help is asked for."""
    names, known = leading_names(words), registry.names()
    if len(names) > 1 and names[-1] not in known:
        return names
    require(
        not HELP.isdisjoint(words),
        f"begin with algorithms and an environment, such as smrl compare {' '.join(names) or 'sac td3'} Hopper-v4; "
        f"the algorithms are {', '.join(known)}.",
    )
    return [*names, ""]
