"""Validation of dataclass fields by their types, with msgspec; the same in Python as on the command line.

A bound is part of a field's type (``steps: Count``), and its description becomes part of the error message. Every size
has an upper bound as well, so that a wrong number is refused before anything is allocated for it.
"""

import ast
import contextlib
import dataclasses
import functools
import inspect
import itertools
import math
import os
import re
import textwrap
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta

from smrl.errors import SmrlError, short_repr
from smrl.machine import MAX_THREADS

Count = Annotated[int, Meta(ge=1, lt=2**31, description="a whole number of at least 1")]  # JAX counts with 32 bits
Index = Annotated[int, Meta(ge=0, lt=2**31, description="a whole number of at least 0")]
Size = Annotated[int, Meta(ge=1, le=65_536, description="a whole number of at least 1")]  # of what is held in memory
SizeOrZero = Annotated[int, Meta(ge=0, le=65_536, description="a whole number of at least 0")]
Few = Annotated[int, Meta(ge=1, le=1_000, description="a whole number of at least 1")]  # of what is made one by one
Threads = Annotated[int, Meta(ge=1, le=MAX_THREADS, description=f"a whole number from 1 to {MAX_THREADS:,}")]
Seed = Annotated[int, Meta(ge=0, lt=2**32, description="a whole number in [0, 2^32)")]
Positive = Annotated[float, Meta(gt=0, description="a positive number")]
Inches = Annotated[float, Meta(ge=1, le=40, description="a number of inches from 1 to 40")]
NonNegative = Annotated[float, Meta(ge=0, description="a number of at least 0")]
Share = Annotated[float, Meta(ge=0, le=1, description="a number in [0, 1]")]
ProperShare = Annotated[float, Meta(ge=0, lt=1, description="a number in [0, 1)")]
PositiveShare = Annotated[float, Meta(gt=0, le=1, description="a number in (0, 1]")]
FewOrZero = Annotated[int, Meta(ge=0, le=1_000, description="a whole number of at least 0")]
Sizes = Annotated[tuple[Size, ...], Meta(min_length=1, max_length=64, description="one or more positive layer sizes")]
Name = Annotated[
    str,
    Meta(
        max_length=500,
        pattern=r"\A[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*\Z",
        description="a text without control characters",
    ),
]
Word = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=24,
        pattern=r"\A[A-Za-z0-9_.+-]*\Z",
        description="a word of at most 24 letters, digits and signs of _.+-",
    ),
]
Names = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=1_000, description="one or more texts")]

WORDS = {int: "a whole number", float: "a finite number", bool: "True or False", str: "a text", Path: "a path"}
_UPPER_BOUND = re.compile(
    r"`(int|str|array|object)`(?P<length> of length)? (?P<sign><=?) (?P<number>\d+)"
)  # msgspec's words
LONGEST_FILE_NAME, LONGEST_PATH = 255, 4_000  # bytes


def validate(instance: Any) -> None:
    """Check the fields of a dataclass by their types and convert their values: a list to a tuple, 1 to 1.0."""
    kind: Any = type(instance)
    for name, hint in field_types(kind).items():
        object.__setattr__(instance, name, convert(name, getattr(instance, name), hint))


def convert(name: str, value: Any, hint: Any) -> Any:
    """Return the value converted to a type; raise SmrlError with the name where it does not fit.

    >>> convert("steps", "100", Count)
    Traceback (most recent call last):
    smrl.errors.SmrlError: steps must be a whole number of at least 1, not '100'.
    """
    bound = None
    try:
        plain = msgspec.to_builtins(value, builtin_types=(bytes, bytearray), enc_hook=_as_builtin)
        converted = msgspec.convert(plain, hint, dec_hook=_as_path)
        if not isinstance(converted, float) or math.isfinite(converted):
            return converted
    except msgspec.ValidationError as error:
        bound = _UPPER_BOUND.search(str(error))
    except (TypeError, ValueError, RecursionError):  # of another type; an integer of 5,000 digits; nested 5,000 times
        pass
    wanted, limit = describe(hint), ""
    if bound:
        largest = f"{int(bound['number']) - (bound['sign'] == '<'):,}"
        limit = "" if largest in wanted else f" (at most {largest}{' long' if bound['length'] else ''})"
    raise SmrlError(f"{name} must be {wanted}{limit}, not {short_repr(value)}.")


def describe(hint: Any) -> str:
    """Return in words what a type allows.

    >>> describe(Literal["uniform", "policy"] | None)
    'uniform, policy or None'
    """
    *most, last = _alternatives(hint)
    return f"{', '.join(most)} or {last}" if most else last


def parse_number(text: str) -> float:
    """Return a number from text: 1e6 is a whole number, as counts of steps are, but 1.0 is not.

    >>> parse_number("1e6"), parse_number("1.0")
    (1000000, 1.0)
    """
    with contextlib.suppress(ValueError):
        return int(text)
    number = float(text)
    return int(number) if number.is_integer() and "." not in text else number


@functools.cache
def documentation(kind: type[Any]) -> dict[str, str]:
    """Return the docstrings under the fields of a dataclass by name, those of its base classes included."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if "__annotations__" not in vars(base):
            continue  # has no fields, and inspect would parse all of typing.py to find the source of Generic
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, SyntaxError):  # built in, or typed into an interpreter
            continue
        for node, following in itertools.pairwise(getattr(tree, "body", ())):
            match node, following:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = inspect.cleandoc(text)
    return found


@functools.cache
def field_types(kind: type[Any]) -> dict[str, Any]:
    """Return the types of the fields of a dataclass by name."""
    hints = get_type_hints(kind, include_extras=True)
    # A type variable stands for an algorithm's hyperparameters, which are validated on their own.
    fields = (field.name for field in dataclasses.fields(kind))
    return {name: hints[name] for name in fields if not isinstance(hints[name], TypeVar)}


def _alternatives(hint: Any) -> list[str]:
    if get_origin(hint) is Annotated:
        notes = [note.description for note in hint.__metadata__ if isinstance(note, Meta) and note.description]
        return notes[-1:] or _alternatives(hint.__origin__)
    if get_origin(hint) is Literal:
        return [str(choice) for choice in get_args(hint)]
    if get_origin(hint) in (Union, UnionType):
        return [words for part in get_args(hint) for words in _alternatives(part)]
    return ["None" if hint is NoneType else WORDS.get(hint, str(getattr(hint, "__name__", hint)))]


def _as_builtin(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError


def _as_path(kind: type[Any], value: Any) -> Any:
    if kind is Path and isinstance(value, str) and "\0" not in value:
        with contextlib.suppress(UnicodeEncodeError):
            encoded = os.fsencode(value)
            parts = {encoded: LONGEST_PATH} | dict.fromkeys(encoded.split(os.fsencode(os.sep)), LONGEST_FILE_NAME)
            for part, longest in parts.items():
                if len(part) > longest:
                    raise msgspec.ValidationError(f"Expected `str` of length <= {longest}")
            return Path(value)
    raise msgspec.ValidationError
