"""Checkpoints in the background: the run goes on while another thread writes one."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from smrl.memory.replay import Replay, Rows
from smrl.runs import checkpoint
from smrl.runs.checkpoint import Saved

CHUNK = 10_000  # rows that are copied at a time


class Frozen:
    """A replay memory as it was at one moment, for a thread that reads it while rows are added.

    Rows below `settled` never change but by the ring, whose newest rows take the place of the oldest. So the rows that
    are about to be overwritten are set aside first (`keep`), and the reader takes them from there; it needs no lock.
    """

    def __init__(self, replay: Replay) -> None:
        self.capacity, self.added, self.row_bytes = replay.capacity, replay.added, replay.row_bytes
        self.oldest, self.settled = replay.oldest, replay.settled
        self._replay = replay
        self._tail = replay.rows(replay.settled, replay.added)
        self._aside: dict[int, Rows] = {}
        self._kept = self.oldest  # rows from `oldest` to here are set aside

    def keep(self, count: int) -> None:
        """Set the rows aside that the next ``count`` ones will overwrite; the adding thread calls it before it adds."""
        stop = min(self._replay.added + count - self.capacity, self.settled)
        for row in range(self._kept, stop):
            self._aside[row] = self._replay.rows(row, row + 1)
        self._kept = max(self._kept, stop)  # last, for the reader takes rows below it from `_aside`

    def rows(self, start: int, stop: int) -> Rows:
        """What `Replay.rows` would have answered at that moment; called by the reading thread."""
        if start >= self.settled:
            return self._tail
        begin = max(start, self.oldest)
        return _joined([self._chunk(first, min(first + CHUNK, stop)) for first in range(begin, stop, CHUNK)])

    def _chunk(self, start: int, stop: int) -> Rows:
        while True:
            try:
                copied = self._replay.rows(min(max(self._kept, start), stop), stop)
            except KeyError:  # a row was overwritten between the copy of its fields and that of its successor
                continue
            kept = min(max(self._kept, start), stop)  # read after the copy: what was overwritten meanwhile lies below
            return _joined([*(self._aside[row] for row in range(start, kept)), _from(copied, kept, stop)])


class Writer:
    """Writes the checkpoints of a run, at most one at a time."""

    def __init__(self, folder: Path, replay: Replay) -> None:
        self.folder, self.replay = folder, replay
        self._thread: threading.Thread | None = None
        self._frozen: Frozen | None = None
        self._error: BaseException | None = None

    def save(self, saved: Saved, before: Callable[[], None]) -> None:
        """Write a checkpoint after doing what must come ``before`` it, and wait until both are on the disk."""
        self._finish()
        before()
        checkpoint.save(self.folder, saved, self.replay)

    def begin(self, saved: Saved, before: Callable[[], None]) -> None:
        """As `save`, but in another thread; the arrays must be copies. What goes wrong is raised by the next call."""
        self._finish()
        frozen = self._frozen = Frozen(self.replay)

        def write() -> None:
            try:
                before()
                checkpoint.save(self.folder, saved, frozen)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=write, name="checkpoint")
        self._thread.start()

    def is_busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def keep(self, count: int) -> None:
        """Note that ``count`` rows are about to be added."""
        if self._frozen is not None and self.is_busy():
            self._frozen.keep(count)

    def close(self) -> None:
        """Wait for the checkpoint that is being written."""
        if self._thread is not None:
            self._thread.join()
        self._thread = self._frozen = None

    def _finish(self) -> None:
        self.close()
        if self._error is not None:
            error, self._error = self._error, None
            raise error


def _joined(parts: list[Rows]) -> Rows:
    """Consecutive rows as one."""
    if len(parts) == 1:
        return parts[0]
    successors = [part["successors"] for part in parts if len(part["successors"])] or [parts[0]["successors"]]
    joined = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0].keys() - {"start", "successors"}
    }
    joined |= {"start": parts[0]["start"], "successors": np.concatenate(successors)}
    return {name: joined[name] for name in parts[0]}  # in the same order, for the same bytes in a file


def _from(rows: Rows, start: int, stop: int) -> Rows:
    """The rows up to ``stop`` without those before ``start``."""
    surplus, apart = len(rows["reward"]) - (stop - start), rows["successor_rows"] >= start
    parts = {"successor_rows": rows["successor_rows"][apart], "successors": rows["successors"][apart]}
    parts["start"] = np.array(start)
    return {name: parts[name] if name in parts else values[surplus:] for name, values in rows.items()}
