"""Search spaces of `smrl tune`: which settings to search and where, by default or from a TOML file.

In a file, every table is a setting with a range or with choices::

    [learning_rate]
    low = 1e-4
    high = 3e-3
    log = true

    [batch_size]
    choices = [64, 128, 256]
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smrl.errors import SmrlError, nearest, require, short_repr
from smrl.preset_file import fits, setting_types, toml_value
from smrl.reading import read_toml
from smrl.settings import names

MAX_CHOICES = 100
# Settings that say what is searched for, or how trials are compared.
FIXED = (
    *("seed", "steps", "eval_every", "eval_episodes", "bias_every", "bias_original", "data", "from_run", "envs"),
    *("real_time", "control_period", "greedy_every"),
)


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, whole ones if both are; ``log`` searches their logarithms."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Choices:
    """A few values."""

    choices: tuple[Any, ...]


Space = dict[str, Range | Choices]

DEFAULTS: Space = {
    "reuse": Choices((1, 2, 5, 10, 20)),
    "learning_rate": Range(1e-4, 3e-3, log=True),
    "batch_size": Choices((64, 128, 256, 512)),
    "gamma": Choices((0.95, 0.98, 0.99, 0.995)),
    "tau": Range(0.002, 0.05, log=True),
    "layer_norm": Choices((False, True)),
    "target_every": Choices((100, 200, 500, 1_000, 2_000)),
}


def default_space(algorithm: str, given: Collection[str]) -> Space:
    """Return the usual space of an algorithm, without the settings that are given."""
    known = names(algorithm)
    left_out = {*given, *(("layer_norm",) if algorithm == "xqc" else ())}  # XQC has its own normalisation
    return {name: domain for name, domain in DEFAULTS.items() if name in known and name not in left_out}


def read_space(path: Path, algorithm: str, given: Collection[str]) -> Space:
    """Read a space from a TOML file."""
    content = read_toml(path)
    try:
        require(bool(content), "it names no setting to search; smrl tune --show-space prints an example.")
        return {name: _domain(name, table, algorithm, given) for name, table in content.items()}
    except SmrlError as error:
        raise SmrlError(f"{path}: {error}") from None


def _domain(name: str, table: Any, algorithm: str, given: Collection[str]) -> Range | Choices:
    types = setting_types([algorithm])
    require(name in types, f"{algorithm} has no setting {name!r}{nearest(name, types)}")
    require(name not in FIXED, f"{name} is the same for all trials; give it as a flag.")
    require(name not in given, f"{name} is given as a flag, so it cannot be searched; leave one of them out.")
    if not isinstance(table, dict) or table.keys() not in ({"choices"}, {"low", "high"}, {"low", "high", "log"}):
        raise SmrlError(f"{name} needs choices = […], or low and high (and log = true), not {short_repr(table)}.")
    if "choices" in table:
        listed = table["choices"]
        require(
            isinstance(listed, list) and 1 <= len(listed) <= MAX_CHOICES,
            f"the choices of {name} are a list of 1 to {MAX_CHOICES} values, not {short_repr(listed)}.",
        )
        values = [toml_value(name, value, types[name]) for value in listed]
        domain: Range | Choices = Choices(tuple(values))
        require(len({encode(value) for value in values}) == len(values), f"a choice of {name} is there twice.")
    else:
        low, high, log = table["low"], table["high"], table.get("log", False)
        values = [low, high]
        require(
            all(type(end) in (int, float) for end in values) and low < high and isinstance(log, bool),
            f"{name} needs numbers low < high, and log = true or false, not {short_repr(table)}.",
        )
        require(not log or low > 0, f"the logarithms of {name} need a low above 0, not {low:g}.")
        domain = Range(low, high, log)
    for value in values:
        require(
            fits(name, value, types[name]),
            f"{name} cannot be {short_repr(value)}; smrl train {algorithm} --help shows its values.",
        )
    return domain


def encode(value: Any) -> str:
    """Return a value as the text by which a study stores a choice: JSON, which is also TOML where it is not null."""
    return '"none"' if value is None else json.dumps(value, ensure_ascii=False)


def as_toml(space: Mapping[str, Range | Choices]) -> str:
    """Return a space as the text of a file that `read_space` reads."""
    tables = []
    for name, domain in space.items():
        if isinstance(domain, Choices):
            lines = [f"choices = [{', '.join(map(encode, domain.choices))}]"]
        else:
            lines = [f"low = {domain.low!r}", f"high = {domain.high!r}", *(["log = true"] if domain.log else [])]
        tables.append("\n".join([f"[{name}]", *lines, ""]))
    return "\n".join(tables)
