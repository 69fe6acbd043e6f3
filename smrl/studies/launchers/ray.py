"""Train with Ray: each run is a task of a cluster whose nodes share the folder of runs."""

import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smrl.errors import SmrlError
from smrl.plugins import in_words
from smrl.studies.launchers.protocol import JobResult, Launcher, RunRequest
from smrl.studies.launchers.remote import EvaluationWatcher, RemoteWorker
from smrl.training.progress import Progress

try:
    import ray
    from ray import exceptions
except ImportError:
    raise SmrlError('Ray is not installed; install it with pip install "smrl[ray]".') from None

CONNECT_SECONDS = 10.0  # time-out for reaching a cluster
CLIENT = "ray://"
HEAD_PORT = 6379
DEATHS = (  # errors that the run did not cause
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.LocalRayletDiedError,
    exceptions.OutOfMemoryError,
    exceptions.ObjectLostError,
)


def train_on_node(request: RunRequest, threads: int, folder: Path) -> JobResult:
    """Train a run in a new process on a node of the cluster; ``folder`` is where the sweep was started."""
    with contextlib.suppress(OSError):  # if the node has the folder, modules that the settings name are found there
        os.chdir(folder)
    worker = RemoteWorker(request, threads)
    try:
        return worker.wait()
    except KeyboardInterrupt:  # the task was cancelled; let the run save itself
        worker.stop()
        return worker.wait()
    finally:
        worker.kill()


class RayJob:
    """A task of Ray."""

    def __init__(self, reference: Any, watcher: EvaluationWatcher) -> None:
        self._reference, self._watcher = reference, watcher

    def poll(self) -> JobResult | None:
        self._watcher.report()
        try:
            if not ray.wait([self._reference], timeout=0)[0]:
                return None
            return ray.get(self._reference)
        except DEATHS as error:
            return JobResult(f"its worker or node died ({type(error).__name__})", worker_died=True)
        except exceptions.TaskCancelledError:
            return JobResult("cancelled before it began.")
        except exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            return JobResult(str(cause) if isinstance(cause, SmrlError) else in_words(cause))

    def stop(self) -> None:
        """Cancel the task; its run saves itself."""
        ray.cancel(self._reference)

    def kill(self) -> None:
        """Kill the worker; the process of the run notices that, saves the run and ends too."""
        ray.cancel(self._reference, force=True)


class RayLauncher(Launcher):
    """Launch on the Ray cluster at an address, or on one that is started here, with this number of cores per run."""

    poll_seconds = 0.5

    def __init__(self, address: str | None, threads: int) -> None:
        self._address, self._threads = address or os.environ.get("RAY_ADDRESS") or "local", threads
        self._train: Any = None

    def __enter__(self) -> "RayLauncher":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # leave the GPUs visible on the nodes
        _check_address(self._address)
        try:
            with warnings.catch_warnings():
                # Ray forks, which JAX warns about, but the children execute another program at once.
                warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
                ray.init(self._address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        except (OSError, RuntimeError, ValueError, AssertionError, exceptions.RayError) as error:
            raise SmrlError(f"Ray cannot be used at {self._address} ({in_words(error)}); see ray status.") from error
        self._train = ray.remote(num_cpus=self._threads, max_retries=0)(train_on_node)
        return self

    def __exit__(self, *error: object) -> None:
        ray.shutdown()

    def start(self, request: RunRequest, progress: Callable[[], Progress]) -> RayJob:
        reference = self._train.remote(request, self._threads, Path.cwd())
        return RayJob(reference, EvaluationWatcher(request.folder, progress))


def _check_address(address: str) -> None:
    """Raise an error if nothing answers at an address: Ray would try for minutes."""
    if address in ("local", "auto"):
        return
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    try:
        socket.create_connection((host or port, int(port) if host else HEAD_PORT), CONNECT_SECONDS).close()
    except ValueError:
        raise SmrlError(f"{address} is not an address of a Ray cluster; write HOST:PORT as in ray start.") from None
    except OSError as error:
        reason = error.strerror or "no answer"
        raise SmrlError(f"there is no Ray cluster at {address} ({reason}); start one with ray start --head.") from None
