"""Ray: each run is a task of a cluster, and its folder is one that all nodes share."""

import contextlib
import logging
import os
import socket
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from smrl.errors import SmrlError
from smrl.plugins import in_words
from smrl.studies.launchers.protocol import Ending, Task
from smrl.studies.launchers.remote import News, attend, begin
from smrl.training.progress import Progress
from smrl.training.signals import STOP_MESSAGE

try:
    import ray
    from ray import exceptions
except ImportError:
    raise SmrlError('Ray is not installed; install it with pip install "smrl[ray]".') from None

SECONDS = 10.0  # to reach a cluster
CLIENT = "ray://"
HEAD_PORT = 6379
DEATHS = (  # the run is not to blame
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.LocalRayletDiedError,
    exceptions.OutOfMemoryError,
    exceptions.ObjectLostError,
)


def run_task(task: Task, width: int, folder: Path) -> Ending:
    """Train a run in a process of its own on a node of the cluster; ``folder`` is where the sweep was started."""
    with contextlib.suppress(OSError):  # modules that the settings name are found there, if the node has it
        os.chdir(folder)
    worker = begin(task, width)
    try:
        return attend(worker)
    except KeyboardInterrupt:  # cancelled: the run saves itself first
        worker.stop()
        return attend(worker)
    finally:
        worker.kill()


class RayJob:
    """A task of Ray's."""

    def __init__(self, reference: Any, news: News) -> None:
        self._reference, self._news = reference, news

    def ending(self) -> Ending | None:
        """Pass on the news; how the task ended, or None while it is queued or runs."""
        self._news.tell()
        try:
            if not ray.wait([self._reference], timeout=0)[0]:
                return None
            return ray.get(self._reference)
        except DEATHS as error:
            return Ending(f"its worker or node died ({type(error).__name__})", is_death=True)
        except exceptions.TaskCancelledError:
            return Ending("cancelled before it began.")
        except exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            return Ending(str(cause) if isinstance(cause, SmrlError) else in_words(cause))

    def stop(self) -> None:
        """Cancel the task, whose run saves itself."""
        ray.cancel(self._reference)

    def kill(self) -> None:
        """End the worker at once; its process notices that, saves the run and ends too."""
        ray.cancel(self._reference, force=True)


class Ray:
    """A Ray cluster by its address, or one that is started here; every task has ``width`` cores."""

    places = sys.maxsize  # Ray has a queue
    poll_seconds = 0.5
    stopping = STOP_MESSAGE
    parting = "stopped; every run is saved, and the same command continues them."

    def __init__(self, address: str | None, width: int) -> None:
        self._address, self._width = address or os.environ.get("RAY_ADDRESS") or "local", width
        self._train: Any = None

    def __enter__(self) -> "Ray":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # leave the choice of GPUs to the nodes
        _refuse_dead(self._address)
        try:
            with warnings.catch_warnings():
                # The processes of Ray are forked, which JAX warns of; each of them becomes another program at once.
                warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
                ray.init(self._address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        except (OSError, RuntimeError, ValueError, AssertionError, exceptions.RayError) as error:
            raise SmrlError(f"Ray cannot be used at {self._address} ({in_words(error)}); see ray status.") from error
        self._train = ray.remote(num_cpus=self._width, max_retries=0)(run_task)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ray.shutdown()

    def start(self, task: Task, progress: Callable[[], Progress]) -> RayJob:
        """Queue a run."""
        absolute = Task(task.folder.absolute(), task.text)
        return RayJob(self._train.remote(absolute, self._width, Path.cwd()), News(task.folder, progress))


def _refuse_dead(address: str) -> None:
    """Refuse an address at which nobody answers: Ray would try for minutes."""
    if address in ("local", "auto"):
        return
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    try:
        socket.create_connection((host or port, int(port) if host else HEAD_PORT), SECONDS).close()
    except ValueError:
        raise SmrlError(f"{address} is no address of a Ray cluster; write HOST:PORT, as ray start prints it.") from None
    except OSError as error:
        reason = error.strerror or "no answer"
        raise SmrlError(f"there is no Ray cluster at {address} ({reason}); start one with ray start --head.") from None
