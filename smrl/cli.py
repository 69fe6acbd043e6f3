"""The command line: parses, calls, prints."""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import tyro
from rich.markup import escape
from rich.table import Table

from smrl import runtime
from smrl.algorithms import ALGORITHMS
from smrl.envs.catalogue import families
from smrl.envs.check import check
from smrl.errors import SmrlError, nearest, require
from smrl.evaluate import Evaluator
from smrl.experiment import Experiment, Settings, design
from smrl.experiments.compare import Comparison
from smrl.experiments.launch import run_all
from smrl.experiments.presets import PRESETS
from smrl.files import writing
from smrl.interruption import Interrupted
from smrl.parsing import out, parse
from smrl.play import play
from smrl.progress import Board
from smrl.report.figures import learning_curves
from smrl.report.table import comparison_table
from smrl.run import load
from smrl.rundir import RunDirectory
from smrl.schedule import Schedule
from smrl.session import Session
from smrl.tabular.command import tabular_command
from smrl.tabular.theory_command import theory_command
from smrl.train import carry_out

Hyper = TypeVar("Hyper")


@dataclass(frozen=True)
class Train(Generic[Hyper]):
    """Train an algorithm, or continue its run; a finished run is left alone."""

    experiment: Experiment[Hyper]
    session: Session
    preset: str = "paper"
    """Named settings that the flags are laid over; `smrl list --presets` shows them."""


@dataclass(frozen=True)
class Compare(Generic[Hyper]):
    """Train with several reuse ratios and seeds, one process per core; ends with a table and a picture."""

    comparison: Comparison[Hyper]
    session: Session
    preset: str = "paper"
    """Named settings that the flags are laid over; `smrl list --presets` shows them."""


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the greedy policy of a run."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    episodes: int = 10
    """Episodes to play; the first are those of the run's own evaluations."""


@dataclass(frozen=True)
class Play:
    """Watch the greedy policy of a run."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    video: Path | None = None
    """File to write, ending in .mp4; without it, a window opens."""
    episodes: int = 1
    """Episodes to play."""


@dataclass(frozen=True)
class List:
    """List the algorithms, presets and environments."""

    presets: bool = False
    """Show what each preset sets, by algorithm and task."""


@dataclass(frozen=True)
class CheckEnv:
    """Is an environment fit for training, and what is wrong with it?"""

    env: tyro.conf.Positional[str]
    """Gymnasium id, or module:id."""


# The type of the hyperparameters is known only when the algorithm's name is read, too late for a type checker.
TRAIN: Any = Train
COMPARE: Any = Compare


def train_command(words: Sequence[str]) -> None:
    """`smrl train ALGORITHM ENV`: train, or continue a run; a finished run is left alone."""
    default = Train(_design("train", words), Session())
    command = parse(words[1:], f"train {words[0]}", TRAIN[type(default.experiment.hyper)], default)
    experiment, session = command.experiment, command.session
    _require_second("train", words, experiment.env)
    with Board(session.quiet) as board:
        meter = board.meter(experiment.title, experiment.steps)
        run = carry_out(experiment, session, experiment.make_env, meter)
    if not session.quiet:
        out.print(f"the run is in {run.path}")


def compare_command(words: Sequence[str]) -> None:
    """`smrl compare ALGORITHM ENV --reuse 1 10 --seeds 3`: side by side, one process per core."""
    base = _design("compare", words)
    shared = {field.name: getattr(base, field.name) for field in dataclasses.fields(Settings)}
    comparison = Comparison(**shared, reuse=tuple({Schedule((1,)): 0, base.reuse: 0}))
    default = Compare(comparison, Session())
    command = parse(words[1:], f"compare {words[0]}", COMPARE[type(base.hyper)], default)
    comparison, session = command.comparison, command.session
    _require_second("compare", words, comparison.env)
    comparison.experiments()[0].make_env().close()  # a wrong one is refused here, once, and not by every process
    experiments = comparison.experiments()
    records = run_all(experiments, session)
    out.print(comparison_table(records, comparison.target))
    folder = RunDirectory.of(experiments[0], session.runs).path.parents[1]
    with writing(folder):
        picture = learning_curves(records, folder / f"{experiments[0].variant}.png", comparison.target)
    out.print(f"learning curves: {picture}")


def evaluate_command(words: Sequence[str]) -> None:
    """`smrl evaluate RUN --episodes 20`: returns of the greedy policy."""
    command = parse(words, "evaluate", Evaluate)
    require(command.episodes >= 1, f"episodes must be at least 1, not {command.episodes}.")
    run = load(command.run)
    runtime.start(run.threads)  # so that the episodes of the run's own evaluations come out the same
    policy = run.policy
    evaluator = Evaluator(run.experiment.make_env, command.episodes, run.experiment.seed)
    episodes = evaluator(policy.normalised)
    returns, lengths = episodes.returns, episodes.lengths
    evaluator.close()
    out.print(
        f"{run.experiment.title}, {len(returns)} episodes: return {returns.mean():,.2f} ± {returns.std():,.2f} "
        f"(from {returns.min():,.2f} to {returns.max():,.2f}), mean length {lengths.mean():,.1f}"
    )


def play_command(words: Sequence[str]) -> None:
    """`smrl play RUN --video play.mp4`: watch the greedy policy."""
    command = parse(words, "play", Play)
    require(command.episodes >= 1, f"episodes must be at least 1, not {command.episodes}.")
    run = load(command.run)
    runtime.start(run.threads)
    returns = play(run, command.video, command.episodes)
    where = f"; the video is {command.video}" if command.video else ""
    out.print(f"return {', '.join(f'{value:,.1f}' for value in returns)}{where}")


def check_env_command(words: Sequence[str]) -> None:
    """`smrl check-env ID`: is this environment fit for training, and what is wrong with it?"""
    command = parse(words, "check-env", CheckEnv)
    findings = check(command.env)
    for finding in findings:
        out.print(f"[bold]{finding.level}[/]: {escape(finding.what)}. {escape(finding.meaning)}")
    errors = sum(finding.level == "error" for finding in findings)
    require(errors == 0, f"{command.env} is not fit for training: {errors} error(s), listed above, must be mended.")
    out.print(f"{command.env} is fit for training.")


def list_command(words: Sequence[str]) -> None:
    """`smrl list`: algorithms, presets, environments; with --presets what each preset sets."""
    if parse(words, "list", List).presets:
        table = Table("preset", "algorithm", "tasks", "settings", box=None)
        for name, preset in PRESETS.items():
            for row in preset.rows:
                settings = ", ".join(f"{setting} {value}" for setting, value in row.settings.items())
                table.add_row(f"[bold]{name}[/]", row.algorithm, escape(row.tasks), settings or "as in the paper")
        out.print(table)
        return
    for heading, rows in (
        ("algorithms", {name: f"{entry.title}, reuse {design(name, '').reuse}" for name, entry in ALGORITHMS.items()}),
        ("presets", {name: preset.title for name, preset in PRESETS.items()}),
        ("environments", families()),
    ):
        table = Table("name", "", title=heading, title_justify="left", show_header=False, box=None)
        for name, text in rows.items():
            table.add_row(f"[bold]{name}[/]", text)
        out.print(table)
        out.print()


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "train": train_command,
    "compare": compare_command,
    "evaluate": evaluate_command,
    "play": play_command,
    "list": list_command,
    "check-env": check_env_command,
    "tabular": tabular_command,
    "theory": theory_command,
}


def main(words: Sequence[str] | None = None) -> None:
    """Run a command; what a user can put right is one sentence and exit code 2."""
    words = list(sys.argv[1:] if words is None else words)
    sys.path.append("")  # so that module:id finds a module of the working directory, as with python -m
    try:
        if not words or words[0] in ("-h", "--help"):
            for command in COMMANDS.values():
                out.print(command.__doc__)
            return
        if words[0] not in COMMANDS:
            raise SmrlError(
                f"there is no command '{words[0]}' among {', '.join(COMMANDS)}{nearest(words[0], COMMANDS)}"
            )
        COMMANDS[words[0]](words[1:])
    except SmrlError as error:
        print(f"smrl: {error}", file=sys.stderr)
        sys.exit(2)
    except Interrupted as stop:
        print(f"smrl: {stop}", file=sys.stderr)
        sys.exit(stop.exit_code)


def _design(command: str, words: Sequence[str]) -> Experiment[Any]:
    """The defaults that the flags are laid over, from the names of the algorithm, the task and the preset."""
    usage = f"write smrl {command} ALGORITHM ENVIRONMENT, with an algorithm of {', '.join(ALGORITHMS)}"
    if words and words[0] in ("-h", "--help"):
        out.print(f"{usage}; smrl {command} sac --help lists the flags.")
        sys.exit(0)
    require(bool(words) and not words[0].startswith("-"), f"{usage}.")
    preset = "paper"
    for index, word in enumerate(words):
        if word.startswith("--preset"):
            preset = word.partition("=")[2] or next(iter(words[index + 1 :]), "")
    env = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
    return dataclasses.replace(design(words[0], env, preset), env=tyro.MISSING)


def _require_second(command: str, words: Sequence[str], env: str) -> None:
    """The task decides defaults, so it must be known before the flags are read."""
    sentence = f"write the environment right after the algorithm: smrl {command} {words[0]} {env}, then the flags."
    require(words[1] == env, sentence)
