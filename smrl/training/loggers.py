"""Loggers of a run's values: TensorBoard event files and, if asked for, Weights & Biases.

A logger never stops a run: one that fails is dropped with a warning.
"""

import contextlib
import os
import socket
import struct
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from smrl.errors import SmrlError
from smrl.plugins import in_words
from smrl.runs.paths import TENSORBOARD

CONNECT_SECONDS = 2.0
FINISH_SECONDS = 60.0  # time for W&B to send its remaining data when a run ends

EVENTS = "events.out.tfevents"  # TensorBoard finds its files by this name
VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # Protocol Buffers' types of a field
SESSION_START = 1
CASTAGNOLI = 0x82F63B78  # polynomial of CRC-32C


class Logger(Protocol):
    """A destination for values by name."""

    name: str

    def write(self, step: int, values: dict[str, float]) -> None:
        """Log the values of a step."""

    def close(self) -> None:
        """Write out what is still buffered."""


class Loggers:
    """The loggers of a run; one that fails is dropped."""

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        continue_at: int,
        wandb_project: str | None,
        notify: Callable[[str], None],
    ) -> None:
        self._notify = notify
        self.loggers: list[Logger] = []
        with self._dropped_on_failure(TensorBoard):
            self.loggers.append(TensorBoard(folder / TENSORBOARD, continue_at))
        if wandb_project:
            with self._dropped_on_failure(WandB):
                self.loggers.append(WandB(folder, config, wandb_project, notify))

    def write(self, group: str, step: int, values: dict[str, float]) -> None:
        """Log the values of a step under ``group/name``."""
        named = {f"{group}/{name}": value for name, value in values.items()}
        for logger in list(self.loggers):
            with self._dropped_on_failure(logger):
                logger.write(step, named)

    def close(self) -> None:
        """Close all loggers."""
        for logger in self.loggers:
            with self._dropped_on_failure(logger):
                logger.close()
        self.loggers = []

    @contextlib.contextmanager
    def _dropped_on_failure(self, logger: Logger | type[Logger]) -> Iterator[None]:
        try:
            yield
        except SmrlError:
            raise  # the user asked for a logger that is not installed, and nothing is trained yet
        except Exception as error:
            self.loggers = [other for other in self.loggers if other is not logger]
            self._notify(f"{logger.name} fails with {in_words(error)}; the run goes on without it.")


class WandB:
    """A run of Weights & Biases."""

    name = "Weights & Biases"

    def __init__(self, folder: Path, config: dict[str, Any], project: str, notify: Callable[[str], None]) -> None:
        """Begin a run; offline if the server cannot be reached, where W&B itself would wait for 90 seconds."""
        try:
            import wandb
        except ImportError:
            raise SmrlError('Weights & Biases is not installed; pip install "smrl[wandb]" adds it.') from None
        name = "-".join(folder.parts[-3:])
        obstacle = None if os.environ.get("WANDB_MODE") else _connection_problem(wandb)
        if obstacle:
            notify(f"Weights & Biases is offline: {obstacle}; send the run later with wandb sync {folder / 'wandb'}/*.")
        # A continued run is a new run of the same group, because W&B cannot delete the points after the checkpoint.
        self._run = wandb.init(
            project=project,
            name=name,
            group=name,
            dir=folder,
            config=config,
            settings=wandb.Settings(silent=True, finish_timeout=FINISH_SECONDS),
            mode="offline" if obstacle else None,
        )
        self._run.define_metric("*", step_metric="step")

    def write(self, step: int, values: dict[str, float]) -> None:
        self._run.log(values | {"step": step})

    def close(self) -> None:
        self._run.finish()


def _connection_problem(wandb: Any) -> str | None:
    """Return why nothing can be sent to W&B now, or None."""
    if not wandb.login(prompt=False, verify=False):
        return "nobody is logged in; use wandb login"
    url = str(wandb.Settings().base_url)
    address = urlsplit(urllib.request.getproxies().get(urlsplit(url).scheme) or url)
    is_reached = threading.Event()

    def connect() -> None:
        port = address.port or (80 if address.scheme == "http" else 443)
        with contextlib.suppress(OSError), socket.create_connection((address.hostname or "", port), CONNECT_SECONDS):
            is_reached.set()

    threading.Thread(target=connect, daemon=True).start()  # in a thread, because a DNS look-up has no time limit
    if is_reached.wait(CONNECT_SECONDS):
        return None
    return f"{address.hostname} does not answer within {CONNECT_SECONDS:g} s"


class TensorBoard:
    """An event file of TensorBoard, written without its packages, which may import PyTorch.

    An event is a Protocol Buffers message: fields, each with a number and a type before its bytes. A record of the file
    is a length and an event, each followed by a checksum. Records are written in the caller's thread, so that every
    failure reaches the caller.
    """

    name = "TensorBoard"

    def __init__(self, folder: Path, continue_at: int) -> None:
        """Begin a file; TensorBoard hides the points of earlier files after ``continue_at``."""
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files in the order of their names, so the number must grow even if the clock steps back.
        taken = [int(number) for file in folder.glob(f"{EVENTS}.*") if (number := file.name.split(".")[3]).isdigit()]
        self.path = folder / f"{EVENTS}.{max([int(time.time()), *(number + 1 for number in taken)]):010d}.smrl"
        self._append(_field(3, BYTES, b"brain.Event:2"))
        start = _field(7, BYTES, _field(1, VARINT, _varint(SESSION_START)))
        self._append(_field(2, VARINT, _varint(continue_at)) + start)

    def write(self, step: int, values: dict[str, float]) -> None:
        points = b"".join(
            _field(1, BYTES, _field(1, BYTES, name.encode()) + _field(2, FLOAT, struct.pack("<f", value)))
            for name, value in values.items()
        )
        self._append(_field(2, VARINT, _varint(step)) + _field(5, BYTES, points))

    def close(self) -> None:
        """Do nothing: nothing is buffered."""

    def _append(self, event: bytes) -> None:
        body = _field(1, DOUBLE, struct.pack("<d", time.time())) + event
        length = struct.pack("<Q", len(body))
        with self.path.open("ab") as file:
            file.write(length + _masked_checksum(length) + body + _masked_checksum(body))


def _field(number: int, kind: int, content: bytes) -> bytes:
    return bytes([number << 3 | kind]) + (_varint(len(content)) if kind == BYTES else b"") + content


def _varint(number: int) -> bytes:
    """Encode a number with seven bits per byte, the lowest first; the eighth bit marks that more follow."""
    low = []
    while number > 127:
        low.append(number & 127 | 128)
        number >>= 7
    return bytes([*low, number])


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (CASTAGNOLI if byte & 1 else 0)
    return byte


REMAINDERS = tuple(map(_remainder, range(256)))


def _masked_checksum(content: bytes) -> bytes:
    """Return the CRC-32C, masked as event files require."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = REMAINDERS[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
