"""The flags of `train` and `compare`: one for every setting of the algorithms at hand.

The parser only tells the flags apart. Words become values by the types of the settings, with the sentences that Python
users read, so there is one validation.
"""

import contextlib
import dataclasses
import itertools
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from smrl.algorithms import registry
from smrl.cli.parsing import parse
from smrl.errors import SmrlError, require
from smrl.runs.identity import flat
from smrl.settings import RunOptions, Settings
from smrl.studies.presets import resolve
from smrl.validation import convert, documentation

Words = tuple[str, ...]
WORDS = {bool: "[True|False]", int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}
CONSTANTS = {"none": None, "true": True, "false": False}


class Absent(tuple[str, ...]):
    """The words of a flag that was not given; one that was given may have no words either."""


ABSENT = Absent()


@dataclass(frozen=True)
class Flag:
    """A flag of the command line with its help text."""

    name: str  # of the setting
    hints: tuple[Any, ...]  # its types, which may differ from one algorithm to the other
    text: str
    default: str = ""  # in words; none where the text says it
    is_many: bool = False  # whether it takes several values

    def annotation(self) -> Any:
        """The type of its field in the dataclass that is parsed."""
        notes = [note for hint in self.hints if get_origin(hint) is Annotated for note in hint.__metadata__]
        metavars = [note.metavar for note in notes if getattr(note, "metavar", None)]
        metavar = (metavars or [_metavar(self.hints[0])])[0]
        if _plain(self.hints[0]) is bool and not self.is_many:
            metavar = ""
        return Annotated[
            Words,
            tyro.conf.arg(
                help=self.text,
                metavar=f"{metavar} …" if self.is_many else metavar,
                help_behavior_hint=f"(default: {self.default})" if self.default else "",
                aliases=[alias for note in notes for alias in getattr(note, "aliases", None) or ()] or None,
            ),
        ]

    def values(self, words: Words) -> list[Any]:
        """The values that words stand for; none stand for True where the setting is a truth value."""
        if not words and _plain(self.hints[0]) is bool:
            return [True]
        flag = f"--{self.name.replace('_', '-')}"
        require(bool(words), f"{flag} needs a value, as in {flag} {_metavar(self.hints[0])}.")
        return [self._value(word) for word in words]

    def value(self, words: Words, advice: str = "") -> Any:
        """The one value that words stand for; the sizes of layers may be several words."""
        values = self.values(words)
        if len(values) > 1 and all(isinstance(value, tuple) for value in values):
            return tuple(itertools.chain.from_iterable(values))
        flag = f"--{self.name.replace('_', '-')}"
        require(len(values) == 1, f"{flag} takes one value, not {' '.join(words)}{advice}.")
        return values[0]

    def _value(self, word: str) -> Any:
        literal = _literal(word)
        for hint, value in itertools.product(self.hints, (literal, (literal,), word)):
            with contextlib.suppress(SmrlError):
                return convert(self.name, value, hint)
        return convert(self.name, literal, self.hints[0])  # raises the sentence


def run_flags(algorithms: Sequence[str], defaults: Mapping[str, str], is_many: bool) -> dict[str, list[Flag]]:
    """The flags for the settings of runs and for the hyperparameters of these algorithms, by group."""
    groups = {"run settings": flags_of({"": Settings}, defaults, is_many)}
    if algorithms:
        configs = {name: registry.find(name).config for name in algorithms}
        groups["hyperparameters"] = flags_of(configs, defaults, is_many)
    return groups


def option_flags() -> dict[str, list[Flag]]:
    """The flags that change how runs are carried out but not their numbers."""
    defaults = {item.name: in_words(item.default) for item in dataclasses.fields(RunOptions)}
    return {"session": flags_of({"": RunOptions}, defaults)}


def flags_of(kinds: Mapping[str, type[Any]], defaults: Mapping[str, str], is_many: bool = False) -> list[Flag]:
    """A flag for each field of these dataclasses but the algorithm, the environment and the hyperparameters."""
    hints: dict[str, dict[str, Any]] = {}  # by field, then by the name of the dataclass
    texts: dict[str, str] = {}
    for owner, kind in kinds.items():
        of_kind = get_type_hints(kind, include_extras=True)
        for item in dataclasses.fields(kind):
            if item.name not in ("algorithm", "env", "hyper"):
                hints.setdefault(item.name, {})[owner] = of_kind[item.name]
        texts = documentation(kind) | texts
    for name, owners in hints.items():
        if len(owners) < len(kinds):
            texts[name] = f"{texts.get(name, '')} Only for {' and '.join(owners)}.".strip()
    return [
        Flag(name, tuple(of.values()), texts.get(name, ""), defaults.get(name, ""), is_many)
        for name, of in hints.items()
    ]


def default_values(algorithms: Sequence[str], env: str, preset: str) -> dict[str, str]:
    """The defaults that --help shows, in words: those that the algorithms share for this task and preset."""
    if not algorithms:
        return {item.name: in_words(item.default) for item in dataclasses.fields(Settings)}
    rows = [flat(resolve(name, env, preset).to_json()) for name in algorithms]
    shared: dict[str, str] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = {in_words(row[name]) for row in rows if name in row}
        shared[name] = values.pop() if len(values) == 1 else "the algorithm's"
    return shared


def read(words: Sequence[str], name: str, about: str, groups: Mapping[str, Iterable[Flag]]) -> dict[Flag, Words]:
    """The words of each flag that was given; prints help and exits where that is asked for."""
    parts = []
    for title, flags in groups.items():
        fields = [(flag.name, flag.annotation(), field(default=ABSENT)) for flag in flags]
        part = make_dataclass(title.title().replace(" ", ""), fields, frozen=True, namespace={"__doc__": ""})
        parts.append((title.replace(" ", "_"), Annotated[part, tyro.conf.arg(name=title)]))
    command = make_dataclass("Command", parts, frozen=True, namespace={"__doc__": about})
    parsed = parse(words, name, command)
    return {
        flag: given
        for title, flags in groups.items()
        for flag in flags
        if (given := getattr(getattr(parsed, title.replace(" ", "_")), flag.name)) is not ABSENT
    }


def about(summary: str, algorithm: str, *lines: str) -> str:
    """What --help says of a command before its flags. The parser keeps the breaks before indented lines only."""
    names = f"{', '.join(registry.names())}, or module:function for one of your own"
    rows = [
        "Before the flags:",
        *textwrap.wrap(names, 79, initial_indent=f"  {algorithm:13}", subsequent_indent=" " * 15),
        "  ENVIRONMENT  a Gymnasium id such as Hopper-v4; module:id for one that a module",
        "               registers; module:function for a function that makes it",
    ]
    return "\n".join([summary, "", *rows, *lines])


def names_before_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the first flag, and the rest."""
    names = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    return names, list(words[len(names) :])


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether --help is among the words."""
    return "-h" in words or "--help" in words


def preset_among(words: Sequence[str]) -> str:
    """The preset whose values --help shows as defaults; the first, where there are several."""
    for word, following in itertools.pairwise([*words, ""]):
        if word == "--preset" and following:
            return following
        if word.startswith("--preset="):
            return word.partition("=")[2]
    return "paper"


def in_words(default: Any) -> str:
    """A default value as one would type it; nothing for None, of which the text says what it means.

    >>> in_words((64, 64)), in_words(0.005), in_words(None)
    ('64,64', '0.005', '')
    """
    if isinstance(default, tuple | list):
        return ",".join(map(str, default))
    return "" if default is None else str(default)


def _literal(word: str) -> Any:
    """None, a truth value, a number or several with commas between them; any other word is itself."""
    if word.lower() in CONSTANTS:
        return CONSTANTS[word.lower()]
    with contextlib.suppress(ValueError):
        return int(word)
    with contextlib.suppress(ValueError):
        number = float(word)
        return int(number) if number.is_integer() and "." not in word else number  # 1e6 is a number of steps
    return tuple(_literal(part) for part in word.split(",") if part) if "," in word else word


def _plain(hint: Any) -> Any:
    return hint.__origin__ if get_origin(hint) is Annotated else hint


def _metavar(hint: Any) -> str:
    """What stands for a value in --help."""
    hint = _plain(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"{{{','.join(map(str, parts))}}}"
    if origin in (Union, UnionType):
        return "|".join(dict.fromkeys(_metavar(part) for part in parts if part is not NoneType))
    if origin in (tuple, list):
        return f"{_metavar(parts[0])},…"
    return WORDS.get(hint, "VALUE")
