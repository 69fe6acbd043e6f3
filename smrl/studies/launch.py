"""Train many runs at once with a launcher: start, watch and resume them, and collect their records."""

import contextlib
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from smrl import machine, runtime
from smrl.algorithms import registry
from smrl.envs.make import make
from smrl.errors import SmrlError, require
from smrl.runs import checkpoint, doctor
from smrl.runs.paths import RunDirectory
from smrl.runs.records import Record, read_run
from smrl.settings import RunOptions, Settings
from smrl.studies.launchers.local import Local
from smrl.studies.launchers.protocol import Job, JobResult, Launcher, RunRequest
from smrl.studies.sweep import titles
from smrl.training.estimate import core_seconds, plan
from smrl.training.progress import Board, in_time
from smrl.training.signals import Interrupted, SignalHandler

TIMED_STEPS = 20_000  # of all runs, from which on they are timed before they start


@dataclass(frozen=True)
class Outcome:
    """The records of several runs, and why some of them failed."""

    records: list[Record]
    failures: dict[str, str]  # title of the run → error message


def run_all(
    runs: Sequence[Settings[Any]],
    options: RunOptions,
    retries: int = 1,
    launcher: Launcher | None = None,
    lock_timeout: float = 0.0,
    is_announced: bool = True,
) -> Outcome:
    """Train several runs or resume them; refuse those that cannot run before any of them starts.

    Finished runs are skipped. A run whose worker dies, for example when memory runs out, is resumed up to ``retries``
    times. A run waits up to ``lock_timeout`` seconds for another process that has locked its folder and may be about to
    end. What the runs will do is shown at first, unless it ``is_announced`` already.
    """
    require(len(runs) > 0, "there is nothing to run.")
    refuse_unfit(runs)
    by_title = dict(zip(titles(runs), runs, strict=True))
    pending = {title: one for title, one in by_title.items() if not _is_finished(one, options)}
    # One thread per run, unless cores would be idle.
    chosen = launcher or Local(options.threads or max(1, machine.cores() // len(runs)))
    board = _RunsBoard(options.quiet, len(by_title), len(by_title) - len(pending))
    how = (options, retries, chosen, lock_timeout, board, is_announced)
    results = _train(pending, *how) if pending else {}
    records, failures = [], {}
    for title, settings in by_title.items():
        try:
            if (error := results.get(title, JobResult()).error) is not None:
                raise SmrlError(error)
            records.append(read_run(RunDirectory.of(settings, options).path))
        except SmrlError as failure:
            failures[title] = str(failure)
    return Outcome(records, failures)


def done_steps(directory: RunDirectory) -> int | None:
    """Return the step of a run's newest checkpoint: 0 before the first one, None if there is no run yet."""
    return (checkpoint.newest_step(directory.checkpoint) or 0) if directory.config.exists() else None


def refuse_unfit(runs: Sequence[Settings[Any]]) -> None:
    """Make every environment and algorithm once, so that errors appear here instead of in many processes."""
    specs = {}
    require(
        not any(settings.real_time for settings in runs),
        "runs in real time share one device, so they cannot be launched together: start each with smrl train.",
    )
    for settings in runs:
        task = (settings.env, *settings.env_options.values())
        if task not in specs:
            with contextlib.closing(make(settings.env, **settings.env_options)) as env:
                specs[task] = env.spec
        registry.find(settings.algorithm).make(settings.hyper, specs[task])


def _duration(due: Sequence[Settings[Any]], options: RunOptions, at_once: int) -> str:
    """Return how long runs take; nothing if they are short, because measuring it would take longer."""
    left = [one.steps - (done_steps(RunDirectory.of(one, options)) or 0) for one in due]
    if sum(left) < TIMED_STEPS:
        return ""
    runtime.start(1)
    with contextlib.suppress(SmrlError):  # the runs report it
        whole = core_seconds(due)
        seconds = sum(whole[index] * left[index] / one.steps for index, one in enumerate(due))
        return f", about {in_time(seconds / min(at_once, len(due)))} on this machine"
    return ""


def _is_finished(settings: Settings[Any], options: RunOptions) -> bool:
    """Return whether a run has made all of its steps; restore its tables if they are damaged."""
    directory = RunDirectory.of(settings, options)
    if (done_steps(directory) or 0) < settings.steps:
        return False
    with contextlib.suppress(SmrlError), directory.locked():
        doctor.restore_files(directory.path, lambda message: None)
        return True
    return False  # resuming the run will raise the error


class _RunsBoard(Board):
    """A board that counts runs and removes the bars of those that have ended, as there may be hundreds."""

    def __init__(self, quiet: bool, total: int, finished: int) -> None:
        super().__init__(quiet)
        self._total, self._ended = total, finished
        if finished:
            self.notify(f"finished already: {finished} of {total}")

    def end(self, title: str, error: str | None) -> None:
        """Report how a run has ended, and remove its bar."""
        self._ended += 1
        self._progresses.pop(title, None)
        for task in self._bars.tasks if self._bars else []:
            if self._bars and task.description == title:
                self._bars.remove_task(task.id)
        self.notify(f"{title}: {error or 'ended'} ({self._ended} of {self._total})")


def _train(
    pending: dict[str, Settings[Any]],
    options: RunOptions,
    retries: int,
    launcher: Launcher,
    lock_timeout: float,
    board: _RunsBoard,
    is_announced: bool,
) -> dict[str, JobResult]:
    """Start runs while the launcher has room, resume those whose workers die, and stop all on a signal."""
    progress = functools.cache(lambda title: board.progress(title, pending[title].steps))
    queue, retries_left = list(pending), dict.fromkeys(pending, retries)
    running: dict[str, Job] = {}
    results: dict[str, JobResult] = {}

    def pop_ended() -> dict[str, JobResult]:
        ended = {title: result for title, job in running.items() if (result := job.poll()) is not None}
        for title in ended:
            del running[title]
        return ended

    def resume_or_store(title: str, result: JobResult) -> None:
        if result.worker_died and retries_left[title] > 0:
            retries_left[title] -= 1
            board.notify(f"{title}: {(result.error or '').partition('; ')[0]}; resuming it.")
            queue.insert(0, title)
        else:
            results[title] = result
            board.end(title, result.error)

    with launcher, board:
        if not (is_announced or options.quiet):
            due = list(pending.values())
            board.inform(f"{plan(due)}{_duration(due, options, launcher.max_jobs)}")
        try:
            with SignalHandler(lambda _: board.notify(launcher.stop_message)) as interruption:
                while not interruption.is_noted() and (running or queue):
                    while queue and len(running) < launcher.max_jobs and not interruption.is_noted():
                        title = queue.pop(0)
                        request = RunRequest.of(pending[title], options, lock_timeout)
                        running[title] = launcher.start(request, partial(progress, title))
                    time.sleep(launcher.poll_seconds)
                    for title, result in pop_ended().items():
                        resume_or_store(title, result)
                for job in running.values():
                    job.stop()
                while running:
                    time.sleep(launcher.poll_seconds)
                    pop_ended()
        finally:
            for job in running.values():
                job.kill()
    if interruption.signal is not None:
        raise Interrupted(interruption.signal, launcher.exit_message)
    return results
