"""Slurm, by submitit: each run is a job, which is queued again at its time limit and then continues."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from smrl.errors import SmrlError
from smrl.plugins import in_words
from smrl.runs.atomic import writing
from smrl.studies.launchers.local import Worker
from smrl.studies.launchers.protocol import Ending, Task
from smrl.studies.launchers.remote import News, attend, begin
from smrl.training.progress import Progress
from smrl.validation import Count, convert

try:
    import submitit
    from submitit.core.utils import FailedJobError, FailedSubmissionError, UncompletedJobError
except ImportError:
    raise SmrlError('Slurm needs submitit; install it with pip install "smrl[slurm]".') from None

MINUTES = 240  # of a job, unless [slurm] says time; short jobs wait less in a queue
TIMEOUTS = 1000  # times that a job may reach its limit
JOB = "slurm_job"  # a file in the run's folder: the number of the job that trains it


class Training:
    """What a job does; submitit stores it, and asks it to save itself before the job is ended."""

    def __init__(self, task: Task, width: int) -> None:
        self._task, self._width = task, width
        self._worker: Worker | None = None

    def __call__(self) -> Ending:
        """Start a process that trains the run, and wait for it."""
        self._worker = begin(self._task, self._width)
        try:
            return attend(self._worker)
        finally:
            self._worker.kill()

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Let the run save itself; what the job does when it comes to its turn again."""
        if self._worker is not None:
            self._worker.stop()
            attend(self._worker)
        return submitit.helpers.DelayedSubmission(Training(self._task, self._width))


class SlurmJob:
    """A job of Slurm's, queued or running."""

    def __init__(self, job: submitit.Job[Ending], news: News) -> None:
        self._job, self._news = job, news
        self._is_left = False

    def ending(self) -> Ending | None:
        """Pass on the news; how the job ended, or None while it is queued or runs."""
        self._news.tell()
        if self._is_left:
            return Ending("left to Slurm.")
        if not self._job.done():
            return None
        try:
            return self._job.result()
        except FailedJobError:  # the job itself has raised something
            return Ending(f"Slurm's job {self._job.job_id} failed; the reason is in {self._job.paths.stderr}.")
        except UncompletedJobError:
            state = self._job.state
            message = (
                f"Slurm's job {self._job.job_id} ended as {state}; what it printed is in {self._job.paths.stderr}."
            )
            return Ending(message, is_death=not state.startswith("CANCELLED"))

    def stop(self) -> None:
        """Leave the job to Slurm, where it goes on."""
        self._is_left = True

    def kill(self) -> None:
        """Nothing: the job goes on."""


class Slurm:
    """The cluster on whose login node this runs; ``options`` are those of sbatch, by submitit's names."""

    places = sys.maxsize  # Slurm has a queue
    poll_seconds = 2.0
    stopping = "leaving the jobs to Slurm."
    parting = "left; the jobs go on in Slurm, and the same command shows them again. scancel --name smrl ends them."

    def __init__(self, runs: Path, width: int, options: Mapping[str, Any], cluster: str = "slurm") -> None:
        self._files, self._width, self._cluster = runs.absolute() / ".slurm", width, cluster
        minutes = convert("time of [slurm], in minutes,", options.get("time", MINUTES), Count)
        self._options = {f"slurm_{name}": value for name, value in options.items()} | {"slurm_time": minutes}
        self._executor: submitit.AutoExecutor | None = None

    def __enter__(self) -> "Slurm":
        try:
            with writing(self._files):
                executor = submitit.AutoExecutor(
                    self._files / "%j", cluster=self._cluster, slurm_max_num_timeout=TIMEOUTS
                )
        except RuntimeError:
            raise SmrlError(
                "there is no Slurm here, as srun is not found; start the command on a login node of the cluster."
            ) from None
        try:
            executor.update_parameters(
                name="smrl", timeout_min=self._options["slurm_time"], cpus_per_task=self._width, **self._options
            )
        except (NameError, ValueError, TypeError, AssertionError) as error:
            raise SmrlError(f"[slurm] of the sweep's file has an option that sbatch lacks: {in_words(error)}") from None
        self._executor = executor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def start(self, task: Task, progress: Callable[[], Progress]) -> SlurmJob:
        """Queue a run, unless a job of an earlier command has it."""
        assert self._executor is not None, "the launcher was not entered"
        file, news = task.folder / JOB, News(task.folder, progress)
        if file.exists() and _is_queued(number := file.read_text()):
            return SlurmJob(submitit.SlurmJob(self._files / "%j", number), news)
        try:
            job = self._executor.submit(Training(Task(task.folder.absolute(), task.text), self._width))
        except (OSError, FailedJobError, FailedSubmissionError) as error:
            raise SmrlError(f"Slurm refused a job ({in_words(error)}); correct [slurm] in the sweep's file.") from None
        if self._cluster == "slurm":
            with writing(file):
                task.folder.mkdir(parents=True, exist_ok=True)
                file.write_text(job.job_id)
        return SlurmJob(job, news)


def _is_queued(number: str) -> bool:
    """Whether Slurm knows of a job that waits or runs."""
    answer = subprocess.run(["squeue", "--noheader", "--jobs", number], capture_output=True, text=True, check=False)
    return bool(answer.stdout.strip())
