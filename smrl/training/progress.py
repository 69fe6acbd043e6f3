"""The display of runs: bars in a terminal, plain lines elsewhere, nothing with --quiet, and logging in a library."""

import contextlib
import json
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

from smrl.output import unfailing

LOGGER = logging.getLogger("smrl")
Show = Callable[[int, str], None]  # level of logging, message
REFRESH_SECONDS = 0.2
SPEED_SECONDS = 10.0  # steps/s of a bar is the mean over this time
BURST_SECONDS = 1.0  # steps/s of a line is the mean since the last one before these; two lines may arrive together
FEW_STEPS = 10  # fewer between two lines mean that the run still compiles, so no time left is shown
LINE_SECONDS, POLL_SECONDS = 9.5, 0.5  # without bars: between two lines of a run, and between two looks at it


class Progress:
    """Receives the events of one run; a subclass overrides `forward`, or the methods of the events that it shows."""

    def begin(self, step: int) -> None:
        """Training starts, or continues, after this step."""
        self.forward("begin", step)

    def advance(self, step: int) -> None:
        """This step is done."""
        self.forward("advance", step)

    def evaluated(self, step: int, mean: float) -> None:
        """An evaluation at this step had this mean return."""
        self.forward("evaluated", step, mean)

    def notify(self, message: str) -> None:
        """There is something that a person should know."""
        self.forward("notify", message)

    def inform(self, message: str) -> None:
        """This is what the run does, which nobody needs to know."""
        self.forward("inform", message)

    def planned(self, message: str) -> None:
        """This is what the run will do, and how long it takes."""
        self.forward("planned", message)

    def forward(self, event: str, *arguments: int | float | str) -> None:
        """Receive any event, by the name of its method; by default it is ignored."""


class Unfailing(Progress):
    """Passes events on to another progress until that fails: a closed terminal must not stop a run."""

    def __init__(self, progress: Progress) -> None:
        self._progress: Progress | None = progress

    def forward(self, event: str, *arguments: int | float | str) -> None:
        try:
            if self._progress is not None:
                getattr(self._progress, event)(*arguments)
        except Exception:
            self._progress = None  # nobody is left to be told


class SentProgress(Progress):
    """Sends events as lines of JSON to the process that shows them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._lock = connection, threading.Lock()

    def planned(self, message: str) -> None:
        """Send nothing: the command that has started the run shows the plan of all its runs."""

    def fail(self, message: str) -> None:
        """Send why the run ends early."""
        self.forward("fail", message)

    def forward(self, event: str, *arguments: int | float | str) -> None:
        line = json.dumps([event, *arguments]).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):  # without a listener the run continues until it is stopped
            self._connection.sendall(line)


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
        """Add a step and return the speed."""
        self._seen.append((step, now))
        while len(self._seen) > 2 and now - self._seen[1][1] >= self._seconds:
            self._seen.popleft()
        first, began = self._seen[0]
        return (step - first) / (now - began) if now > began else 0.0

    def restart(self) -> None:
        """Forget all steps."""
        self._seen.clear()


class ShownProgress(Progress):
    """A progress bar among others, or lines where there are no bars."""

    def __init__(self, show: Show, bars: Bars | None, title: str, total: int) -> None:
        self._show, self._bars, self._title, self._total = show, bars, title, total
        self._speed = Speed(SPEED_SECONDS if bars else BURST_SECONDS)
        self._task = bars.add_task(title, total=total, value="–", speed="–") if bars else TaskID(0)
        self._step: int | None = None  # None before the run has begun
        self._last = (0, 0.0)  # step and time of the last line

    def begin(self, step: int) -> None:
        self._speed.restart()
        self._update(step)
        self._note_line(step)

    def advance(self, step: int) -> None:
        self._step = step
        if self._bars:
            self._update(step)

    def show_line(self) -> None:
        """Show the step in a line, if there was none for some seconds; another thread calls it."""
        step, (before, since), now = self._step, self._last, time.monotonic()
        if step is not None and now - since >= LINE_SECONDS:
            self._last = (step, now)
            if step == before:  # it compiles, evaluates, or waits for a slow environment
                return self.inform(f"still at step {step:,} of {self._total:,}")
            speed = (step - before) / (now - since)
            left = f", {in_time((self._total - step) / speed)} left" if step - before >= FEW_STEPS else ""
            self.inform(f"step {step:,} of {self._total:,}, {speed:,.1f} steps/s{left}")
        return None

    def evaluated(self, step: int, mean: float) -> None:
        speed = self._update(step, value=f"{mean:z,.1f}")
        self._note_line(step)
        if not self._bars:
            self.inform(f"step {step:,} of {self._total:,}, return {mean:z,.1f}, {speed} steps/s")

    def notify(self, message: str) -> None:
        self._show(logging.WARNING, f"{self._title}: {message}")

    def inform(self, message: str) -> None:
        self._show(logging.INFO, f"{self._title}: {message}")

    planned = inform

    def _note_line(self, step: int) -> None:
        if not self._bars:
            self._step, self._last = step, (step, time.monotonic())

    def _update(self, step: int, **fields: Any) -> str:
        """Move the bar, if there is one, and return the speed."""
        measured = self._speed.at(step, time.monotonic())
        speed = f"{measured:,.0f}" if measured >= 10 else f"{measured:.1f}"
        if self._bars:
            self._bars.update(self._task, completed=step, speed=speed, **fields)
        return speed


class Board:
    """Context manager that shows the progress of one or more runs."""

    def __init__(self, quiet: bool, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self._console.file = unfailing(self._console.file)
        columns = (
            TitleColumn(),
            BarColumn(bar_width=8),
            TextColumn("{task.completed:,} steps, {task.fields[speed]}/s"),
            TextColumn("return {task.fields[value]}"),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
        )
        self._bars = Bars(*columns, console=self._console) if self._console.is_terminal and not quiet else None
        self._progresses: dict[str, ShownProgress] = {}  # of the runs in progress, by title
        self._is_over = threading.Event()

    def __enter__(self) -> "Board":
        if self._bars:
            self._bars.start()
        else:
            threading.Thread(target=self._show_lines, name="progress", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        if self._bars:
            self._bars.stop()

    def progress(self, title: str, total: int) -> Progress:
        """Return the progress for another run."""
        self._progresses[title] = ShownProgress(self._show, self._bars, title, total)
        return self._progresses[title]

    def inform(self, message: str) -> None:
        """Show what all runs do."""
        self._show(logging.INFO, message)

    def _show_lines(self) -> None:
        """Show a line of every run now and then, also while it compiles or evaluates."""
        while not self._is_over.wait(POLL_SECONDS):
            for progress in list(self._progresses.values()):
                progress.show_line()

    def notify(self, message: str) -> None:
        """Show a message that concerns all runs."""
        self._show(logging.WARNING, message)

    def _show(self, level: int, message: str) -> None:
        self._console.print(Text(message))


class LoggingBoard(Board):
    """A board for library use, whose messages go through the logger smrl.

    If that is not configured, the board handles its records and shows them as any board does.
    """

    def __init__(self, quiet: bool) -> None:
        self._is_configured = _is_configured()
        super().__init__(quiet or self._is_configured)
        self._is_quiet, self._handler = quiet, _Handler(super()._show)

    def __enter__(self) -> "LoggingBoard":
        if not self._is_configured:
            self._level, self._propagate = LOGGER.level, LOGGER.propagate
            LOGGER.addHandler(self._handler)
            LOGGER.setLevel(logging.INFO)
            LOGGER.propagate = False  # or handlers of the root logger would show warnings twice
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if not self._is_configured:
            LOGGER.removeHandler(self._handler)
            LOGGER.setLevel(self._level)
            LOGGER.propagate = self._propagate

    def _show(self, level: int, message: str) -> None:
        if not self._is_quiet:
            LOGGER.log(level, "%s", message)


class _Handler(logging.Handler):
    """Shows records with a function."""

    def __init__(self, show: Show) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(record.levelno, record.getMessage())


def _is_configured() -> bool:
    """Return whether the program handles smrl's messages itself.

    Handlers of the root logger count only if they get everything: libraries add them by warning of something.
    """
    return (
        bool(LOGGER.handlers)
        or LOGGER.level != logging.NOTSET
        or (LOGGER.hasHandlers() and LOGGER.isEnabledFor(logging.INFO))
    )


class TitleColumn(ProgressColumn):
    """The titles of the runs; a long one keeps its end, which distinguishes it from the others."""

    def __init__(self) -> None:
        super().__init__(Column(ratio=1))

    def render(self, task: Task) -> "Title":
        return Title(task.description)


class Title:
    """A text that is shortened in its middle to the width that it is given."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(len(self.text), 8), len(self.text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(shortened(self.text, options.max_width), style="bold", no_wrap=True)


def in_time(seconds: float) -> str:
    """Return a duration in words.

    >>> in_time(9_600), in_time(700), in_time(42.4), in_time(400_000)
    ('2 h 40 min', '12 min', '42 s', '4 d 15 h')
    """
    for large, small, names in ((86_400, 3_600, "d h"), (3_600, 60, "h min")):
        if seconds >= large:
            many, few = divmod(round(seconds / small), large // small)
            return " ".join(f"{count} {name}" for count, name in zip((many, few), names.split(), strict=True) if count)
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(seconds, 1):.0f} s"


def shortened(text: str, width: int) -> str:
    """Replace as much of the middle of the text by … as the width requires.

    >>> shortened("SAC, reuse 10, Hopper-v4, seed 0", 20)
    'SAC, reuse…4, seed 0'
    """
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"
