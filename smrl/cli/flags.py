"""Flags from dataclasses: names, types, help and defaults come from the fields, their docstrings and the preset."""

import argparse
import contextlib
import inspect
import itertools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from smrl.algorithms import registry
from smrl.cli.common import Parser
from smrl.errors import SmrlError, require
from smrl.presets import resolve
from smrl.runs.identity import flat
from smrl.settings import Settings
from smrl.validation import Names, convert, documentation, field_types, parse_number

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ALIASES = {"fresh_batches": ("--utd",), "output": ("-o",)}
FLAGS = {"from_run": "--from"}  # of names that are not those of their fields, because Python reserves the word
METAVARS = {"reuse": "M", "env": "ENVIRONMENT", "video": "FILE", "data": "SOURCE", "from_run": "RUN", "name": "WORD"}
METAVARS_BY_TYPE = {bool: "True|False", int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}
HELP = {"-h", "--help"}
CONSTANTS = {"none": None, "true": True, "false": False}
Kind = TypeVar("Kind", bound="DataclassInstance")


def parse(words: Sequence[str], usage: str, kind: type[Kind]) -> Kind:
    """Read the words of a command into a dataclass; its fields without a default are positional arguments."""
    parser = Parser(usage, inspect.getdoc(kind) or "")
    add_flags(parser, "", {"": kind})
    return kind(**parser.read(words))


def add_settings(
    parser: Parser,
    words: Sequence[str],
    algorithms: Sequence[str],
    env: str,
    several: bool = False,
    defaults: Mapping[str, str] | None = None,
) -> None:
    """Add flags for a preset, for all settings of runs and for the hyperparameters of these algorithms.

    The help shows these ``defaults`` or else those for this environment with the first preset among the words. With
    ``several``, settings take one or more values.
    """
    known = ", ".join(registry.names())
    require(
        bool(algorithms) or not HELP.isdisjoint(words), f"begin with an algorithm: {parser.usage}; it may be {known}."
    )
    parser.description = f"{parser.description}\n\n{textwrap.fill(f'Algorithms: {known}.', 79)}"
    if not algorithms:
        parser.description += f"\n{parser.prog} sac --help adds the hyperparameters of SAC."
    text = "Named settings, which flags override; smrl list --presets shows them. (default: paper)"
    parser.add_argument("--preset", nargs="+" if several else None, metavar="NAME", help=text)
    given, _ = parser.parse_known_args([word for word in words if word not in HELP])
    preset = getattr(given, "preset", "paper")
    shown = _shared_defaults(algorithms, env, preset if isinstance(preset, str) else preset[0])
    shown |= defaults or {}
    add_flags(parser, "settings", {"": Settings}, shown, several)
    if algorithms:
        configs = {name: registry.find(name).config for name in algorithms}
        add_flags(parser, "hyperparameters", configs, shown, several)


def add_flags(
    parser: Parser,
    title: str,
    kinds: Mapping[str, Any],
    defaults: Mapping[str, str] | None = None,
    several: bool = False,
) -> None:
    """Add a flag for each field of some dataclasses; a field without a default becomes a positional argument.

    The dataclasses have names, with which the help marks fields that only some of them have. Without a ``title``, the
    flags are listed after --help. If a preset may change the ``defaults``, False may follow a boolean flag. With
    ``several``, flags take one or more values and the parser returns lists.
    """
    group = parser.add_argument_group(title) if title else parser
    found: dict[str, list[tuple[str, Any, Any, str]]] = {}
    for owner, kind in kinds.items():
        known, docs = {item.name: item for item in fields(kind)}, documentation(kind)
        for name, hint in field_types(kind).items():
            default = known[name].default if known[name].default_factory is MISSING else None
            found.setdefault(name, []).append((owner, hint, default, docs.get(name, "")))
    if several:
        found.pop("seed", None)  # several runs have --seeds
    for name, entries in found.items():
        owners, types, (default, *_), texts = zip(*entries, strict=True)
        text = next(filter(None, texts), "").replace("%", "%%")
        text += f" Only for {' and '.join(owners)}." if len(owners) < len(kinds) else ""
        options = _options(name, types, several and name != "env", is_switch=defaults is None)
        if default is MISSING:
            parser.add_argument(name, help=text, **options | {"metavar": METAVARS.get(name, name.upper())})
        else:
            shown = (defaults or {}).get(name, in_words(default))
            flags = (*ALIASES.get(name, ()), FLAGS.get(name, f"--{name.replace('_', '-')}"))
            group.add_argument(*flags, dest=name, help=f"{text} (default: {shown})" if shown else text, **options)


def pop_into(kind: type[Kind], values: dict[str, Any]) -> Kind:
    """Move the values that are fields of a dataclass into an instance of it."""
    names = [item.name for item in fields(kind) if item.name in values]
    return kind(**{name: values.pop(name) for name in names})


def leading_names(words: Sequence[str]) -> list[str]:
    """Return the words before the first flag."""
    return list(itertools.takewhile(lambda word: not word.startswith("-"), words))


def in_words(default: Any) -> str:
    """Return a default as a user would type it; nothing for None, whose meaning the help text explains.

    >>> in_words((64, 64)), in_words(0.005), in_words(None)
    ('64,64', '0.005', '')
    """
    if isinstance(default, tuple | list):
        return ",".join(map(str, default))
    return "" if default is None or default is False else str(default)


def _options(name: str, hints: tuple[Any, ...], is_list: bool, is_switch: bool) -> dict[str, Any]:
    """Return the keywords of ``add_argument`` for the type of a field."""
    plain = hints[0].__origin__ if get_origin(hints[0]) is Annotated else hints[0]
    if plain is bool and is_switch:
        return {"action": "store_true"}
    options: dict[str, Any] = {"type": partial(_value, name, hints), "metavar": METAVARS.get(name, _metavar(plain))}
    is_texts = Names in get_args(plain)
    if is_list:
        options["type"] = _texts if is_texts else options["type"]
        nargs = "*" if plain is bool else "+"
        return options | {"nargs": nargs, "action": _Combine, "const": lambda values: values or [True]}
    if plain is bool:
        return options | {"nargs": "?", "const": True}
    if get_origin(plain) is tuple or is_texts:  # `64 64` is the same as `64,64`
        options["metavar"] = options["metavar"].removesuffix(",…")
        return options | {"nargs": "+", "action": _Combine, "const": lambda values: sum(values, ())}
    return options


class _Combine(argparse.Action):
    """Store what the function ``const`` makes of a list of values."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, self.const(values))


def _value(name: str, hints: tuple[Any, ...], word: str) -> Any:
    """Return the value of the first type that a word fits."""
    literal = _literal(word)
    for hint, value in itertools.product(hints, ((word,), literal, (literal,), word)):
        with contextlib.suppress(SmrlError):
            return convert(name, value, hint)
    if get_origin(hints[0]) is tuple:
        return convert(name, literal, get_args(hints[0])[0])  # raises, as the next line does
    is_sizes = get_origin(hints[0]) is Annotated and get_origin(hints[0].__origin__) is tuple
    return convert(name, (literal,) if is_sizes and isinstance(literal, int) else literal, hints[0])


def _texts(word: str) -> tuple[str, ...] | None:
    """Return the texts of one of several values, which commas separate."""
    return None if word.lower() == "none" else tuple(filter(None, word.split(",")))


def _literal(word: str) -> Any:
    """Return None, a boolean, a number or a tuple of what commas separate; any other word is returned as it is."""
    if word.lower() in CONSTANTS:
        return CONSTANTS[word.lower()]
    with contextlib.suppress(ValueError):
        return parse_number(word)
    return tuple(_literal(part) for part in word.split(",") if part) if "," in word else word


def _metavar(hint: Any) -> str:
    """Return what stands for a value of this type in the help."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _metavar(parts[0])
    if origin is Literal:
        return f"{{{','.join(map(str, parts))}}}"
    if origin in (Union, UnionType):
        return "|".join(dict.fromkeys(_metavar(part) for part in parts if part is not NoneType))
    if origin is tuple:
        return f"{_metavar(parts[0])},…"
    return METAVARS_BY_TYPE.get(hint, "VALUE")


def _shared_defaults(algorithms: Sequence[str], env: str, preset: str) -> dict[str, str]:
    """Return the defaults that these algorithms share for an environment and a preset, as the help shows them."""
    rows = [flat(resolve(name, env, preset).to_json()) for name in algorithms]
    shared: dict[str, str] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = {in_words(row[name]) for row in rows if name in row}
        shared[name] = values.pop() if len(values) == 1 else "the algorithm's"
    return shared
