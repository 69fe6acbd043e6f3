"""`smrl tabular` and `smrl theory`, as a user types them."""

from pathlib import Path

import pytest

from smrl.cli.main import main

REFUSED = {
    "alpha above 1": (("tabular", "cliffwalking", "--alpha", "1.5"), "alpha must be from 0 to 1"),
    "gamma of 1": (("tabular", "cliffwalking", "--gamma", "1"), "gamma"),
    "reuse of 0": (("tabular", "maze", "--reuse", "0"), "reuse must be at least 1"),
    "a maze of one cell": (("tabular", "maze", "--size", "1"), "at least 2x2"),
    "more portals than cells": (("tabular", "maze", "--size", "3", "--portals", "4"), "4 pairs of portals do not fit"),
    "no such task": (("tabular", "labyrinth"), "labyrinth"),
    "no seeds": (("tabular", "maze", "--seeds", "0"), "seeds"),
    "a negative seed": (("theory", "--seed", "-1"), "seed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, sentence = REFUSED[case]
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    errors = capsys.readouterr().err
    assert stop.value.code == 2
    assert errors.startswith("smrl: ")
    assert errors.count("\n") == 1
    assert sentence in errors
    assert not list(in_tmp_path.iterdir())


def test_theory_prints_a_line_per_statement(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["theory"])
    lines = [line for line in capsys.readouterr().out.splitlines() if "picture" not in line]
    assert len(lines) >= 12
    assert all(line.endswith(("holds", "does not hold")) for line in lines)
    assert len(list((in_tmp_path / "runs" / "theory").glob("*.png"))) == 3
