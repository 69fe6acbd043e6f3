"""Refusals of `smrl reproduce q-smr` and `theory`; test_document.py runs all of `smrl reproduce theory`."""

from pathlib import Path

import pytest

from smrl.cli.main import main

REFUSED = {
    "alpha above 1": (("q-smr", "--tasks", "cliffwalking", "--alpha", "1.5"), "alpha must be from 0 to 1"),
    "gamma of 1": (("q-smr", "--tasks", "cliffwalking", "--gamma", "1"), "gamma"),
    "reuse of 0": (("q-smr", "--tasks", "maze", "--reuse", "0"), "reuse must be at least 1"),
    "a maze of one cell": (("q-smr", "--tasks", "maze", "--size", "1"), "at least 2x2"),
    "more portals than cells": (
        ("q-smr", "--tasks", "maze", "--size", "3", "--portals", "4"),
        "4 pairs of portals do not fit",
    ),
    "no such task": (("q-smr", "--tasks", "labyrinth"), "labyrinth"),
    "no seeds": (("q-smr", "--tasks", "maze", "--seeds", "0"), "seeds"),
    "a negative seed": (("theory", "--seed", "-1"), "seed must be at least 0, not -1."),
    "a study by name": (("theory", "--studies", "gamma"), "gamma"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, message = REFUSED[case]
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", *words])
    errors = capsys.readouterr().err
    assert stop.value.code == 2
    assert errors.startswith("smrl: ")
    assert errors.count("\n") == 1
    assert message in errors
    assert not list(in_tmp_path.iterdir())
