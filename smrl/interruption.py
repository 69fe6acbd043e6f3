"""Ctrl-C and SIGTERM become a flag, so that a run can finish its step and save itself."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interruption:
    """While entered, the first signal is only noted; a second Ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal == signal.SIGINT == number:
            raise KeyboardInterrupt
        self.signal = number


class Interrupted(KeyboardInterrupt):
    """A run was stopped by a signal and has saved itself."""

    def __init__(self, number: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = 128 + number
