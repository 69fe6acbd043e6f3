"""A sweep as a small TOML file: tables of runs, in which a list holds several values.

title = "SAC and TD3 on two tasks"
steps = 100_000                             # what stands above the tables holds for all of them

[[runs]]
algorithm = ["sac", "td3"]
env = ["Hopper-v4", "@dmc-utd"]             # @ stands for a list of smrl list --tasks
reuse = [1, 10]
seeds = 3
"""

import contextlib
import dataclasses
import itertools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_type_hints

from smrl import plugins
from smrl.algorithms import registry
from smrl.errors import SmrlError, nearest, require
from smrl.paper import tasks
from smrl.settings import Settings
from smrl.studies import presets
from smrl.studies.sweep import distinct, sweep
from smrl.validation import convert

ABOVE = ("title", "slurm", "runs")  # keys that are no settings
STUDY = ("algorithm", "env", "preset", "seeds")  # keys of a table that are no settings of a run, or more than one
EXAMPLES = {"algorithm": "sac", "env": "Hopper-v4", "preset": "paper"}  # the preset is the default too
LISTS = {"dqn": "atari", "sac_pixels": "dmc-pixels", "drqv2": "dmc-pixels"}  # of a preset; those of others are GYM
GYM = "gym"
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:\D.*")  # module:name; a schedule such as 10:300000,1 is none


@dataclass(frozen=True)
class Grid:
    """The runs of a sweep."""

    title: str
    settings: list[Settings[Any]]
    slurm: dict[str, Any] = field(default_factory=dict)  # options of sbatch


def find(name: str) -> Grid:
    """The sweep of a TOML file, or that of a preset."""
    path = Path(name)
    if path.is_file() or path.suffix == ".toml":
        return read(path)
    if name not in presets.names() and ":" not in name:
        known = presets.names()
        raise SmrlError(
            f"there is neither a file {name} nor a preset of this name among {', '.join(known)}{nearest(name, known)}"
        )
    return of_preset(name)


def of_preset(name: str) -> Grid:
    """Every algorithm that a preset has rows for, on its tasks (@gym, @atari, @dmc-pixels) that they match."""
    preset = presets.find(name)
    named = {row.algorithm for row in preset.rows}
    found = []
    for algorithm in registry.names() if "*" in named else [one for one in registry.names() if one in named]:
        patterns = [row.tasks for row in preset.rows if row.algorithm in ("*", algorithm)]
        for env in tasks.find(LISTS.get(algorithm, GYM)).tasks:
            if any(fnmatchcase(env, pattern) for pattern in patterns):
                found += sweep(algorithm, env, preset=name)
    require(bool(found), f"the rows of the preset '{name}' match no task of @gym; write a file that names tasks.")
    return Grid(preset.title, found)


def read(path: Path) -> Grid:
    """The sweep that a file describes; what is wrong in it is said with its place."""
    content = _parsed(path)
    above = {name: value for name, value in content.items() if name not in ABOVE}
    written = content.get("runs", [{}])
    require(
        isinstance(written, list) and bool(written) and all(isinstance(table, dict) for table in written),
        f"{path}: begin each table of runs with [[runs]], in double brackets.",
    )
    found = []
    for number, table in enumerate(written, start=1):
        try:
            found += _runs(above | table)
        except SmrlError as error:
            place = f"[[runs]] number {number} of {path}" if "runs" in content else str(path)
            raise SmrlError(f"{place}: {error}") from None
    try:
        slurm = content.get("slurm", {})
        require(isinstance(slurm, dict), "begin the options of sbatch with [slurm].")
        return Grid(convert("title", content.get("title", path.stem), str), distinct(found), slurm)
    except SmrlError as error:
        raise SmrlError(f"{path}: {error}") from None


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"), parse_float=_number)
    except tomllib.TOMLDecodeError as error:
        raise SmrlError(f"{path} cannot be read as TOML: {error}; correct it there.") from None
    except UnicodeDecodeError:
        raise SmrlError(f"{path} is not a text in UTF-8; write it as one.") from None
    except OSError as error:
        raise SmrlError(f"{path} cannot be read ({error.strerror}); correct its name.") from None


def _number(text: str) -> float:
    """A number as the command line takes it: 1e6 is a number of steps, 1.0 is not.

    >>> _number("1e6"), _number("1.0")
    (1000000, 1.0)
    """
    number = float(text)
    return int(number) if number.is_integer() and "." not in text else number


def _runs(table: dict[str, Any]) -> list[Settings[Any]]:
    """All combinations of the values of a table."""
    if any(_REFERENCE.fullmatch(text) for text in _texts(table)):
        plugins.use_working_directory()  # the file names a module of the user's
    algorithms, envs, preset = (_texts_of(table, name) for name in ("algorithm", "env", "preset"))
    hints = _hints(algorithms)
    known = [*STUDY, *(name for name in hints if name not in ("seed", "hyper"))]
    for name in (name for name in table if name not in known):
        advice = "; did you mean seeds?" if name == "seed" else nearest(name, [*known, *ABOVE])
        advice = f"; {name} stands above all tables." if name in ABOVE else advice
        raise SmrlError(f"no algorithm of {', '.join(algorithms)} has a setting '{name}'{advice}")
    values = {name: _values(name, value, hints[name]) for name, value in table.items() if name not in STUDY}
    every = itertools.chain.from_iterable(tasks.find(env[1:]).tasks if env[:1] == "@" else [env] for env in envs)
    given = {"seeds": convert("seeds", table["seeds"], int | list[int])} if "seeds" in table else {}
    return [one for env in every for one in sweep(algorithms, env, preset=preset, **given, **values)]


def _texts_of(table: dict[str, Any], name: str) -> list[str]:
    """The names of algorithms, environments or presets."""
    value = table.get(name, EXAMPLES[name])
    require(name in table or name == "preset", f'it says no {name}; add {name} = "{value}".')
    several = value if isinstance(value, list) else [value]
    is_right = bool(several) and all(isinstance(one, str) for one in several)
    require(is_right, f"{name} must be a text or a list of texts, not {value!r}.")
    return several


def _hints(algorithms: list[str]) -> dict[str, list[Any]]:
    """The types of all settings of some algorithms, by name."""
    found: dict[str, list[Any]] = {}
    kinds: list[type[Any]] = [Settings, *(registry.find(name).config for name in algorithms)]
    for kind in kinds:
        hints = get_type_hints(kind, include_extras=True)
        for item in dataclasses.fields(kind):
            found.setdefault(item.name, []).append(hints[item.name])
    return found


def _values(name: str, value: Any, hints: list[Any]) -> list[Any]:
    """The values of a setting: a list holds several, unless it is one by its type, as the sizes of layers are."""
    if isinstance(value, list):
        for hint in hints:
            with contextlib.suppress(SmrlError):
                return [convert(name, value, hint)]
    several = value if isinstance(value, list) else [value]
    return [_nothing_or(name, one, hints) for one in several]


def _nothing_or(name: str, value: Any, hints: list[Any]) -> Any:
    """None for "none", which TOML has no word for, where the setting may be None; else the value, lists as tuples."""
    for hint in hints if value == "none" else ():
        with contextlib.suppress(SmrlError):
            return convert(name, None, hint)
    return tuple(value) if isinstance(value, list) else value


def _texts(value: Any) -> list[str]:
    """All texts in a value, at any depth."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []
