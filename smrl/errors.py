"""The exception for errors that a user can fix."""

import difflib
from collections.abc import Iterable

LONGEST_REPR = 80  # characters of a value in a message


class SmrlError(Exception):
    """An error with a one-line message: what is wrong and what to do. The command line exits with code 2.

    Names of files and texts of runs may be part of the message, so what would control the terminal is replaced.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def printable(text: str) -> str:
    """Replace characters in a run's text that would control the terminal.

    >>> printable("a\\x1b[31mb")
    'a�[31mb'
    """
    return "".join(sign if sign.isprintable() else "�" for sign in text)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?`` with the most similar known word, to end a message; empty if none is similar.

    >>> nearest("sca", ["sac", "td3"])
    '; did you mean sac?'
    """
    by_lower_case = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.5)
    return f"; did you mean {by_lower_case[close[0]]}?" if close else ""


def short_repr(value: object) -> str:
    """Return a value's repr for a message, shortened to one line.

    >>> short_repr("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa … aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of 5,000 digits, a list that is nested 5,000 times, a faulty __repr__
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= LONGEST_REPR else f"{text[:37]} … {text[-39:]}"


def require(condition: bool, message: str) -> None:
    """Raise SmrlError with this message unless the condition holds."""
    if not condition:
        raise SmrlError(message)
