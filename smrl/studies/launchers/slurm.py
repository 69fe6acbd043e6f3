"""Train with Slurm through submitit: each run is a job, which is queued again at its time limit and then resumes."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smrl.errors import SmrlError
from smrl.plugins import in_words
from smrl.runs.atomic import writing
from smrl.studies.launchers.protocol import JobResult, Launcher, RunRequest
from smrl.studies.launchers.remote import EvaluationWatcher, RemoteWorker
from smrl.training.progress import Progress
from smrl.validation import Count, convert

try:
    import submitit
    from submitit.core.utils import FailedJobError, FailedSubmissionError, UncompletedJobError
except ImportError:
    raise SmrlError('Slurm needs submitit; install it with pip install "smrl[slurm]".') from None

DEFAULT_MINUTES = 240  # time limit of a job without `time` in [slurm]; short jobs wait less in a queue
MAX_TIMEOUTS = 1000  # how often a job may reach its time limit
JOB_FILE = "slurm_job"  # a file in the run's folder with the id of the job that trains it


class Training:
    """The function of a job. submitit pickles it, and calls ``checkpoint`` before Slurm ends the job."""

    def __init__(self, request: RunRequest, threads: int) -> None:
        self._request, self._threads = request, threads
        self._worker: RemoteWorker | None = None

    def __call__(self) -> JobResult:
        self._worker = RemoteWorker(self._request, self._threads)
        try:
            return self._worker.wait()
        finally:
            self._worker.kill()

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Let the run save itself; return the job to queue next."""
        if self._worker is not None:
            self._worker.stop()
            self._worker.wait()
        return submitit.helpers.DelayedSubmission(Training(self._request, self._threads))


class SlurmJob:
    """A job of Slurm, queued or running."""

    def __init__(self, job: submitit.Job[JobResult], watcher: EvaluationWatcher) -> None:
        self._job, self._watcher = job, watcher
        self._is_detached = False

    def poll(self) -> JobResult | None:
        self._watcher.report()
        if self._is_detached:
            return JobResult("left to Slurm.")
        if not self._job.done():
            return None
        try:
            return self._job.result()
        except FailedJobError:  # the job itself has raised an exception
            return JobResult(f"Slurm job {self._job.job_id} failed; the reason is in {self._job.paths.stderr}.")
        except UncompletedJobError:
            state = self._job.state
            message = f"Slurm job {self._job.job_id} ended as {state}; its output is in {self._job.paths.stderr}."
            return JobResult(message, worker_died=not state.startswith("CANCELLED"))

    def stop(self) -> None:
        """Leave the job to Slurm, where it continues."""
        self._is_detached = True

    def kill(self) -> None:
        """Do nothing, because the job continues in Slurm."""


class SlurmLauncher(Launcher):
    """Launch on the cluster of this login node; ``options`` are those of sbatch, by submitit's names."""

    poll_seconds = 2.0
    stop_message = "leaving the jobs to Slurm."
    exit_message = "left; the jobs continue in Slurm, and the same command shows them. scancel --name smrl ends them."

    def __init__(self, runs: Path, threads: int, options: Mapping[str, Any], cluster: str = "slurm") -> None:
        self._files, self._threads, self._cluster = runs.absolute() / ".slurm", threads, cluster
        minutes = convert("time of [slurm], in minutes,", options.get("time", DEFAULT_MINUTES), Count)
        self._options = {f"slurm_{name}": value for name, value in options.items()} | {"slurm_time": minutes}
        self._executor: submitit.AutoExecutor | None = None

    def __enter__(self) -> "SlurmLauncher":
        try:
            with writing(self._files):
                executor = submitit.AutoExecutor(
                    self._files / "%j", cluster=self._cluster, slurm_max_num_timeout=MAX_TIMEOUTS
                )
        except RuntimeError:
            raise SmrlError(
                "there is no Slurm here: srun was not found; start the command on a login node of the cluster."
            ) from None
        try:
            executor.update_parameters(
                name="smrl", timeout_min=self._options["slurm_time"], cpus_per_task=self._threads, **self._options
            )
        except (NameError, ValueError, TypeError, AssertionError) as error:
            raise SmrlError(f"[slurm] in the file has an option that sbatch does not know: {in_words(error)}") from None
        self._executor = executor
        return self

    def start(self, request: RunRequest, progress: Callable[[], Progress]) -> SlurmJob:
        """Queue a run, unless a job of an earlier command trains it."""
        assert self._executor is not None, "the launcher was not entered"
        file, watcher = request.folder / JOB_FILE, EvaluationWatcher(request.folder, progress)
        if file.exists() and _is_queued(number := file.read_text()):
            return SlurmJob(submitit.SlurmJob(self._files / "%j", number), watcher)
        try:
            job = self._executor.submit(Training(request, self._threads))
        except (OSError, FailedJobError, FailedSubmissionError) as error:
            raise SmrlError(f"Slurm refused a job ({in_words(error)}); correct [slurm] in the file.") from None
        if self._cluster == "slurm":
            with writing(file):
                request.folder.mkdir(parents=True, exist_ok=True)
                file.write_text(job.job_id)
        return SlurmJob(job, watcher)


def _is_queued(number: str) -> bool:
    """Return whether a job is queued or running."""
    answer = subprocess.run(["squeue", "--noheader", "--jobs", number], capture_output=True, text=True, check=False)
    return bool(answer.stdout.strip())
