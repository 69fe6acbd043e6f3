"""The exception for errors that a user can fix."""

import difflib
from collections.abc import Iterable


class SmrlError(Exception):
    """An error with a one-line message: what is wrong and what to do. The command line exits with code 2."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?`` with the most similar known word, to end a message; empty if none is similar.

    >>> nearest("sca", ["sac", "td3"])
    '; did you mean sac?'
    """
    by_lower_case = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.5)
    return f"; did you mean {by_lower_case[close[0]]}?" if close else ""


def require(condition: bool, message: str) -> None:
    """Raise SmrlError with this message unless the condition holds."""
    if not condition:
        raise SmrlError(message)
