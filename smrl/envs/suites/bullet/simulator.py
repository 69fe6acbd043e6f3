"""PyBullet, imported without its start-up message."""

import contextlib
import functools
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from gymnasium.error import DependencyNotInstalled

_redirection = threading.Lock()  # two threads redirecting at once would restore each other's files


@functools.cache
def simulator() -> Any:
    """The module ``pybullet``, imported on the first call."""
    try:
        with _silence():
            return importlib.import_module("pybullet")
    except ImportError as error:
        raise DependencyNotInstalled('PyBullet is not installed: pip install "smrl[pybullet]"') from error


@functools.cache
def data_path() -> str:
    """The directory of the models that come with PyBullet."""
    return str(importlib.import_module("pybullet_data").getDataPath())


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard what is written to stdout and stderr, by file descriptor because C code prints."""
    with _redirection, contextlib.ExitStack() as undo:
        null = os.open(os.devnull, os.O_WRONLY)
        undo.callback(os.close, null)
        for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
            with contextlib.suppress(OSError, ValueError, AttributeError):  # a stream may be closed or missing
                stream.flush()
                kept = os.dup(descriptor)
                undo.callback(os.close, kept)
                undo.callback(os.dup2, kept, descriptor)  # callbacks run from the last to the first
                os.dup2(null, descriptor)
        yield
