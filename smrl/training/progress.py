"""What a person sees of runs: bars in a terminal, plain lines elsewhere, nothing with --quiet."""

import contextlib
import io
import json
import socket
import threading
import time
from collections import deque
from types import TracebackType
from typing import Protocol

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

REFRESH_SECONDS = 0.2
SPEED_SECONDS = 10.0  # steps/s is the mean over this time


class Progress(Protocol):
    """Takes the news of one run."""

    def begin(self, step: int) -> None:
        """Training starts, or goes on, after this step."""

    def advance(self, step: int) -> None:
        """A step was made."""

    def evaluated(self, step: int, mean: float) -> None:
        """An evaluation was made."""

    def notify(self, message: str) -> None:
        """Something that a person should know."""


class Unfailing:
    """Passes news on to a meter until that fails: a terminal that is gone must not stop a run."""

    def __init__(self, progress: Progress) -> None:
        self._progress: Progress | None = progress

    def begin(self, step: int) -> None:
        """Pass on that training starts."""
        self._pass_on("begin", step)

    def advance(self, step: int) -> None:
        """Pass on the step."""
        self._pass_on("advance", step)

    def evaluated(self, step: int, mean: float) -> None:
        """Pass on the return."""
        self._pass_on("evaluated", step, mean)

    def notify(self, message: str) -> None:
        """Pass on a sentence."""
        self._pass_on("notify", message)

    def _pass_on(self, name: str, *news: int | float | str) -> None:
        try:
            if self._progress is not None:
                getattr(self._progress, name)(*news)
        except Exception:
            self._progress = None  # there is nobody left to tell


class Speed:
    """Steps per second over the last seconds.

    >>> speed = Speed(seconds=10)
    >>> [speed.at(step, now) for step, now in ((0, 0), (10, 1), (100, 10), (100, 20))]
    [0.0, 10.0, 10.0, 0.0]
    """

    def __init__(self, seconds: float = SPEED_SECONDS) -> None:
        self._seconds = seconds
        self._seen: deque[tuple[int, float]] = deque()

    def at(self, step: int, now: float) -> float:
        """The speed, now that this step is made."""
        self._seen.append((step, now))
        while len(self._seen) > 2 and now - self._seen[1][1] >= self._seconds:
            self._seen.popleft()
        first, began = self._seen[0]
        return (step - first) / (now - began) if now > began else 0.0

    def restart(self) -> None:
        """Forget what was seen."""
        self._seen.clear()


class ShownProgress:
    """A bar among others, or lines where there are no bars."""

    def __init__(self, console: Console, bars: Bars | None, title: str, total: int) -> None:
        self._console, self._bars, self._title, self._total = console, bars, title, total
        self._speed, self._speed_by_line = Speed(), Speed(seconds=0)  # the latter from one line to the next
        self._task: TaskID | None = None
        if bars:
            self._task = bars.add_task(title, total=total, value="–", speed="–")

    def begin(self, step: int) -> None:
        """Count the speed from here on."""
        self._speed.restart()
        self._speed_by_line.restart()
        self._speed_by_line.at(step, time.monotonic())
        self.advance(step)

    def advance(self, step: int) -> None:
        """Move the bar."""
        speed = _in_words(self._speed.at(step, time.monotonic()))
        if self._bars and self._task is not None:
            self._bars.update(self._task, completed=step, speed=speed)

    def evaluated(self, step: int, mean: float) -> None:
        """Show the return."""
        if self._bars and self._task is not None:
            speed = _in_words(self._speed.at(step, time.monotonic()))
            self._bars.update(self._task, completed=step, value=f"{mean:,.1f}", speed=speed)
        else:
            speed = _in_words(self._speed_by_line.at(step, time.monotonic()))
            self.notify(f"step {step:,} of {self._total:,}, return {mean:,.1f}, {speed} steps/s")

    def notify(self, message: str) -> None:
        """Print a sentence."""
        self._console.print(Text(f"{self._title}: {message}"))


def _in_words(speed: float) -> str:
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.1f}"


class Board:
    """Shows the meters of one or more runs while it is entered."""

    def __init__(self, quiet: bool, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        stream = self._console.file
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # as Python's own stderr, where … is not in the encoding
        self._bars: Bars | None = None
        if self._console.is_terminal and not quiet:
            self._bars = Bars(
                TitleColumn(),
                BarColumn(bar_width=8),
                TextColumn("{task.completed:,} steps, {task.fields[speed]}/s"),
                TextColumn("return {task.fields[value]}"),
                TimeRemainingColumn(table_column=Column(no_wrap=True)),
                console=self._console,
            )

    def __enter__(self) -> "Board":
        if self._bars:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()

    def progress(self, title: str, total: int) -> Progress:
        """A meter for another run."""
        return ShownProgress(self._console, self._bars, title, total)

    def notify(self, message: str) -> None:
        """Print a sentence that concerns all runs."""
        self._console.print(Text(message))


class TitleColumn(ProgressColumn):
    """The titles of the runs; where they do not fit, their ends stay, as a title ends in what tells it apart."""

    def __init__(self) -> None:
        super().__init__(Column(ratio=1))

    def render(self, task: Task) -> "Title":
        """The title of one run."""
        return Title(task.description)


class Title:
    """A text that is shortened in its middle to the room that it is given."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(len(self.text), 8), len(self.text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(shortened(self.text, options.max_width), style="bold", no_wrap=True)


def shortened(text: str, width: int) -> str:
    """The text with … in place of as much of its middle as must go.

    >>> shortened("SAC, reuse 10, Hopper-v4, seed 0", 20)
    'SAC, reuse…4, seed 0'
    """
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


class SentProgress:
    """Sends the news as lines of JSON to the process that shows them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._lock = connection, threading.Lock()

    def begin(self, step: int) -> None:
        """Send that training starts."""
        self._send("begin", step)

    def advance(self, step: int) -> None:
        """Send the step."""
        self._send("advance", step)

    def evaluated(self, step: int, mean: float) -> None:
        """Send the return."""
        self._send("evaluated", step, mean)

    def notify(self, message: str) -> None:
        """Send a sentence."""
        self._send("notify", message)

    def fail(self, message: str) -> None:
        """Send why the run ends early."""
        self._send("fail", message)

    def _send(self, name: str, *news: int | float | str) -> None:
        line = json.dumps([name, *news]).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):  # nobody listens any more: the run goes on until it is stopped
            self._connection.sendall(line)
