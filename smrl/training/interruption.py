"""Ctrl-C and SIGTERM become a flag, so that a run can finish its step and save itself."""

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

SENTENCE = "stopping after the present step, then saving; Ctrl-C again stops at once, without saving."


class Interruption:
    """While entered, the first signal is only noted and answered by a sentence; a second Ctrl-C interrupts at once.

    Python runs signal handlers between two of its instructions, which may be long in coming while XLA compiles. The
    sentence is said sooner, by a thread that waits for the byte which the system writes when a signal arrives.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.signal: int | None = None
        self._say = say
        self._before: dict[int, Any] = {}

    @property
    def name(self) -> str:
        """The name of the signal that came."""
        return signal.Signals(self.signal or 0).name

    def is_noted(self) -> bool:
        """Whether a signal came."""
        return self.signal is not None

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            self._receiver, self._sender = socket.socketpair()
            self._sender.setblocking(False)
            self._wakeup_before = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
            self._watcher = threading.Thread(target=self._watch, daemon=True)
            self._watcher.start()
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._before:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._sender.close()  # ends the watcher
        self._watcher.join()
        self._receiver.close()

    def _watch(self) -> None:
        while numbers := self._receiver.recv(1):
            if numbers[0] in (signal.SIGINT, signal.SIGTERM) and self._say:
                self._say(SENTENCE)
                self._say = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal == signal.SIGINT == number:
            raise KeyboardInterrupt
        self.signal = number


class Interrupted(KeyboardInterrupt):
    """A run was stopped by a signal and has saved itself."""

    def __init__(self, number: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = 128 + number
