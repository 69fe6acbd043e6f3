"""Run the command line in its own process, as a user does, or in this one, which takes seconds less."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from smrl.cli.main import main

TESTS = Path(__file__).parent
PYTHONPATH = f"{TESTS}{os.pathsep}{TESTS.parent}"  # the modules that tests name, and the package under test


def start(*words: object, **environment: str) -> subprocess.Popen[str]:
    """Start a command whose output goes to pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "smrl", *map(str, words)],
        env=os.environ | {"PYTHONPATH": PYTHONPATH} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Read standard error up to a line with this text; lines about progress may come before."""
    assert process.stderr is not None
    assert any(text in line for line in process.stderr), f"it ended without '{text}'"


def run(*words: object, **environment: str) -> tuple[int, str, str]:
    """Return the exit code, standard output and standard error of a command."""
    process = start(*words, **environment)
    output, errors = process.communicate()
    return process.returncode, output, errors


def refused(*words: object, **environment: str) -> str:
    """Return the one-line message with which a command is refused."""
    code, _, errors = run(*words, **environment)
    return _one_line(code, errors)


def refused_here(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return the one-line message with which a command is refused in this process."""
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return _one_line(stop.value.code, capsys.readouterr().err)


def _one_line(code: object, errors: str) -> str:
    assert code == 2, errors
    assert errors.startswith("smrl: "), errors
    assert errors.count("\n") == 1, errors
    return errors
