"""Output is an observer: what happens to standard output and error neither stops a run nor shows a stack trace."""

import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from broken_envs import Toy
from commands import read_until, start
from commands import run as command
from sweeps import written

import smrl
from smrl.cli.main import main
from smrl.output import Output, guard_streams
from smrl.training.progress import Board

SHORT: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,)}
FLAGS = ("--warmup", 20, "--eval-every", 20, "--eval-episodes", 1, "--batch-size", 8, "--reuse", 1)
SIZES = ("--actor-hidden", 8, "--critic-hidden", 8)


class Ending(Toy):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps >= 50, info


def broken_pipe() -> TextIO:
    reader, writer = os.pipe()
    os.close(reader)
    return open(writer, "w", buffering=1)


def full_disk() -> TextIO:
    return open("/dev/full", "w", buffering=1)


def closed_file() -> TextIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.fixture(params=[broken_pipe, full_disk, closed_file])
def failing(request: pytest.FixtureRequest) -> Iterator[TextIO]:
    """A stream to which nothing can be written."""
    stream: TextIO = request.param()
    yield stream
    raw = getattr(stream, "buffer", None)
    if raw is not None:  # what is still in its buffer cannot be written either
        with pytest.raises(OSError):  # noqa: PT011
            stream.close()


def test_errors_of_a_stream_are_noted(failing: TextIO) -> None:
    output = Output(failing)
    assert output.write("text\n") == 5
    output.flush()
    assert isinstance(output.error, OSError | ValueError)


def test_other_attributes_are_those_of_the_stream() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    output = Output(stream)
    assert (output.encoding, output.isatty(), output.buffer) == ("ascii", False, stream.buffer)
    assert output.write("± 1\n") == 7
    output.flush()
    assert output.error is None
    assert stream.buffer.getvalue() == b"\\xb1 1\n"


def test_a_run_goes_on_without_its_display(failing: TextIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", failing)
    run = smrl.train("ddpg", Ending, **SHORT, **SMALL, runs=tmp_path)
    assert run.record.steps.tolist() == [20, 40, 60]
    with Board(quiet=False) as board:
        board.notify("for nobody")


def test_a_run_goes_on_without_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "stdout", None)
    assert smrl.train("ddpg", Ending, **SHORT, **SMALL, runs=tmp_path).record.steps.tolist() == [20, 40, 60]


def test_closed_streams_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    guard_streams()
    assert [sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno()] == [0, 1, 2]
    print("to no user", file=sys.stderr, flush=True)


def test_a_list_that_cannot_be_printed(
    failing: TextIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader that leaves, as head does, is no mistake."""
    monkeypatch.setattr(sys, "stdout", failing)
    with pytest.raises(SystemExit) as stop:
        main(["list", "--tasks", "gym"])
    errors = capsys.readouterr().err
    has_left = failing.name != "/dev/full" and not failing.closed if hasattr(failing, "name") else False
    assert stop.value.code == (1 if has_left else 2)
    assert errors == "" if has_left else errors.startswith("smrl: cannot write to the standard output (")


@pytest.mark.slow
def test_a_train_command_whose_reader_leaves(tmp_path: Path) -> None:
    """As in `smrl train … 2>&1 | head -1`."""
    process = start("train", "ddpg", "Pendulum-v1", *FLAGS, *SIZES, "--steps", 400, "--runs", tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    read_until(process, "step 20 of 400")
    process.stderr.close()
    process.stdout.close()
    assert process.wait(60) == 0
    (config,) = tmp_path.rglob("config.json")
    assert smrl.load(config.parent).record.steps[-1] == 400
    assert smrl.load(config.parent).policy is not None, "it was saved"


@pytest.mark.slow
def test_a_sweep_whose_reader_leaves(tmp_path: Path) -> None:
    """Its workers are not ended."""
    file = written(tmp_path, 'algorithm = "ddpg"\nenv = "Pendulum-v1"\nreuse = 1\nseeds = 2\n')
    process = start("sweep", file, "--runs", tmp_path / "runs")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stderr.readline()
    process.stderr.close()
    process.stdout.close()
    assert process.wait(300) == 0
    assert len([*(tmp_path / "runs").rglob("checkpoint")]) == 2


@pytest.mark.slow
def test_a_hangup_saves_the_run(tmp_path: Path) -> None:
    """As when its terminal is closed."""
    words = ("train", "ddpg", "Pendulum-v1", *FLAGS, *SIZES, "--steps", 10**6, "--runs", tmp_path)
    process = start(*words, "--checkpoint-seconds", 1000)
    assert process.stdout is not None
    assert process.stderr is not None
    read_until(process, "step 20 of")
    process.stdout.close()
    process.stderr.close()
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 128 + signal.SIGHUP
    (config,) = tmp_path.rglob("config.json")
    assert smrl.load(config.parent).policy is not None


@pytest.mark.slow
def test_a_locale_without_utf8(tmp_path: Path) -> None:
    """Sources and logs are read as UTF-8; what ASCII lacks is printed escaped."""
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    file = written(tmp_path, 'algorithm = "ddpg"\nenv = "Pendulum-v1"\nreuse = 1\nseeds = 1\n')
    code, text, errors = command("sweep", file, "--runs", tmp_path / "größe", **environment)
    assert code == 0, errors
    assert "\\xb1" in text, "±"
    code, text, errors = command("report", tmp_path / "größe", "-o", tmp_path / "größe.html", **environment)
    assert code == 0, errors
    assert "Pendulum-v1" in (tmp_path / "größe.html").read_text(encoding="utf-8")
