"""`smrl batch-fit ALGORITHM ENVIRONMENT`: how well M updates on one batch fit it and held-out transitions."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from smrl.algorithms import registry
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
from smrl.paper.batch_fit import batch_fit
from smrl.paper.batch_fit_figure import draw_falls
from smrl.paper.batch_fit_statistics import fall_table, falls, sentences
from smrl.paper.batch_fit_table import FILE
from smrl.runs.atomic import writing
from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions
from smrl.studies.sweep import slug, sweep
from smrl.validation import Count

ABOUT = "Measure how far the TD error of a batch falls with 1, 2, 5, … updates on it."
MORE = (
    "",
    "Runs are trained or continued as by smrl compare, and measured after --steps:",
    "  smrl batch-fit sac HalfCheetah-v4 --reuse 1 10 --steps 10000 20000",
)
STEPS = (10_000, 20_000)
UPDATES = (1, 2, 5, 10, 20)
BATCHES = 10
STUDY = [
    Flag("updates", (Count,), "Updates on one batch after which errors are measured.", "1 2 5 10 20", is_many=True),
    Flag("batches", (Count,), "Batches to measure at each of the --steps.", f"{BATCHES}"),
    Flag("seeds", (Count,), "Runs of each combination of settings, with the seeds 0, 1, 2, …", "3"),
    Flag("preset", (str,), "Named settings that the flags are laid over; see smrl list --presets.", "paper"),
]
SESSION = ("runs", "threads", "quiet")  # a run that stops early would not be measured where it was asked for


def run(words: Sequence[str]) -> None:
    """Parse, train and measure, show the table and where picture and numbers are."""
    names, rest = names_before_flags(words)
    is_help = asks_for_help(rest)
    algorithm, env = [*names, "", ""][:2]
    require(
        len(names) == 2 or (is_help and len(names) < 2),
        "write smrl batch-fit ALGORITHM ENVIRONMENT, then the flags, with an algorithm of "
        f"{', '.join(registry.names())}: smrl batch-fit {algorithm or 'sac'} Hopper-v4.",
    )
    defaults = default_values(names[:1], env, preset_among(rest)) if is_help else {}
    name = f"batch-fit {algorithm or 'ALGORITHM'} {env or 'ENVIRONMENT'}"
    given = read(rest, name, about(ABOUT, "ALGORITHM", *MORE), _flags(names[:1], defaults))
    values: dict[str, Any] = {
        flag.name: flag.values(words) if flag.is_many else flag.value(words) for flag, words in given.items()
    }
    updates, batches = sorted(set(values.pop("updates", UPDATES))), values.pop("batches", BATCHES)
    options = RunOptions(**{name: values.pop(name) for name in SESSION if name in values})
    steps = sorted(set(values.pop("steps", STEPS)))
    sweep(algorithm, env, steps=steps[0], **values)  # refused where there is no evaluation by then
    longest = sweep(algorithm, env, steps=steps[-1], **values)  # what depends on the steps is the same at all moments
    moments = [[dataclasses.replace(settings, steps=moment) for settings in longest] for moment in steps]
    found = falls(batch_fit(moments, options, updates, batches))
    out.print(fall_table(found))
    for message in sentences(found):
        out.print(message, markup=False)
    first = RunDirectory.of(longest[0], options.runs).path
    with writing(first.parents[1]):
        picture = draw_falls(found, first.parents[1] / f"batch-fit-{slug(longest)}.png")
    out.print(f"picture: {picture}\nnumbers: {FILE} in each run's folder, such as {first / FILE}", markup=False)


def _flags(algorithms: Sequence[str], defaults: dict[str, str]) -> dict[str, list[Flag]]:
    """The flags by group: several values of every setting, and several numbers of steps to measure after."""
    words = defaults | {"reuse": "1 and the preset's", "steps": " ".join(map(str, STEPS))}
    groups = {"study": STUDY, **run_flags(algorithms, words, is_many=True)}
    text = "Environment steps after which to measure; a run that is further already is measured where it is."
    groups["run settings"] = [
        dataclasses.replace(flag, text=text) if flag.name == "steps" else flag
        for flag in groups["run settings"]
        if flag.name != "seed"
    ]
    return groups | {"session": [flag for flag in option_flags()["session"] if flag.name in SESSION]}
