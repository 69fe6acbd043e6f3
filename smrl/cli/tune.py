"""`smrl tune ALGORITHM ENVIRONMENT`: search settings with Optuna."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smrl.cli.common import Parser, out
from smrl.cli.flags import add_flags, add_settings, leading_names, pop_into
from smrl.envs.catalogue import canonical
from smrl.errors import SmrlError
from smrl.report.figures import learning_curves
from smrl.report.text import TextTable, as_markdown, as_terminal, number
from smrl.runs.atomic import write_atomically, writing
from smrl.runs.identity import algorithm_words, file_name, flat, words
from smrl.runs.paths import RunDirectory
from smrl.runs.records import read_run
from smrl.settings import RunOptions
from smrl.studies.space import as_toml, default_space, read_space
from smrl.studies.tune import Search, Trial, read_trials, search, write_best
from smrl.validation import Few

ABOUT = """\
Search settings with Optuna; write the best ones as a preset.
Run it again to resume, or run it several times at once to use more cores:

  smrl tune sac Pendulum-v1 --trials 50 --steps 20000 --threads 1
  smrl train sac Pendulum-v1 --preset tune/sac-Pendulum-v1/best.toml

Settings that are given are the same for all trials."""
SHOWN = 5  # trials in the table on the terminal, and curves in the figure


@dataclass(frozen=True)
class Command:
    """What to search, and how long."""

    trials: Few = 50
    """Trials of the study, with those that it has already."""
    space: Path | None = None
    """TOML file of the settings to search and their ranges; by default what --show-space prints."""
    show_space: bool = False
    """Print the space as TOML, to edit it, without searching."""
    study: Path | None = None
    """Folder of the study; by default tune/ALGORITHM-ENVIRONMENT."""


def run(given: Sequence[str]) -> None:
    """Search; print the best trials and where the results are."""
    algorithm, env, *_ = [*leading_names(given), "", ""]
    parser = Parser("tune ALGORITHM ENVIRONMENT", ABOUT)
    add_flags(parser, "", {"": Command})
    add_settings(parser, given, [algorithm] if algorithm else [], env)
    add_flags(parser, "run options", {"": RunOptions}, {"runs": "runs in the folder of the study"})
    values = parser.read(given)
    command = pop_into(Command, values)
    algorithm, env, preset = values.pop("algorithm"), canonical(values.pop("env")), values.pop("preset", "paper")
    folder = command.study or Path("tune", file_name(f"{algorithm}-{env}", "."))
    options = pop_into(RunOptions, {"runs": folder / "runs"} | values)
    values = {name: value for name, value in values.items() if not hasattr(options, name)}
    space = read_space(command.space, algorithm, values) if command.space else default_space(algorithm, values)
    if command.show_space:
        out.print(as_toml(space), markup=False, end="")
        return
    task = Search(folder, algorithm, env, preset, values, space, options)
    search(task, command.trials)
    _write_results(task, read_trials(task))


def _write_results(task: Search, trials: Sequence[Trial]) -> None:
    complete = [trial for trial in trials if trial.state == "complete"]
    if not complete:
        raise SmrlError(f"no trial of {task.folder} is complete; give more --trials.")
    preset = write_best(task, complete[0])
    title = f"{algorithm_words(task.algorithm)} on {task.env}"
    page, figure = task.folder / "trials.md", task.folder / "trials.png"
    best = [read_run(RunDirectory.of(task.settings(trial.chosen), task.options).path) for trial in complete[:SHOWN]]
    with writing(task.folder):
        learning_curves(best, figure)
        content = f"{as_markdown([_table(title, trials)])}\n![learning curves of the best trials]({figure.name})\n"
        write_atomically(page, content.encode())
    out.print(as_terminal(_table(title, trials[:SHOWN])))
    out.print(f"all trials: {page}\nbest settings: {preset}; --preset {preset} trains with them", markup=False)


def _table(title: str, trials: Sequence[Trial]) -> TextTable:
    rows = tuple(
        (
            f"{trial.number}",
            trial.state,
            number(trial.value),
            f"{trial.steps:,}",
            *map(words, flat(trial.chosen).values()),
        )
        for trial in trials
    )
    note = "Return: mean of the last fifth of a trial's evaluations."
    return TextTable(title, ("trial", "state", "return", "steps", *trials[0].chosen), rows, note, left=("state",))
