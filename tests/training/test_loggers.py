"""Loggers of a run's values: what they write, and that they never stop a run."""

import errno
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import masked_crc32c

from smrl.training import loggers as module
from smrl.training.loggers import Loggers, TensorBoard


def events(file: Path) -> list[Event]:
    """What an event file holds; every record is its length, a checksum, the event, a checksum."""
    found, content = [], file.read_bytes()
    while content:
        length, first_sum = struct.unpack("<QI", content[:12])
        body, (second_sum,) = content[12 : 12 + length], struct.unpack("<I", content[12 + length : 16 + length])
        assert (first_sum, second_sum) == (masked_crc32c(content[:8]), masked_crc32c(body))
        found.append(Event.FromString(body))
        content = content[16 + length :]
    return found


def files(folder: Path) -> list[Path]:
    return sorted((folder / "tensorboard").iterdir())


def open_loggers(folder: Path, messages: list[str], step: int = 0) -> Loggers:
    return Loggers(folder, {}, step, None, messages.append)


def test_values_are_in_the_event_file_before_it_is_closed(tmp_path: Path) -> None:
    """Also before it is closed, so that TensorBoard shows what a run that is killed had reached."""
    loggers = open_loggers(tmp_path, [], step=40)
    loggers.write("evaluation", 2**40, {"mean": 1.5, "sd": float("nan")})
    first, start, point = events(files(tmp_path)[0])
    assert first.file_version == "brain.Event:2"
    assert (start.step, start.session_log.status) == (40, SessionLog.START)
    assert point.step == 2**40
    assert {value.tag: str(value.simple_value) for value in point.summary.value} == {
        "evaluation/mean": "1.5",
        "evaluation/sd": "nan",
    }
    loggers.close()


def test_event_files_stay_in_order_if_the_clock_steps_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard reads the files in the order of their names, and a new one must not overwrite another."""
    for number, now in enumerate((2e9, 2e9, 1e9)):
        monkeypatch.setattr(module, "time", type("Clock", (), {"time": staticmethod(lambda now=now: now)}))
        loggers = open_loggers(tmp_path, [], step=number)
        loggers.write("training", number + 1, {"loss": 0.0})
        loggers.close()
    assert [events(file)[1].step for file in files(tmp_path)] == [0, 1, 2]


def test_a_full_disk_drops_tensorboard_with_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    loggers = open_loggers(tmp_path, messages)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(TensorBoard, "_append", full)
    for step in range(5):
        loggers.write("training", step, {"loss": 0.0})
    loggers.close()
    (message,) = messages
    assert message.startswith("TensorBoard ")
    assert "No space left on device" in message
    assert "goes on without it" in message


def test_a_folder_that_cannot_be_made_drops_tensorboard(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("a file")
    messages: list[str] = []
    loggers = open_loggers(tmp_path, messages)
    loggers.write("training", 1, {"loss": 0.0})
    loggers.close()
    assert len(messages) == 1


class Third:
    """Fails at the third write, and at closing."""

    name = "Third"

    def __init__(self) -> None:
        self.written: list[int] = []

    def write(self, step: int, values: dict[str, float]) -> None:
        self.written.append(step)
        if len(self.written) == 3:
            raise ConnectionError("lost\nagain")

    def close(self) -> None:
        raise ValueError("not closed")


def test_only_the_logger_that_fails_is_dropped(tmp_path: Path) -> None:
    messages: list[str] = []
    loggers, third = open_loggers(tmp_path, messages), Third()
    loggers.loggers.insert(0, third)
    for step in range(6):
        loggers.write("training", step, {"loss": 0.0})
    loggers.close()
    assert third.written == [0, 1, 2]
    assert len(messages) == 1
    assert [event.step for event in events(files(tmp_path)[0])[2:]] == list(range(6))


def test_a_failure_to_close_a_logger_is_reported(tmp_path: Path) -> None:
    messages: list[str] = []
    loggers = open_loggers(tmp_path, messages)
    loggers.loggers.append(Third())
    loggers.close()
    assert "not closed" in messages[0]


def test_event_files_are_written_without_a_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    open_loggers(tmp_path, []).write("training", 1, {"loss": time.time()})
    assert threading.active_count() == before


class FakeWandb(ModuleType):
    """As much of wandb as smrl uses, without login, network or files."""

    def __init__(self, url: str, is_logged_in: bool) -> None:
        super().__init__("wandb")
        self.url, self.is_logged_in = url, is_logged_in
        self.given: dict[str, Any] = {}

    def login(self, prompt: bool, verify: bool) -> bool:
        assert not prompt, "nobody is asked"
        assert not verify, "no network is waited for"
        return self.is_logged_in

    def Settings(self, **given: Any) -> SimpleNamespace:
        return SimpleNamespace(base_url=self.url, **given)

    def init(self, **given: Any) -> Any:
        self.given = given
        return SimpleNamespace(define_metric=lambda *_, **__: None, log=lambda _: None, finish=lambda: None)


def start_wandb(folder: Path, patch: pytest.MonkeyPatch, url: str, is_logged_in: bool) -> tuple[str | None, list[str]]:
    for name in ("WANDB_MODE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        patch.delenv(name, raising=False)
    fake, messages = FakeWandb(url, is_logged_in), list[str]()
    patch.setitem(sys.modules, "wandb", fake)
    Loggers(folder, {}, 0, "project", messages.append).close()
    return fake.given["mode"], messages


def test_wandb_is_offline_without_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mode, messages = start_wandb(tmp_path, monkeypatch, "http://127.0.0.1:1", is_logged_in=False)
    assert mode == "offline"
    assert "nobody is logged in; use wandb login" in messages[0]


def test_wandb_is_offline_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.1)
    mode, messages = start_wandb(tmp_path, monkeypatch, "http://127.0.0.1:1", is_logged_in=True)
    assert mode == "offline"
    assert "127.0.0.1 does not answer" in messages[0]


def test_wandb_is_online_if_it_can_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        mode, messages = start_wandb(tmp_path, monkeypatch, url, is_logged_in=True)
    assert mode is None
    assert not messages
