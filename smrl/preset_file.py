"""Presets in TOML files, as `smrl tune` writes them, and the values of settings in such files.

A file looks like this::

    title = "SAC for the arm"

    [[rows]]
    algorithm = "sac"                           # "*": all algorithms
    tasks = "Arm-v*"                            # a pattern of ids; by default all tasks
    settings = { tau = 0.01, actor_hidden = [64, 64] }
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from smrl.algorithms import registry
from smrl.errors import SmrlError, nearest, require, short_repr
from smrl.presets import Preset, Row
from smrl.reading import read_toml
from smrl.settings import Settings
from smrl.smr.rules import is_built_in
from smrl.validation import convert, field_types


def read_preset(file: str) -> Preset:
    """Read a preset from a TOML file. The file may be somebody else's, so it cannot name code to import."""
    path: Path = convert("the name of a preset", file, Path)
    content = read_toml(path)
    try:
        _refuse_unknown("a preset", content, ("title", "seeds", "rows"))
        tables = content.get("rows")
        are_tables = isinstance(tables, list) and bool(tables) and all(isinstance(table, dict) for table in tables)
        require(are_tables, "begin each row of the preset with [[rows]], in double brackets.")
        given = {"seeds": content["seeds"]} if "seeds" in content else {}
        return Preset(content.get("title", path.stem), tuple(map(_read_row, tables or ())), **given)
    except SmrlError as error:
        raise SmrlError(f"{path}: {error}") from None


def _read_row(table: Mapping[str, Any]) -> Row:
    _refuse_unknown("a row", table, ("algorithm", "tasks", "settings"))
    row = Row(table.get("algorithm", "*"), table.get("settings", {}), table.get("tasks", "*"))
    known = ("*", *registry.names())
    require(row.algorithm in known, f"there is no algorithm {row.algorithm!r}{nearest(row.algorithm, known)}")
    types = setting_types([row.algorithm] if row.algorithm != "*" else [])
    settings: dict[str, Any] = {}
    for name, value in row.settings.items():
        require(name in types, f"{row.algorithm} has no setting {name!r}{nearest(name, types)}")
        require(
            name != "reuse" or is_built_in(str(value)), "reuse in a file is a number, a schedule (10:300000,1) or auto."
        )
        settings[name] = convert(name, toml_value(name, value, types[name]), types[name][0])
    return Row(row.algorithm, settings, row.tasks)


def _refuse_unknown(what: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in table.keys() - {*known}:
        raise SmrlError(f"{what} has {', '.join(known)}, not {short_repr(name)}{nearest(name, known)}")


def setting_types(algorithms: Iterable[str]) -> dict[str, list[Any]]:
    """Return the types of all settings of some algorithms, except algorithm and environment, by name."""
    found: dict[str, list[Any]] = {}
    for kind in (Settings, *(registry.find(name).config for name in algorithms)):
        for name, hint in field_types(kind).items():
            found.setdefault(name, []).append(hint)
    return {name: hints for name, hints in found.items() if name not in ("algorithm", "env")}


def fits(name: str, value: Any, hints: Iterable[Any]) -> bool:
    """Return whether a value is one of a setting with one of these types."""
    for hint in hints:
        with contextlib.suppress(SmrlError):
            convert(name, value, hint)
            return True
    return False


def toml_value(name: str, value: Any, hints: Sequence[Any]) -> Any:
    """Return a value of a TOML file as Python has it. TOML has no null: "none" is None where a setting may be None."""
    if value == "none" and fits(name, None, hints):
        return None
    return tuple(value) if isinstance(value, list) else value
