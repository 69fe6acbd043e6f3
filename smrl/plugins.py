"""Code of users: loaded by ``module:name`` or from entry points of installed packages, and called with care."""

import contextlib
import functools
import importlib
import operator
import os
import sys
import textwrap
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from smrl.errors import SmrlError, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ADVICE = "correct its name, or run where Python finds it (PYTHONPATH)"
CHILD_MESSAGE = (
    b"smrl: the environment, or other code of yours, forked this process and returned in the child too; the child ends "
    b"here, and its parent goes on. End such a child with os._exit().\n"
)


class UserCode:
    """Context manager for calls of user code.

    Whatever it raises, also SystemExit, is replaced by the error that ``describe`` makes of it; only Ctrl-C passes. If
    it forks and the child returns as well, the child ends here, because only one process may train and write a run.
    """

    __slots__ = ("_depth", "_describe")
    fork_depth: ClassVar[int] = 0  # grows in every forked child; os.getpid() would take longer than all of this class

    def __init__(self, describe: Callable[[BaseException], BaseException]) -> None:
        self._describe = describe

    def __enter__(self) -> None:
        self._depth = UserCode.fork_depth

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._depth != UserCode.fork_depth:
            with contextlib.suppress(OSError):
                os.write(2, CHILD_MESSAGE)  # not through sys.stderr, which a thread may have locked when it forked
            os._exit(1)
        if error is not None and not isinstance(error, KeyboardInterrupt):
            failure = self._describe(error)
            if failure is not error:
                raise failure from error

    @classmethod
    def note_fork(cls) -> None:
        """Remember that this process is a forked child."""
        cls.fork_depth += 1


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=UserCode.note_fork)


def load(reference: str, what: str) -> Any:
    """Return the object that ``module:name`` names; ``what`` describes it in errors, such as "an algorithm".

    >>> load("math:pi", "a number")
    3.141592653589793
    """
    name, _, attribute = reference.partition(":")
    if not (name and attribute):
        raise SmrlError(f"{reference!r} does not name {what}: write module:name, as in my_module:my_name")
    module = import_module(name)
    found = find(module, attribute)
    if found is None:
        raise SmrlError(f"{reference!r} does not name {what}: {absent(module, attribute)}")
    return found


def find(module: ModuleType, attribute: str) -> Any:
    """Return an attribute of a module, whose name may have dots as in ``Class.function``; None if there is none."""
    try:
        return operator.attrgetter(attribute)(module)
    except AttributeError:
        return None
    except Exception as error:  # a module may compute its attributes on access
        raise SmrlError(f"{module.__name__}:{attribute} cannot be loaded, it raised {in_words(error)}") from error


def use_working_directory() -> None:
    """Allow imports from the working directory, after all other places.

    To be called only where the user has typed ``module:name``: otherwise a file there that has the name of an optional
    dependency would be executed.
    """
    if "" not in sys.path:
        sys.path.append("")


def import_module(name: str, advice: str = ADVICE) -> ModuleType:
    """Import a module; raise SmrlError if that fails."""
    with UserCode(lambda error: SmrlError(f"the module {name!r} cannot be imported ({in_words(error)}): {advice}")):
        return importlib.import_module(name)  # a script without a __main__ guard may exit


def absent(module: ModuleType, attribute: str) -> str:
    """Return a message that a module lacks an attribute."""
    if module.__name__ == "__main__":
        return f"{attribute} is not in the running program: move it into a module, and name that"
    known = [name for name in dir(module) if not name.startswith("_")]
    return f"the module {module.__name__!r} has no {attribute!r}{nearest(attribute, known)}"


@functools.cache
def entry_points(group: str) -> "dict[str, EntryPoint]":
    """Return the entry points of a group by name."""
    from importlib import metadata  # imported here because it is slow to import

    return {entry.name: entry for entry in metadata.entry_points(group=group)}


def in_words(error: BaseException) -> str:
    """Return the type and text of an exception on one line.

    >>> in_words(ValueError("no such", "thing"))
    "ValueError: ('no such', 'thing')"
    """
    return textwrap.shorten(f"{type(error).__name__}: {error}".removesuffix(": "), 400, placeholder=" …")
