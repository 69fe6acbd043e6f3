"""`smrl list --tasks`: the paper's task lists."""

import pytest

from smrl.cli.main import main
from smrl.paper.tasks import LISTS


def messages(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main(["list", *words])
    return capsys.readouterr().out


def test_all_lists_with_all_their_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split(maxsplit=1) for line in messages(capsys, "--tasks").splitlines() if line.strip()]
    wanted = []
    for name, found in LISTS.items():
        wanted += [[f"{name}:", found.title], *([task, mark] for task, mark in found.marked())]
    assert [[first, rest.strip()] for first, rest in rows] == wanted


def test_some_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert [line.split() for line in messages(capsys, "--tasks", "dmc-utd", "atari").splitlines() if line.strip()][
        1:
    ] == [
        ["dmc/cheetah-run", "named", "in", "the", "paper"],
        ["dmc/fish-swim", "named", "in", "the", "paper"],
        ["dmc/finger-turn_hard", "our", "guess"],
        ["dmc/reacher-hard", "our", "guess"],
        ["atari:", "Atari,", "DQN"],
        *([f"{game}NoFrameskip-v4", "named", "in", "the", "paper"] for game in ("Pong", "Breakout")),
        *([f"{game}NoFrameskip-v4", "named", "in", "the", "paper"] for game in ("BeamRider", "SpaceInvaders")),
    ]


def test_the_overview_names_the_lists(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in messages(capsys).splitlines()]
    for name, found in LISTS.items():
        assert [name, str(len(found.tasks)), "tasks", *found.title.split()] in lines


def test_an_unknown_list_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["list", "--tasks", "dcm"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("smrl: there is no task list 'dcm' among ")
    assert error.endswith("did you mean dmc?\n")
