"""The code and the commands of docs/robots.md, and examples/robot.py."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import smrl
from examples import robot
from smrl.cli.main import main
from smrl.training.real_time import repeat_learning

PAGE = (Path(__file__).parents[1] / "docs" / "robots.md").read_text()
COMMANDS = re.findall(r"^smrl (train .*)$", PAGE, re.MULTILINE)
SMALL = ["--batch-size", "8", "--actor-hidden", "8", "--critic-hidden", "8", "--quiet"]
FAST = 0.002  # seconds per step


@pytest.fixture
def my_robot(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device of the page as a module of the working directory, with a faster clock."""
    device, repeating = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert "repeat_learning(run)" in repeating
    (in_tmp_path / "my_robot.py").write_text(device.replace("PERIOD = 1 / 50", f"PERIOD = {FAST}"))
    monkeypatch.syspath_prepend(in_tmp_path)
    yield importlib.import_module("my_robot")
    del sys.modules["my_robot"]


def test_the_page_has_the_commands_that_are_tested() -> None:
    assert len(COMMANDS) == 3
    assert "\nsmrl report runs\n" in PAGE


@pytest.mark.parametrize("command", [*(pytest.param(it, marks=pytest.mark.slow) for it in COMMANDS[:2]), COMMANDS[2]])
def test_commands_of_the_page(command: str, my_robot: Any, in_tmp_path: Path) -> None:
    words = command.replace("--steps 20000", "--steps 400").replace("--warmup 500", "--warmup 100").split()
    greedy = () if "--eval-episodes" in words else ("--greedy-every", "2")
    main([*words, *SMALL, "--eval-every", "100", *greedy])
    main(["report", "runs", "-o", "report.html"])
    (config,) = in_tmp_path.glob("runs/my_robot-Arm/sac-reuse*/seed0/config.json")
    run = smrl.load(config.parent, trust=True)
    assert run.settings.control_period == FAST
    arrays = repeat_learning(run)
    assert any(name.startswith("['algorithm']") for name in arrays)


@pytest.fixture
def fast_robot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robot, "PERIOD", FAST)
    monkeypatch.setitem(robot.Robot.metadata, "control_period", FAST)
    monkeypatch.setattr(robot, "EPISODE_STEPS", 50)


@pytest.mark.slow
@pytest.mark.usefixtures("fast_robot")
def test_the_example(in_tmp_path: Path) -> None:
    run = robot.main(steps=600, pause=320)
    assert len(run.record.returns)
    assert list((in_tmp_path / "robot-policy").iterdir())


def test_the_example_swings_by_its_clock() -> None:
    """A late action finds the pendulum where it has got meanwhile, and the watchdog stops the motor."""
    device = robot.Robot()
    device.reset(seed=0)
    device.angle, device.speed = 0.5, 0.0
    device.step(robot.Robot.action_space.high)
    assert device.torque == robot.MAX_TORQUE
    before = device.angle
    device.now -= 0.1  # as if nobody had acted for 0.1 s
    device.acted_at -= 0.1
    device.swing_until_now()
    assert device.angle > before + 0.05
    assert device.torque == 0
