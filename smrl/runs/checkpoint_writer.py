"""Write checkpoints in a background thread while the run goes on."""

import threading
from collections.abc import Callable
from pathlib import Path

from smrl.memory.replay import Replay, Snapshot
from smrl.runs import checkpoint
from smrl.runs.checkpoint import Saved


class Writer:
    """Writes the checkpoints of a run, at most one at a time."""

    def __init__(self, folder: Path, replay: Replay) -> None:
        self.folder, self.replay = folder, replay
        self._thread: threading.Thread | None = None
        self._snapshot: Snapshot | None = None
        self._error: BaseException | None = None

    def save(self, saved: Saved, before: Callable[[], None]) -> None:
        """Call ``before``, write a checkpoint, and wait until both are on the disk."""
        self._finish()
        before()
        checkpoint.save(self.folder, saved, self.replay)

    def begin(self, saved: Saved, before: Callable[[], None]) -> None:
        """Do as `save` does, but in another thread; the arrays must be copies. The next call raises its errors."""
        self._finish()
        snapshot = self._snapshot = Snapshot(self.replay)

        def write() -> None:
            try:
                before()
                checkpoint.save(self.folder, saved, snapshot)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=write, name="checkpoint")
        self._thread.start()

    def is_busy(self) -> bool:
        """Return whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def keep(self, count: int) -> None:
        """Prepare for ``count`` rows that are about to be added."""
        if self._snapshot is not None and self.is_busy():
            self._snapshot.keep(count)

    def close(self) -> None:
        """Wait for the checkpoint that is being written."""
        if self._thread is not None:
            self._thread.join()
        self._thread = self._snapshot = None

    def _finish(self) -> None:
        self.close()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
