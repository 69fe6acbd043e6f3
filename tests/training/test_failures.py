"""Failures beside training: loggers, callbacks and closing neither stop a run nor hide why it stopped."""

import csv
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from broken_envs import LIMIT, Raises, Toy
from commands import PYTHONPATH

import smrl
from smrl.errors import SmrlError
from smrl.plugins import CHILD_MESSAGE
from smrl.runs import checkpoint, records
from smrl.training import evaluator, progress
from smrl.training.loggers import Loggers, TensorBoard
from smrl.training.signals import Interrupted

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
    def fail(status: smrl.Status) -> None:
        if status.step == 30:
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


class Panic(BaseException):
    """Neither an Exception nor SystemExit, such as the panics of extensions that are written in Rust."""


class Ends(Ending):
    """Ends the process, or raises what is no Exception, in one of its calls."""

    call, error = "", BaseException()

    def __init__(self) -> None:
        super().__init__()
        self._end("__init__")

    def reset(self, **options: Any) -> Any:
        self._end("reset")
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self._end("step")
        return super().step(action)

    def close(self) -> None:
        self._end("close")

    def _end(self, call: str) -> None:
        if call == self.call:
            raise self.error


@pytest.mark.parametrize("error", [SystemExit(0), Panic("at the disco")], ids=["exit", "panic"])
@pytest.mark.parametrize("call", ["__init__", "reset", "step", "close"])
def test_an_environment_cannot_end_the_process(
    call: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ends, "call", call)
    monkeypatch.setattr(Ends, "error", error)
    where = "Ends cannot make an environment, it raised" if call == "__init__" else rf"Ends failed in {call}\(.*\) with"
    what = "SystemExit: 0" if isinstance(error, SystemExit) else "Panic: at the disco"
    with pytest.raises(SmrlError, match=f"{where} {what}"):
        train(tmp_path, Ends)


def test_a_callback_that_exits_leaves_a_saved_run(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        train(tmp_path, on_step=lambda status: sys.exit(3) if status.step == 30 else None)
    (folder,) = tmp_path.glob("*/*/seed0")
    assert checkpoint.newest_step(folder / "checkpoint") == 30


FORKS = """
import os
import numpy as np
from broken_envs import Toy
from smrl.envs.make import make

class Forks(Toy):
    def __init__(self):
        super().__init__()
        self.fork("made")

    def fork(self, what):
        if child := os.fork():
            os.waitpid(child, 0)
        print(what, "in the parent" if child else "in the child", flush=True)

    def reset(self, **options):
        self.fork("reset")
        return super().reset(**options)

    def step(self, action):
        self.fork("stepped")
        return super().step(action)

    def close(self):
        self.fork("closed")

env = make(Forks)
env.reset(0)
env.step(np.zeros(1, np.float32))
env.close()
print("left", flush=True)
"""


def test_a_child_that_returns_from_an_environment_is_ended() -> None:
    """An environment forks in every call, and returns in the child too."""
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    found = subprocess.run([sys.executable, "-c", FORKS], env=environment, capture_output=True, text=True, check=True)
    calls = ("made", "reset", "stepped", "closed")
    lines = [f"{call} in the {process}" for call in calls for process in ("child", "parent")]
    assert found.stdout.splitlines() == [*lines, "left"]
    assert found.stderr.splitlines() == [CHILD_MESSAGE.decode().strip()] * 4


class LosesWorkers(Ending):
    """Fails when Ctrl-C has also ended processes that it has started."""

    made, at_instance, at_step = 0, 0, 0

    def __init__(self) -> None:
        super().__init__()
        LosesWorkers.made += 1
        self.number, self.taken = LosesWorkers.made, 0

    def step(self, action: Any) -> Any:
        self.taken += 1
        if (self.number, self.taken) == (self.at_instance, self.at_step):
            os.kill(os.getpid(), signal.SIGINT)
            raise EOFError("a worker is gone")
        return super().step(action)


@pytest.mark.parametrize(("instance", "step", "stopped_at"), [(2, 35, 34), (3, 60, 30)], ids=["training", "evaluation"])
def test_a_fault_after_a_signal_is_no_fault(
    instance: int, step: int, stopped_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first environment shows its spaces, the second is trained in, the third is for evaluations of 50 steps.

    The evaluation at step 20 is of the same policy as that at step 10, so the second one that is played is at step 30.
    """
    monkeypatch.setattr(LosesWorkers, "made", 0)
    monkeypatch.setattr(LosesWorkers, "at_instance", instance)
    monkeypatch.setattr(LosesWorkers, "at_step", step)
    with pytest.raises(Interrupted, match=f"stopped by SIGINT at step {stopped_at} and saved"):
        train(tmp_path, LosesWorkers)
    monkeypatch.setattr(LosesWorkers, "at_instance", 0)
    resumed, undisturbed = train(tmp_path, LosesWorkers), train(tmp_path / "other", LosesWorkers)
    assert (resumed.path / "evaluations.csv").read_bytes() == (undisturbed.path / "evaluations.csv").read_bytes()
