"""The tables of docs/theory.md are what `smrl reproduce theory` prints, and every check can fail."""

import re
from decimal import Decimal
from itertools import takewhile, zip_longest
from pathlib import Path

import pytest

from smrl.cli.main import main

DOCUMENT = Path(__file__).parents[3] / "docs" / "theory.md"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")
HEADINGS = {  # how a table begins → the words of the command that prints it
    "| statement | measured with seed 0 |": (),
    "| statement | if … | measured then, with seed 0 |": ("--what-if",),
    "| study | measured with seed 0 |": ("--studies",),
    "| study | if … | measured then, with seed 0 |": ("--studies", "--what-if"),
}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that begins so."""
    lines = DOCUMENT.read_text().split(heading)[1].splitlines()[2:]
    cells = (re.split(r"(?<!\\)\|", line)[1:-1] for line in takewhile(lambda line: line.startswith("|"), lines))
    return [[cell.strip().replace("\\|", "|").replace("\\*", "*") for cell in line] for line in cells]


def printed(row: list[str]) -> str:
    """The line of the command that a row stands for."""
    statement, *change, measured, verdict = row
    return f"{', if '.join([statement, *change])}: {measured}. {verdict}"


def alike(one: str, other: str) -> bool:
    """Whether two lines differ at most by one unit of the last digit of their numbers."""
    pairs = zip_longest(*([Decimal(word.replace(",", "")) for word in NUMBER.findall(line)] for line in (one, other)))
    return NUMBER.sub("#", one) == NUMBER.sub("#", other) and all(
        abs(left - right) <= max(Decimal(10) ** int(each.as_tuple().exponent) for each in (left, right))
        for left, right in pairs
    )


@pytest.mark.slow
@pytest.mark.parametrize("heading", HEADINGS)
def test_document_has_every_line_of_the_command(
    heading: str, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["reproduce", "theory", *HEADINGS[heading]])
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("  picture: ")]
    for line, documented in zip_longest(lines, map(printed, rows(heading)), fillvalue=""):
        assert alike(line, documented), f"printed:    {line}\ndocumented: {documented}"
    pictures = 0 if "--what-if" in HEADINGS[heading] else 3
    assert len(list(in_tmp_path.glob("runs/theory/*.png"))) == pictures


@pytest.mark.parametrize("kind", ["statement", "study"])
def test_every_check_can_fail(kind: str) -> None:
    plain, changed = (rows(heading) for heading in HEADINGS if heading.startswith(f"| {kind} "))
    verdicts = {row[0]: row[-1] for row in plain}
    assert set(verdicts.values()) <= {"holds", "does not hold"}
    assert {row[0] for row in changed} == set(verdicts), "each statement is changed at least once"
    for statement, *_, verdict in changed:
        assert verdict != verdicts[statement], statement


def test_lines_differ_by_more_than_rounding() -> None:
    assert alike("error 0.048 after 32,768 steps", "error 0.047 after 32,768 steps")
    assert alike("from T ≈ 2e+11 on", "from T ≈ 3e+11 on")
    assert not alike("error 0.048 after 32,768 steps", "error 0.045 after 32,768 steps")
    assert not alike("error 0.048. holds", "error 0.048. does not hold")
    assert not alike("error -0.048", "error 0.048")
