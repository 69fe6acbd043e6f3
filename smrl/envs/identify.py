"""Name an environment that is given as a function, so that its run can be found again."""

import ast
import hashlib
import inspect
import operator
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import gymnasium

from smrl.envs.make import Raw, require_callable
from smrl.envs.suites import dmc
from smrl.errors import SmrlError, require, short_repr

CONSTANTS = (bool, int, float, str, bytes, tuple, type(None))


def identify(env: str | Callable[..., Raw], env_name: str | None = None) -> tuple[str, str | None]:
    """Return the name of an environment and, if a function makes it, a digest of the function's source.

    A function or class of a module is called ``module:name``. What cannot be imported by a name, such as a lambda, a
    partial or a nested function, needs an ``env_name``: the user then ensures that it is the same environment.
    """
    if isinstance(env, str):
        require(env_name is None, f"env_name is for functions, and {env!r} is a name already: leave env_name out")
        return env, None
    require_callable(env)
    if env_name is not None:
        is_name = isinstance(env_name, str) and env_name.isprintable() and bool(env_name.strip())
        require(is_name, f"env_name must be a name such as 'my-pendulum', not {short_repr(env_name)}")
        is_taken = env_name in gymnasium.registry or env_name.startswith(dmc.PREFIXES)
        require(not is_taken, f"env_name {env_name!r} is the id of another environment: choose a different name")
        return env_name, None
    reference = _reference(env)
    if reference is None:
        advice = 'pass env_name="…", or make it a function or class of a module'
        raise SmrlError(f"{short_repr(env)} has no name by which its run could be found again: {advice}")
    return reference, digest(env)


def _reference(env: Callable[..., Raw]) -> str | None:
    """Return ``module:name`` if the module has this very object under the name."""
    if not isinstance(env, type | FunctionType | BuiltinFunctionType) or getattr(env, "__closure__", None):
        return None
    try:
        is_found = operator.attrgetter(env.__qualname__)(sys.modules[env.__module__]) is env
    except (AttributeError, KeyError):
        return None
    module = "__main__" if env.__module__ == "__mp_main__" else env.__module__  # renamed in a spawned process
    return f"{module}:{env.__qualname__}" if is_found else None


def digest(function: Callable[..., Any]) -> str | None:
    """Return a digest of a function's or class's source without comments and formatting, or None for C code.

    Without source the compiled code is digested. What it uses, calls or inherits from is not part of the digest.
    """
    try:
        # Not ast.dump, whose format changes between versions of Python.
        text = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):  # typed in or made by exec; written in C; file edited since the import
        text = "\n".join(_compiled(function))
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else None


def _compiled(value: Any) -> Iterator[str]:
    """Describe a class, function or constant without file names, line numbers and addresses."""
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
        yield repr(sorted(map(repr, value)))  # the order of a set differs between processes
    elif isinstance(value, CONSTANTS):
        yield re.sub(r" at 0x[0-9a-f]+", "", repr(value))
