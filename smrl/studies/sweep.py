"""Sweeps: all combinations of the values of any settings, with several seeds each, from keywords or a TOML file.

In a file, a list holds several values::

    title = "SAC and TD3 on two tasks"
    steps = 100_000                             # settings above the tables hold for all of them

    [[runs]]
    algorithm = ["sac", "td3"]
    env = ["Hopper-v4", "@dmc-utd"]             # @ stands for a list of smrl list --tasks
    reuse = [1, 10]
    seeds = 3
"""

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from smrl import plugins
from smrl.algorithms import registry
from smrl.data.sources import names_module
from smrl.errors import SmrlError, nearest, require
from smrl.preset_file import fits, setting_types, toml_value
from smrl.presets import find_preset, preset_names, resolve
from smrl.reading import read_toml
from smrl.runs import identity
from smrl.settings import Settings, names
from smrl.validation import Few, convert

MAX_RUNS = 10_000
LONGEST_SLUG = 100
TOP_LEVEL_KEYS = ("title", "slurm", "runs")
STUDY_KEYS = ("algorithm", "env", "preset", "seeds")  # keys of a table that are not settings of a single run
EXAMPLES = {"algorithm": "sac", "env": "Hopper-v4", "preset": "paper"}  # the preset is also the default
PRESET_LISTS = {"dqn": "atari", "sac_pixels": "dmc-pixels", "drqv2": "dmc-pixels"}  # "gym" for other algorithms

TaskLists = Mapping[str, Sequence[str]]  # name → environment ids


@dataclass(frozen=True)
class Sweep:
    """The runs of a file or of a preset."""

    title: str
    settings: list[Settings[Any]]
    slurm: dict[str, Any] = field(default_factory=dict)  # options of sbatch


def sweep(
    algorithms: str | Iterable[str],
    env: str,
    *,
    preset: str | Iterable[str] = "paper",
    seeds: int | Iterable[int] | None = None,
    **values: Any,
) -> list[Settings[Any]]:
    """Return the settings of all combinations of values.

    A list or range holds several values; anything else, also a tuple, is one value. A setting that only some of the
    algorithms have is set for those. ``seeds`` are given one by one or as their number, by default the preset's.
    Without ``reuse``, 1 and the preset's reuse ratio are compared.

    >>> found = sweep(["sac", "td3"], "Hopper-v4", seeds=3, reuse=[1, 10], tau=[0.005, 0.01], noise_clip=[0.2, 0.5])
    >>> len(found)  # (2 reuse ratios × 2 tau + 2 × 2 × 2 bounds of noise of TD3) × 3 seeds
    36
    """
    chosen = [algorithms] if isinstance(algorithms, str) else list(algorithms)
    presets = [preset] if isinstance(preset, str) else list(preset)
    seeds = max((find_preset(name).seeds for name in presets), default=1) if seeds is None else seeds
    every_seed = list(range(convert("seeds", seeds, Few))) if isinstance(seeds, int | float | str) else list(seeds)
    for name, listed in {"algorithms": chosen, "preset": presets, "seeds": every_seed}.items():
        require(bool(listed), f"{name} needs at least one value.")
    known = {algorithm: names(algorithm).keys() - {"algorithm", "env", "seed"} for algorithm in chosen}
    axes = {name: several(name, value) for name, value in values.items()}
    for name in axes.keys() - set().union(*known.values()):
        advice = "; give seeds" if name == "seed" else nearest(name, sorted(set().union(*known.values())))
        raise SmrlError(f"no algorithm of {', '.join(chosen)} has a setting '{name}' to sweep{advice}")
    count = len(chosen) * len(presets) * len(every_seed) * math.prod(map(len, axes.values()))
    require(count <= MAX_RUNS, f"{count:,} runs are more than a sweep can have, {MAX_RUNS:,}: give fewer values.")
    found = []
    for algorithm, of_preset in itertools.product(chosen, presets):
        own = {name: axis for name, axis in axes.items() if name in known[algorithm]}
        for combination in itertools.product(*own.values()):
            given = dict(zip(own, combination, strict=True))
            ratios = [given["reuse"]] if "reuse" in given else [1, resolve(algorithm, env, of_preset, **given).reuse]
            for reuse, seed in itertools.product(ratios, every_seed):
                settings = resolve(algorithm, env, of_preset, **given | {"reuse": reuse, "seed": seed})
                require(
                    settings.eval_every <= settings.steps,
                    f"runs of {settings.steps:,} steps end before their first evaluation at step "
                    f"{settings.eval_every:,}; lower --eval-every.",
                )
                found.append(settings)
    return distinct(found)


def distinct(settings: Iterable[Settings[Any]]) -> list[Settings[Any]]:
    """Return the runs without duplicates; refuse runs that differ only in their steps or evaluations."""
    found: dict[tuple[str, int], Settings[Any]] = {}
    for one in settings:
        same = found.setdefault((identity.canonical(one.to_json()), one.seed), one)
        require(
            same.steps == one.steps,
            f"runs that differ only in their steps ({same.steps:,} and {one.steps:,}) are one run: "
            "give one number of steps, as the curve of the longer run contains the shorter one.",
        )
        for name in identity.EVALUATION:
            first, second = getattr(same, name), getattr(one, name)
            flag = f"--{name.replace('_', '-')}"
            require(
                first == second,
                f"runs that differ only in {name} ({first:,} and {second:,}) are one run, because evaluations do not "
                f"change what is learned: give one {flag}, such as {flag} {min(first, second)}.",
            )
    return list(found.values())


def several(name: str, value: Any) -> list[Any]:
    """Return the values of a setting: those of a list or range, or else the value itself.

    >>> several("tau", 0.01), several("actor_hidden", (64, 64)), several("reuse", range(1, 4))
    ([0.01], [(64, 64)], [1, 2, 3])
    """
    values = list(value) if isinstance(value, Iterable) and not isinstance(value, str | tuple) else [value]
    require(bool(values), f"{name} needs at least one value.")
    return values


def titles(settings: Sequence[Settings[Any]]) -> list[str]:
    """Return a title for each of several runs: algorithm, settings that vary, seed, and the task if that varies.

    >>> titles(sweep("sac", "Hopper-v4", reuse=10, tau=[0.005, 0.01], seeds=1))
    ['SAC, reuse 10, tau 0.005, seed 0', 'SAC, reuse 10, tau 0.01, seed 0']
    """
    rows = [one.to_json() for one in settings]
    shown = identity.varying(rows)
    tasks = [f"{row['env']}, " if "env" in shown else "" for row in rows]
    return [f"{task}{identity.label(row, shown)}, seed {row['seed']}" for task, row in zip(tasks, rows, strict=True)]


def slug(settings: Sequence[Settings[Any]]) -> str:
    """Return a name for a file about these runs: the algorithms, what varies, and a digest that identifies the sweep.

    The name does not depend on seeds and steps, so that more of them replace the file.

    >>> slug(sweep("sac", "Hopper-v4", reuse=[1, 10], tau=[0.005, 0.01])).rpartition("-")[0]
    'sac-reuse-tau'
    """
    rows = [one.to_json() for one in settings]
    identities = sorted({identity.canonical(row) for row in rows})
    digits = hashlib.sha256("\n".join(identities).encode()).hexdigest()[:8]
    words = [*dict.fromkeys(one.algorithm for one in settings), *identity.varying(rows)]
    name = "-".join(word for word in words if word not in ("algorithm", "env"))
    return f"{re.sub(r'[^a-zA-Z0-9_.-]', '-', name)[:LONGEST_SLUG]}-{digits}"


def expand_tasks(env: str, task_lists: TaskLists) -> Sequence[str]:
    """Return the tasks of a list for its ``@name``; any other name is an environment."""
    if not env.startswith("@"):
        return [env]
    name = env[1:]
    if name not in task_lists:
        known = ", ".join(task_lists)
        raise SmrlError(f"there is no task list '{name}' among {known}{nearest(name, task_lists)}")
    return task_lists[name]


def read_sweep(name: str, task_lists: TaskLists) -> Sweep:
    """Read the sweep of a TOML file, or make that of a preset."""
    path: Path = convert("the name of a sweep", name, Path)
    if path.is_file() or path.suffix == ".toml":
        return _read_file(path, task_lists)
    known = preset_names()
    if name not in known and ":" not in name:
        raise SmrlError(
            f"there is neither a file {name} nor a preset of this name among {', '.join(known)}{nearest(name, known)}"
        )
    return _preset_sweep(name, task_lists)


def _preset_sweep(name: str, task_lists: TaskLists) -> Sweep:
    """Return every algorithm of a preset on the tasks of its list that the preset's rows match."""
    preset = find_preset(name)
    named = {row.algorithm for row in preset.rows}
    found = []
    for algorithm in (one for one in registry.names() if named & {"*", one}):
        patterns = [row.tasks for row in preset.rows if row.algorithm in ("*", algorithm)]
        for env in task_lists[PRESET_LISTS.get(algorithm, "gym")]:
            if any(fnmatchcase(env, pattern) for pattern in patterns):
                found += sweep(algorithm, env, preset=name)
    require(bool(found), f"the rows of the preset '{name}' match no task of @gym; write a file that names tasks.")
    return Sweep(preset.title, found)


def _read_file(path: Path, task_lists: TaskLists) -> Sweep:
    content = read_toml(path)
    shared = {name: value for name, value in content.items() if name not in TOP_LEVEL_KEYS}
    tables = content.get("runs", [{}])
    place = str(path)
    try:
        require(
            isinstance(tables, list) and bool(tables) and all(isinstance(table, dict) for table in tables),
            "begin each table of runs with [[runs]], in double brackets.",
        )
        slurm = content.get("slurm", {})
        require(isinstance(slurm, dict), "begin the options of sbatch with [slurm].")
        title = convert("title", content.get("title", path.stem), str)
        found = []
        for number, table in enumerate(tables, start=1):
            place = f"[[runs]] number {number} of {path}" if "runs" in content else str(path)
            found += _table_runs(shared | table, task_lists)
        place = str(path)
        return Sweep(title, distinct(found), slurm)
    except SmrlError as error:
        raise SmrlError(f"{place}: {error}") from None


def _table_runs(table: dict[str, Any], task_lists: TaskLists) -> list[Settings[Any]]:
    """Return all combinations of the values of a table."""
    values_of_all = itertools.chain.from_iterable(map(_as_list, table.values()))
    if any(isinstance(value, str) and names_module(value) for value in values_of_all):
        plugins.use_working_directory()  # the file names a module of the user
    algorithms, envs, presets = (_names_in(table, key) for key in ("algorithm", "env", "preset"))
    hints = setting_types(algorithms)
    known = [*STUDY_KEYS, *(name for name in hints if name != "seed")]
    for name in (name for name in table if name not in known):
        advice = "; did you mean seeds?" if name == "seed" else nearest(name, [*known, *TOP_LEVEL_KEYS])
        advice = f"; {name} belongs above all tables." if name in TOP_LEVEL_KEYS else advice
        raise SmrlError(f"no algorithm of {', '.join(algorithms)} has a setting '{name}'{advice}")
    values = {name: _values(name, value, hints[name]) for name, value in table.items() if name not in STUDY_KEYS}
    tasks = itertools.chain.from_iterable(expand_tasks(env, task_lists) for env in envs)
    seeds = convert("seeds", table.get("seeds"), int | list[int] | None)
    return [one for env in tasks for one in sweep(algorithms, env, preset=presets, seeds=seeds, **values)]


def _names_in(table: dict[str, Any], key: str) -> list[str]:
    """Return the algorithms, environments or presets of a table."""
    value = table.get(key, EXAMPLES[key])
    require(key in table or key == "preset", f'{key} is missing; add {key} = "{value}".')
    found = _as_list(value)
    is_valid = bool(found) and all(isinstance(one, str) for one in found)
    require(is_valid, f"{key} must be a text or a list of texts, not {value!r}.")
    return found


def _values(name: str, value: Any, hints: Sequence[Any]) -> list[Any]:
    """Return the values of a setting: a list holds several, unless its type makes it one value, such as layer sizes."""
    return [toml_value(name, one, hints) for one in ([value] if fits(name, value, hints) else _as_list(value))]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
