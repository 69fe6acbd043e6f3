"""Ctrl-C, SIGTERM and SIGHUP set a flag, so that a run can finish its step and save itself."""

import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar

STOP_MESSAGE = "stopping after the current step, then saving; Ctrl-C again stops at once, without saving."
GRACE_SECONDS = 0.2
HANGUP = getattr(signal, "SIGHUP", None)  # not on Windows


class SignalHandler:
    """Context manager that notes the first signal and answers it with a message; a second Ctrl-C interrupts at once.

    Python runs signal handlers between two of its instructions, which may take long while XLA compiles, and only once
    for several signals that arrived meanwhile. So a thread reads the bytes that the system writes when signals arrive:
    it shows the message, and makes sure that a second Ctrl-C is not lost.

    A process that is forked meanwhile, for example by an environment, gets back the handlers of before: it is not the
    one that saves the run. A SIGHUP that is ignored, as with nohup, stays ignored.
    """

    _entered: ClassVar[list["SignalHandler"]] = []

    def __init__(self, notify: Callable[[str], None]) -> None:
        self.signal: int | None = None
        self._notify = notify
        self._before: dict[int, Any] = {}
        self._is_second = False  # whether Ctrl-C was pressed twice
        self._is_settled = threading.Event()  # the second Ctrl-C has interrupted, or there is nothing to interrupt

    @property
    def name(self) -> str:
        """The name of the signal that arrived."""
        return signal.Signals(self.signal or 0).name

    def is_noted(self) -> bool:
        """Return whether a signal arrived."""
        return self.signal is not None

    def check_interrupt(self) -> None:
        """Raise `Interrupted` if a signal arrived; to be called while there is nothing to save."""
        if self.signal is not None:
            message = f"stopped by {self.name} before it had continued; the same command continues it."
            raise Interrupted(self.signal, message)

    def __enter__(self) -> "SignalHandler":
        if threading.current_thread() is threading.main_thread():
            self._receiver, self._sender = socket.socketpair()
            self._sender.setblocking(False)
            self._wakeup_before = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
            self._watcher = threading.Thread(target=self._watch, daemon=True)
            self._watcher.start()
            self._entered.append(self)  # before the handlers, so that no child is forked with them
            is_kept = HANGUP is None or signal.getsignal(HANGUP) == signal.SIG_IGN
            for number in (signal.SIGINT, signal.SIGTERM, *(() if is_kept else (HANGUP,))):
                self._before[number] = signal.signal(number, self._note) or signal.SIG_DFL
        return self

    def __exit__(self, *error: object) -> None:
        if not self._before:
            return
        self._is_settled.set()
        self._restore()
        self._entered.remove(self)
        self._sender.shutdown(socket.SHUT_RDWR)  # ends the watcher, also if a child still holds the socket
        self._watcher.join()
        self._sender.close()
        self._receiver.close()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)

    @classmethod
    def reset_in_child(cls) -> None:
        """Restore the handlers of before in a process that was just forked."""
        for handler in reversed(cls._entered):
            handler._restore()
            handler._sender.close()  # or its signals would reach the parent
            handler._receiver.close()
        cls._entered.clear()

    def _watch(self) -> None:
        arrived: list[int] = []
        while numbers := self._receiver.recv(1):
            arrived += [number for number in numbers if number in self._before]
            if len(arrived) == 1:
                self._notify(STOP_MESSAGE)
            if arrived.count(signal.SIGINT) == 2 and not self._is_second:
                self._is_second = True
                if not self._is_settled.wait(GRACE_SECONDS) and hasattr(signal, "pthread_kill"):
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and (self.signal == number or self._is_second):
            self._is_settled.set()
            raise KeyboardInterrupt
        self.signal = number


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=SignalHandler.reset_in_child)


class Interrupted(KeyboardInterrupt):
    """Raised when a run was stopped by a signal and has been saved."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + number
