"""A digest of the source of a function or class, to tell whether it is still the same one."""

import ast
import hashlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

CONSTANTS = (bool, int, float, str, bytes, tuple, type(None))


def digest(function: Callable[..., Any]) -> str | None:
    """A digest of the source without its comments and formatting; without source, of the compiled code.

    What the function or class uses, calls or inherits from is not part of it. None if it is not written in Python.
    """
    try:
        # Not ast.dump, whose form changes from one version of Python to the next.
        text = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):  # typed in or made by exec; written in C; its file was edited meanwhile
        text = "\n".join(_compiled(function))
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else None


def _compiled(value: Any) -> Iterator[str]:
    """What a class, function or constant is made of, but for names of files, line numbers and addresses."""
    if inspect.isclass(value):
        for name, member in sorted(vars(value).items()):
            if callable(member) or not name.startswith("__"):
                yield from (f"{name}: {line}" for line in _compiled(member))
    elif isinstance(value, staticmethod | classmethod):
        yield from _compiled(value.__func__)
    elif isinstance(value, property):
        yield from (*_compiled(value.fget), *_compiled(value.fset))
    elif inspect.isfunction(value):
        yield from (*_compiled(value.__code__), *_compiled(value.__defaults__))
        yield from _compiled(tuple((value.__kwdefaults__ or {}).items()))
    elif isinstance(value, CodeType):
        yield f"{value.co_code.hex()} {value.co_names} {value.co_varnames}"
        for constant in value.co_consts:
            yield from _compiled(constant)
    elif isinstance(value, frozenset):
        yield repr(sorted(map(repr, value)))  # its own order is another one in every process
    elif isinstance(value, CONSTANTS):
        yield re.sub(r" at 0x[0-9a-f]+", "", repr(value))
