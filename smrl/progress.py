"""What a person sees of runs: bars in a terminal, plain lines elsewhere, nothing if asked."""

import json
import sys
import time
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

REFRESH_SECONDS = 0.2


class Meter(Protocol):
    """Takes the news of one run."""

    def begin(self, step: int) -> None:
        """Training starts, or goes on, after this step."""

    def advance(self, step: int) -> None:
        """A step was made."""

    def evaluated(self, step: int, mean: float) -> None:
        """An evaluation was made."""

    def say(self, sentence: str) -> None:
        """Something that a person should know."""


class ShownMeter:
    """A bar among others, or lines where there are no bars."""

    def __init__(self, console: Console, bars: Progress | None, title: str, total: int) -> None:
        self._console, self._bars, self._title, self._total = console, bars, title, total
        self._first, self._began = 0, time.monotonic()
        self._task: TaskID | None = None
        if bars:
            self._task = bars.add_task(title, total=total, value="–", speed="–")

    def begin(self, step: int) -> None:
        """Count the speed from here on."""
        self._first, self._began = step, time.monotonic()
        self.advance(step)

    def advance(self, step: int) -> None:
        """Move the bar."""
        if self._bars and self._task is not None:
            self._bars.update(self._task, completed=step, speed=self._speed(step))

    def evaluated(self, step: int, mean: float) -> None:
        """Show the return."""
        if self._bars and self._task is not None:
            self._bars.update(self._task, completed=step, value=f"{mean:,.1f}", speed=self._speed(step))
        else:
            self.say(f"step {step:,} of {self._total:,}, return {mean:,.1f}, {self._speed(step)} steps/s")

    def say(self, sentence: str) -> None:
        """Print a sentence."""
        self._console.print(f"{self._title}: {sentence}")

    def _speed(self, step: int) -> str:
        return f"{(step - self._first) / max(time.monotonic() - self._began, 1e-9):.0f}"


class Board:
    """Shows the meters of one or more runs while it is entered."""

    def __init__(self, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self._bars: Progress | None = None
        if self._console.is_terminal and not quiet:
            self._bars = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("return {task.fields[value]}"),
                TextColumn("{task.fields[speed]} steps/s"),
                TimeRemainingColumn(),
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

    def meter(self, title: str, total: int) -> Meter:
        """A meter for another run."""
        return ShownMeter(self._console, self._bars, title, total)


class SentMeter:
    """Sends the news as lines of JSON to the process that shows them."""

    def begin(self, step: int) -> None:
        """Send it."""
        self._send("begin", step)

    def advance(self, step: int) -> None:
        """Send it."""
        self._send("advance", step)

    def evaluated(self, step: int, mean: float) -> None:
        """Send it."""
        self._send("evaluated", step, mean)

    def say(self, sentence: str) -> None:
        """Send it."""
        self._send("say", sentence)

    def _send(self, name: str, *news: int | float | str) -> None:
        json.dump([name, *news], sys.stdout)
        print(flush=True)


def receive(line: str, meter: Meter) -> None:
    """Pass on what a `SentMeter` sent."""
    name, *news = json.loads(line)
    getattr(meter, name)(*news)
