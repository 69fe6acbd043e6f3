"""Names of other libraries for settings: flags and keywords, without a place in the help."""

from pathlib import Path
from typing import Any

import pytest
from commands import refused_here

import smrl
from smrl.cli.common import Parser
from smrl.cli.flags import add_flags, add_settings
from smrl.errors import SmrlError
from smrl.settings import ALIASES, Settings, without_aliases

PAGE = Path(smrl.__file__).parents[1] / "docs" / "extend.md"
WORDS = "sac Hopper-v4 --learning-starts 100 --buffer-size=5000 --n-envs 2 --gradient-steps 4 --normalize-observations"


def parsed(*words: str) -> dict[str, Any]:
    parser = Parser("train", "")
    add_settings(parser, words, ["sac"], "Hopper-v4")
    return parser.read(words)


def test_flags_of_other_libraries() -> None:
    meant = {"warmup": 100, "capacity": 5000, "envs": 2, "fresh_batches": 4, "normalise_observations": True}
    assert parsed(*WORDS.split()) == {"algorithm": "sac", "env": "Hopper-v4", **meant}
    assert parsed("sac", "Hopper-v4", "--normalize-rewards", "False")["normalise_rewards"] is False


def test_keywords_of_other_libraries() -> None:
    assert without_aliases("sac", {"n_envs": 2, "seed": 1}) == {"envs": 2, "seed": 1}
    with pytest.raises(SmrlError, match="warmup is given twice, once as learning_starts"):
        without_aliases("sac", {"warmup": 5, "learning_starts": 6})
    with pytest.raises(SmrlError, match="capacity must be a whole number of at least 1, not 0"):
        smrl.train("sac", "No-v0", buffer_size=0)  # type: ignore[call-arg]  # editors know smrl's own names only


def test_an_algorithm_may_have_a_hyperparameter_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smrl.settings.names", lambda algorithm: {"n_envs": 1})
    assert without_aliases("mine", {"n_envs": 3}) == {"n_envs": 3}


def test_the_page_has_all_of_them_and_the_help_none(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser("train", "")
    add_flags(parser, "settings", {"": Settings}, {})
    table = PAGE.read_text().partition("| name | is |")[2]
    for name, meant in ALIASES.items():
        assert f"--{name.replace('_', '-')}" not in parser.format_help()
        (row,) = (line for line in table.splitlines() if f"`{name}`" in line)
        assert f"`{meant}`" in row


def test_other_commands_do_not_know_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert "smrl list has no flag --capacity" in refused_here(capsys, "list", "--buffer-size", "3")
