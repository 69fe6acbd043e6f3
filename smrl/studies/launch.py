"""Many runs at once, wherever a launcher trains them: start, watch, continue, tell how they ended."""

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from smrl import machine
from smrl.algorithms import registry
from smrl.envs.make import make
from smrl.errors import SmrlError, require
from smrl.runs import checkpoint, doctor
from smrl.runs.paths import RunDirectory
from smrl.runs.records import Record, read_run
from smrl.settings import RunOptions, Settings
from smrl.studies.launchers.local import Local
from smrl.studies.launchers.protocol import Ending, Job, Launcher, Task
from smrl.studies.overview import Overview
from smrl.studies.sweep import titles
from smrl.training.progress import Progress
from smrl.training.signals import Interrupted, SignalHandler


@dataclass(frozen=True)
class Outcome:
    """What came of several runs."""

    records: list[Record]
    failures: dict[str, str]  # title of the run → what went wrong, in one sentence


def run_all(
    several: Sequence[Settings[Any]],
    options: RunOptions,
    retries: int = 1,
    launcher: Launcher | None = None,
    patience: float = 0.0,
) -> Outcome:
    """Train several runs, or continue them; what cannot run is refused before any of them starts.

    Finished runs are skipped. A run whose worker dies, as for want of memory, is continued up to ``retries`` times. A
    run whose folder another process has locked waits ``patience`` seconds for it, which may be about to end.
    """
    require(len(several) > 0, "there is nothing to run.")
    refuse_unfit(several)
    by_title = dict(zip(titles(several), several, strict=True))
    due = {title: one for title, one in by_title.items() if not _is_finished(one, options)}
    # One thread each, unless cores would lie idle.
    chosen = launcher or Local(options.threads or max(1, machine.cores() // len(several)))
    board = Overview(options.quiet, len(by_title), len(by_title) - len(due))
    endings = _Batch(due, options, retries, chosen, patience).train(board) if due else {}
    records, failures = [], {}
    for title, settings in by_title.items():
        try:
            if (failure := endings.get(title, Ending()).failure) is not None:
                raise SmrlError(failure)
            records.append(read_run(RunDirectory.of(settings, options.runs).path))
        except SmrlError as error:
            failures[title] = str(error)
    return Outcome(records, failures)


def done_steps(directory: RunDirectory) -> int | None:
    """The step of a run's newest checkpoint: 0 before the first one, None where there is no run yet."""
    return (checkpoint.newest_step(directory.checkpoint) or 0) if directory.config.exists() else None


class _Batch:
    """Runs in flight."""

    def __init__(
        self,
        due: dict[str, Settings[Any]],
        options: RunOptions,
        retries: int,
        launcher: Launcher,
        patience: float,
    ) -> None:
        self._due, self._session, self._launcher, self._patience = due, options, launcher, patience
        self._waiting, self._left = list(due), dict.fromkeys(due, retries)
        self._running: dict[str, Job] = {}
        self._endings: dict[str, Ending] = {}

    def train(self, board: Overview) -> dict[str, Ending]:
        """Train all; how each of the runs ended."""
        progress = functools.cache(lambda title: board.progress(title, self._due[title].steps))
        with self._launcher, board:
            try:
                with SignalHandler(lambda _: board.notify(self._launcher.stopping)) as interruption:
                    while not interruption.is_noted() and (self._running or self._waiting):
                        self._start(progress, interruption.is_noted)
                        time.sleep(self._launcher.poll_seconds)
                        self._gather(board)
                    for job in self._running.values():
                        job.stop()
                    while self._running:
                        time.sleep(self._launcher.poll_seconds)
                        self._running = {title: job for title, job in self._running.items() if job.ending() is None}
            finally:
                for job in self._running.values():
                    job.kill()
        if interruption.signal is not None:
            raise Interrupted(interruption.signal, self._launcher.parting)
        return self._endings

    def _start(self, progress: Callable[[str], Progress], is_stopped: Callable[[], bool]) -> None:
        while self._waiting and len(self._running) < self._launcher.places and not is_stopped():
            title = self._waiting.pop(0)
            task = Task.of(self._due[title], self._session, self._patience)
            self._running[title] = self._launcher.start(task, partial(progress, title))

    def _gather(self, board: Overview) -> None:
        """Take note of the runs that have ended; those whose workers have died wait again, before all others."""
        for title, job in list(self._running.items()):
            ending = job.ending()
            if ending is None:
                continue
            del self._running[title]
            if ending.is_death and self._left[title] > 0:
                self._left[title] -= 1
                board.notify(f"{title}: {(ending.failure or '').partition('; ')[0]}; it is continued.")
                self._waiting.insert(0, title)
            else:
                self._endings[title] = ending
                board.end(title, ending.failure)


def _is_finished(settings: Settings[Any], options: RunOptions) -> bool:
    """Whether a run has made all of its steps; its tables are then made whole, as when it is continued."""
    directory = RunDirectory.of(settings, options.runs)
    if (done_steps(directory) or 0) < settings.steps:
        return False
    with contextlib.suppress(SmrlError), directory.locked():
        doctor.restore_files(directory.path, lambda message: None)
        return True
    return False  # what is wrong is said where the run is continued


def refuse_unfit(several: Sequence[Settings[Any]]) -> None:
    """Make every environment and algorithm once, here, and not in as many processes."""
    specs = {}
    for settings in several:
        task = (settings.env, *settings.env_options.values())
        if task not in specs:
            with contextlib.closing(make(settings.env, **settings.env_options)) as env:
                specs[task] = env.spec
        registry.find(settings.algorithm).make(settings.hyper, specs[task])
