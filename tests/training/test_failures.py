"""Failures beside training: loggers, callbacks and closing neither stop a run nor hide why it stopped."""

import csv
import errno
from pathlib import Path
from typing import Any

import pytest
from broken_envs import LIMIT, Raises, Toy

import smrl
from smrl.errors import SmrlError
from smrl.runs import checkpoint, records
from smrl.training import evaluator, progress
from smrl.training.loggers import Loggers, TensorBoard

SHORT: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 10, "eval_episodes": 1, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,)}


class Ending(Toy):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps >= LIMIT, info


def train(runs: Path, env: Any = Ending, **settings: Any) -> smrl.Run:
    return smrl.train("ddpg", env, **SHORT | SMALL | settings, runs=runs)


def steps(run: smrl.Run, name: str = "evaluations.csv") -> list[int]:
    with (run.path / name).open() as file:
        return [int(row["step"]) for row in csv.DictReader(file)]


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_failing_logger_does_not_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    append, calls = TensorBoard._append, list[int]()

    def third(file: Any, event: Any) -> None:
        calls.append(1)
        append(file, event) if len(calls) < 5 else full()

    monkeypatch.setattr(TensorBoard, "_append", third)
    run = train(tmp_path)
    assert steps(run) == [10, 20, 30, 40, 50, 60]
    assert steps(run, "training.csv") == [30, 40, 50, 60]
    assert capsys.readouterr().err.count("TensorBoard fails with") == 1
    assert len(calls) == 5


def test_a_clock_that_steps_back_does_not_stop_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(2_000_000_000, 0, -1000))
    monkeypatch.setattr("time.time", lambda: float(next(moments)))
    assert steps(train(tmp_path)) == [10, 20, 30, 40, 50, 60]


def test_a_failing_display_does_not_stop_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> None:
        raise BrokenPipeError("the terminal is gone")

    monkeypatch.setattr(progress.ShownProgress, "evaluated", gone)
    assert steps(train(tmp_path)) == [10, 20, 30, 40, 50, 60]


@pytest.mark.parametrize("callback", ["on_step", "on_evaluation"])
def test_the_run_is_saved_before_an_error_of_a_callback_is_raised(tmp_path: Path, callback: str) -> None:
    def fail(run: smrl.Run, step: int, *_: Any) -> None:
        if step == 30:
            raise ZeroDivisionError("a user's mistake")

    with pytest.raises(ZeroDivisionError, match="a user's mistake"):
        train(tmp_path, **{callback: fail})
    (folder,) = tmp_path.glob("*/*/seed0")
    assert checkpoint.newest_step(folder / "checkpoint") == 30
    assert steps(train(tmp_path)) == [10, 20, 30, 40, 50, 60]


def test_errors_while_closing_do_not_hide_the_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk is full for everything: the table, the checkpoint, and what is written when closing."""
    write = records.CsvLog.write
    monkeypatch.setattr(Loggers, "close", full)
    monkeypatch.setattr(evaluator.Evaluator, "close", full)
    monkeypatch.setattr(records.CsvLog, "write", lambda log, row: full() if row["step"] == 30 else write(log, row))
    with pytest.raises(OSError, match="No space left"):
        train(tmp_path)
    messages = capsys.readouterr().err
    assert "closing the loggers failed" in messages
    assert "closing the evaluator failed" in messages


def test_an_error_while_closing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loggers, "close", full)
    with pytest.raises(SmrlError, match="closing the loggers failed with OSError"):
        train(tmp_path)
    (folder,) = tmp_path.glob("*/*/seed0")
    assert checkpoint.newest_step(folder / "checkpoint") == 60


def test_a_full_disk_does_not_hide_a_fault_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "save_arrays", full)
    with pytest.raises(SmrlError, match=r"at step 5: .*exploded.*is lost: cannot write .*No space left") as caught:
        train(tmp_path, Raises)
    assert "\n" not in str(caught.value)
