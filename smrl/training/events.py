"""Event files of TensorBoard, written without its packages, which may load PyTorch before the first step.

An event is a message of Protocol Buffers: fields, each a number and a type before its bytes. A record of the file is a
length and an event, each followed by a checksum.
"""

import struct
import time
from pathlib import Path

EVENTS = "events.out.tfevents"  # TensorBoard finds its files by this name
VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # types of a field
SESSION_START = 1
CASTAGNOLI = 0x82F63B78


class EventFile:
    """An event file, written in the caller's thread, so that the caller learns of every failure."""

    name = "TensorBoard"

    def __init__(self, folder: Path, continue_at: int) -> None:
        """Begin a file; TensorBoard hides what earlier ones say of steps after ``continue_at``."""
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files in the order of their names, so a clock that steps back must not decide it.
        taken = [int(file.name.split(".")[3]) for file in folder.glob(f"{EVENTS}.*") if _has_number(file)]
        self.path = folder / f"{EVENTS}.{max([int(time.time()), *(number + 1 for number in taken)]):010d}.smrl"
        self._append(_field(3, BYTES, b"brain.Event:2"))
        self._append(_field(2, VARINT, _varint(continue_at)) + _message(7, _field(1, VARINT, _varint(SESSION_START))))

    def write(self, step: int, values: dict[str, float]) -> None:
        """Add a point to the curve of each value."""
        points = b"".join(
            _message(1, _field(1, BYTES, name.encode()) + _field(2, FLOAT, struct.pack("<f", value)))
            for name, value in values.items()
        )
        self._append(_field(2, VARINT, _varint(step)) + _message(5, points))

    def close(self) -> None:
        """Nothing is held back."""

    def _append(self, event: bytes) -> None:
        body = _field(1, DOUBLE, struct.pack("<d", time.time())) + event
        length = struct.pack("<Q", len(body))
        with self.path.open("ab") as file:
            file.write(length + _checksum(length) + body + _checksum(body))


def _has_number(file: Path) -> bool:
    return len(parts := file.name.split(".")) > 3 and parts[3].isdigit()


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    low = []
    while number > 127:
        low.append(number & 127 | 128)
        number >>= 7
    return bytes([*low, number])


def _field(number: int, kind: int, content: bytes) -> bytes:
    return bytes([number << 3 | kind]) + (_varint(len(content)) if kind == BYTES else b"") + content


def _message(number: int, content: bytes) -> bytes:
    return _field(number, BYTES, content)


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (CASTAGNOLI if byte & 1 else 0)
    return byte


REMAINDERS = tuple(map(_remainder, range(256)))


def _checksum(content: bytes) -> bytes:
    """CRC-32C, masked as event files have it."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = REMAINDERS[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
