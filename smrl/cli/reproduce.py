"""`smrl reproduce NAME`: reproduce a figure, a table or the theorems of the paper."""

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
from smrl.cli.parsing import out, parse
from smrl.errors import nearest, require
from smrl.paper import batch_fit, reproduce
from smrl.paper.studies import STUDIES
from smrl.paper.tabular import q_smr
from smrl.paper.theory import claims
from smrl.report.text import as_terminal
from smrl.settings import RunOptions
from smrl.validation import Count

BATCH_FIT = "Measure how far the TD error of a batch falls with 1, 2, 5, … updates on it."
MORE = (
    "",
    "Runs are trained or continued as by smrl compare, and measured after --steps:",
    "  smrl reproduce batch-fit sac HalfCheetah-v4 --reuse 1 10 --steps 10000 20000",
)
STUDY = [
    Flag("updates", (Count,), "Updates on one batch after which errors are measured.", "1 2 5 10 20", is_many=True),
    Flag("batches", (Count,), "Batches to measure at each of the --steps.", f"{batch_fit.BATCHES}"),
    Flag("seeds", (Count,), "Runs of each combination of settings, with the seeds 0, 1, 2, …", "3"),
    Flag("preset", (str,), "Named settings that the flags are laid over; see smrl list --presets.", "paper"),
]
OPTIONS = ("runs", "threads", "quiet")  # no option may stop a run before the steps after which it is measured


def run(words: Sequence[str]) -> None:
    """Parse, then run what is named; its own flags follow q-smr, theory and batch-fit."""
    name, rest = (words[0], words[1:]) if words else ("", [])
    if name == "q-smr":
        return q_smr.run(parse(rest, "reproduce q-smr", q_smr.Options), out)
    if name == "theory":
        return claims.run(parse(rest, "reproduce theory", claims.Options), out)
    if name == "batch-fit":
        return _batch_fit(rest)
    options: reproduce.Options = parse(words, "reproduce", reproduce.Options)
    if options.list:
        return out.print(reproduce.overview(options))
    known = [*reproduce.WITHOUT_STUDY, *STUDIES]
    require(len(options.name) == 1, f"write smrl reproduce NAME, with one of {', '.join(known)}.")
    (name,) = options.name
    if name == "hyperparameters":
        return out.print(as_terminal(reproduce.hyperparameters()))
    require(name not in reproduce.WITHOUT_STUDY, f"write smrl reproduce {name}, then its flags.")
    require(name in STUDIES, f"there is no study '{name}' among {', '.join(known)}{nearest(name, known)}")
    if outcome := reproduce.run_study(name, options, out):
        leave_if_failed(outcome)
    return None


def _batch_fit(words: Sequence[str]) -> None:
    names, rest = names_before_flags(words)
    is_help = asks_for_help(rest)
    algorithm, env = [*names, "", ""][:2]
    require(
        len(names) == 2 or (is_help and len(names) < 2),
        "write smrl reproduce batch-fit ALGORITHM ENVIRONMENT, then the flags, with an algorithm of "
        f"{', '.join(registry.names())}: smrl reproduce batch-fit {algorithm or 'sac'} Hopper-v4.",
    )
    defaults = default_values(names[:1], env, preset_among(rest)) if is_help else {}
    name = f"reproduce batch-fit {algorithm or 'ALGORITHM'} {env or 'ENVIRONMENT'}"
    given = read(rest, name, about(BATCH_FIT, "ALGORITHM", *MORE), _batch_fit_flags(names[:1], defaults))
    values: dict[str, Any] = {
        flag.name: flag.values(words) if flag.is_many else flag.value(words) for flag, words in given.items()
    }
    options = RunOptions(**{name: values.pop(name) for name in OPTIONS if name in values})
    batch_fit.run(algorithm, env, options, out, **values)


def _batch_fit_flags(algorithms: Sequence[str], defaults: dict[str, str]) -> dict[str, list[Flag]]:
    """Return the flags by group: every setting takes several values, and so do the steps to measure after."""
    words = defaults | {"reuse": "1 and the preset's", "steps": " ".join(map(str, batch_fit.STEPS))}
    groups = {"study": STUDY, **run_flags(algorithms, words, is_many=True)}
    text = "Environment steps after which to measure; a run that has more steps already is measured where it is."
    groups["run settings"] = [
        dataclasses.replace(flag, text=text) if flag.name == "steps" else flag
        for flag in groups["run settings"]
        if flag.name != "seed"
    ]
    return groups | {"session": [flag for flag in option_flags()["session"] if flag.name in OPTIONS]}
