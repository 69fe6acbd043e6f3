"""Folders of runs: relative, moved, and with unusual names."""

import io
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from broken_envs import LIMIT, Toy
from rich.console import Console

import smrl
from smrl.training.progress import Board

SHORT: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 30, "eval_episodes": 2, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,)}


class Wandering(Toy):
    """Goes to another working directory, where it is made and in every step."""

    place = Path()

    def __init__(self) -> None:
        super().__init__()
        os.chdir(Wandering.place)

    def step(self, action: Any) -> Any:
        os.chdir(Wandering.place)
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps >= LIMIT, info


def test_an_environment_that_changes_the_working_directory(in_tmp_path: Path) -> None:
    Wandering.place = in_tmp_path / "elsewhere"
    Wandering.place.mkdir()
    run = smrl.train("ddpg", Wandering, **SHORT | SMALL, runs=Path("runs"))
    assert not list(Wandering.place.iterdir())
    assert len(list(in_tmp_path.glob("runs/*/*/seed0/evaluations.csv"))) == 1
    assert run.record.steps.tolist() == [30, 60]
    assert len(smrl.evaluate(run, 2, env=Wandering).returns) == 2


def test_a_moved_run_is_opened_evaluated_and_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = smrl.train("ddpg", "Pendulum-v1", **SHORT | SMALL | {"steps": 30}, runs=tmp_path / "here")
    returns = smrl.evaluate(run, 2).returns
    shutil.move(tmp_path / "here", tmp_path / "there [bold]")
    (folder,) = (tmp_path / "there [bold]").glob("*/*/seed0")
    moved = smrl.load(folder)
    assert moved.record.steps.tolist() == [30]
    assert smrl.evaluate(moved, 2).returns.tolist() == returns.tolist()
    again = smrl.train("ddpg", "Pendulum-v1", **SHORT | SMALL, runs=tmp_path / "there [bold]")
    assert "continuing at step 30" in capsys.readouterr().err
    assert again.path == folder
    assert again.record.steps.tolist() == [30, 60]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_brackets_in_titles_and_messages_are_not_markup(is_terminal: bool) -> None:
    text = io.StringIO()
    console = Console(file=text, width=150, force_terminal=is_terminal, color_system=None, soft_wrap=True)
    with Board(quiet=False, console=console) as board:
        progress = board.progress("SAC, my[red]env, seed 0 [/x]", 100)
        progress.begin(0)
        progress.evaluated(10, 1.0)
        progress.notify("see runs/[bold]/[/oops]")
        board.notify("all [/runs]")
    for shown in ("SAC, my[red]env, seed 0 [/x]", "see runs/[bold]/[/oops]", "all [/runs]"):
        assert shown in text.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_with_ascii_only(is_terminal: bool) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    console = Console(file=stream, width=60, force_terminal=is_terminal, color_system=None, soft_wrap=True)
    with Board(quiet=False, console=console) as board:
        progress = board.progress("SAC × 10, a title that is too long for its column, seed 0", 100)
        progress.begin(0)
        progress.advance(5)
        progress.evaluated(10, 1.0)
        progress.notify("a return of −3 … é")
        board.notify("γ = 0.99")
    stream.flush()
    assert b"0.99" in stream.buffer.getvalue()
