"""Messages in library use: they go through the logger smrl, and are shown if nobody has configured it."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from smrl.training.progress import LOGGER, LoggingBoard


class Kept(logging.Handler):
    """Keeps what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[str, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append((record.name, record.levelname, record.getMessage()))


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    yield handler
    for logger in (LOGGER, logging.root):
        logger.removeHandler(handler)


def talk(quiet: bool = False) -> None:
    with LoggingBoard(quiet) as board:
        progress = board.progress("SAC", 100)
        progress.begin(0)
        progress.evaluated(10, 5.0)
        progress.notify("100 % of it [bold]")


EXPECTED = [("smrl", "INFO", "SAC: step 10 of 100"), ("smrl", "WARNING", "SAC: 100 % of it [bold]")]


def found(kept: Kept) -> list[tuple[str, str, str]]:
    return [(name, level, message.partition(", return")[0]) for name, level, message in kept.records]


def test_without_configuration_messages_are_shown(capsys: pytest.CaptureFixture[str], kept: Kept) -> None:
    logging.root.addHandler(kept)  # at the level WARNING, as libraries add one
    talk()
    assert [line.partition(" steps/s")[0][:20] for line in capsys.readouterr().err.splitlines()] == [
        "SAC: step 10 of 100,",
        "SAC: 100 % of it [bo",
    ]
    assert kept.records == [], "nothing is shown twice"
    assert (LOGGER.handlers, LOGGER.level, LOGGER.propagate) == ([], logging.NOTSET, True), "as it was before"
    assert not LOGGER.isEnabledFor(logging.INFO)
    talk(quiet=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("where", ["smrl", "root"])
def test_a_configured_logger_gets_the_messages(
    where: str, capsys: pytest.CaptureFixture[str], kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger: Any = LOGGER if where == "smrl" else logging.root
    logger.addHandler(kept)
    monkeypatch.setattr(LOGGER if where == "smrl" else logging.root, "level", logging.INFO)
    LOGGER.manager._clear_cache()  # type: ignore[attr-defined]  # of isEnabledFor, which setLevel would clear
    talk()
    assert found(kept) == EXPECTED
    assert capsys.readouterr().err == ""
    talk(quiet=True)
    assert found(kept) == EXPECTED
    monkeypatch.undo()
    LOGGER.manager._clear_cache()  # type: ignore[attr-defined]
