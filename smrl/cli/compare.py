"""`smrl compare ALGORITHM… ENVIRONMENT`: train with several settings and seeds, side by side."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from smrl.algorithms import registry
from smrl.cli.failures import leave_if_failed
from smrl.cli.flags import (
    Flag,
    about,
    asks_for_help,
    default_values,
    names_before_flags,
    option_flags,
    preset_among,
    read,
    run_flags,
)
from smrl.cli.parsing import out
from smrl.errors import require
from smrl.paper import tasks
from smrl.report.figures import learning_curves
from smrl.report.tables import comparison_table
from smrl.runs.atomic import writing
from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions
from smrl.studies.launch import Outcome, run_all
from smrl.studies.sweep import slug, sweep
from smrl.validation import Count, Index

ABOUT = "Train all combinations of several settings and seeds: a table and a picture."
EXAMPLE = (
    "",
    "Every setting takes one or more values, layer sizes with commas:",
    "  smrl compare sac td3 Hopper-v4 --reuse 1 10 --actor-hidden 64,64 256,256",
    "",
    "@LIST stands for all tasks of a list that smrl list --tasks shows:",
    "  smrl compare sac @dmc-utd --preset paper utd",
)
STUDY = [
    Flag(
        "seeds",
        (Count,),
        "Runs of each combination, with the seeds 0, 1, 2, …",
        "3, and the paper's 6 with a preset that names a figure of it: lr, utd",
    ),
    Flag("retries", (Index,), "Times that a run is continued whose process the system has killed.", "1"),
    Flag("target", (float,), "A return: the table says how many environment steps each combination needs to reach it."),
    Flag(
        "preset", (str,), "Named settings that the flags are laid over; see smrl list --presets.", "paper", is_many=True
    ),
]


def run(words: Sequence[str]) -> None:
    """Parse, train all, show the table and where the picture is; exit code 2 if a run failed."""
    algorithms, env, rest = _names(words)
    is_help = asks_for_help(rest)
    defaults = default_values(algorithms, env, preset_among(rest)) if is_help else {}
    defaults |= {"reuse": "1 and the preset's"}
    groups = {"study": STUDY, **run_flags(algorithms, defaults, is_many=True), **option_flags()}
    groups["run settings"] = [
        dataclasses.replace(flag, is_many=flag.name != "steps")  # more steps continue a run, they make no other one
        for flag in groups["run settings"]
        if flag.name != "seed"
    ]
    more = () if algorithms else ("", "smrl compare sac --help adds the hyperparameters of SAC.")
    name = " ".join(["compare", *(algorithms or ["ALGORITHM…"]), env or "ENVIRONMENT"])
    given = read(rest, name, about(ABOUT, "ALGORITHM…", *EXAMPLE, *more), groups)
    values: dict[str, Any] = {
        flag.name: flag.values(words) if flag.is_many else flag.value(words) for flag, words in given.items()
    }
    target, retries = values.pop("target", None), values.pop("retries", 1)
    option_names = {item.name for item in dataclasses.fields(RunOptions)}
    options = RunOptions(**{name: value for name, value in values.items() if name in option_names})
    study = {name: value for name, value in values.items() if name not in option_names}
    envs = tasks.find(env[1:]).tasks if env.startswith("@") else (env,)
    settings = [one for task in envs for one in sweep(algorithms, task, **study)]
    _show(run_all(settings, options, retries), settings, options, target)


def _show(outcome: Outcome, settings: list[Any], options: RunOptions, target: float | None) -> None:
    if outcome.records:
        out.print(comparison_table(outcome.records, target))
        _, of_env, of_all = RunDirectory.of(settings[0], options.runs).path.parents[:3]
        folder = of_env if len({one.env for one in settings}) == 1 else of_all
        with writing(folder):
            picture = learning_curves(outcome.records, folder / f"{slug(settings)}.png", target)
        out.print(f"learning curves: {picture}", markup=False)
    leave_if_failed(outcome)


def _names(words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Algorithms, environment and flags; where help is asked for, the environment may be missing."""
    names, rest = names_before_flags(words)
    known = registry.names()
    if asks_for_help(rest) and (len(names) < 2 or names[-1] in known):
        return names, "", rest
    usage = "write smrl compare ALGORITHM… ENVIRONMENT, then the flags"
    require(bool(names), f"{usage}, with one or more algorithms of {', '.join(known)}.")
    require(len(names) > 1 and names[-1] not in known, f"{usage}: smrl compare {' '.join(names)} Hopper-v4.")
    return names[:-1], names[-1], rest
