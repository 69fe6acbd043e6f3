"""One run of many, in a process of its own: `python -m smrl.studies.worker TASK DESCRIPTOR`.

The task is JSON. The descriptor is the socket over which news go to the launcher; it is closed when the launcher ends,
however it ends, and then the run saves itself and ends too.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from functools import partial

from smrl import plugins
from smrl.envs.make import make
from smrl.errors import SmrlError
from smrl.runs.paths import RunDirectory
from smrl.runs.trust import named_code
from smrl.settings import RunOptions, from_json
from smrl.training.progress import SentProgress
from smrl.training.run_training import run_training
from smrl.training.signals import Interrupted

SECONDS_TO_SAVE = 60.0
LOCK_SECONDS = 0.5  # between two looks at a lock


def work(task: str, descriptor: int) -> int:
    """Carry out a run; the exit code."""
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)  # a process that the environment starts must not hold it open
    threading.Thread(target=_end_with_launcher, args=(connection,), daemon=True).start()
    progress = SentProgress(connection)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # a cluster warns all processes of a job; the launcher answers for them
    given = json.loads(task)
    if named_code(given["settings"]):
        plugins.use_working_directory()
    try:
        settings = from_json(given["settings"])
        options = RunOptions(**given["session"])
        wait_for_lock(RunDirectory.of(settings, options.runs), given["patience"])
        run_training(settings, options, partial(make, settings.env), progress)
    except SmrlError as error:
        progress.fail(str(error))
        return 2
    except Interrupted as stop:
        progress.fail(str(stop))
        return stop.exit_code
    return 0


def wait_for_lock(directory: RunDirectory, seconds: float) -> None:
    """Wait for the process that trains this run to end, as on a node that is taken for dead but is still saving.

    The lock of a node that has lost its power is void when the server of a shared folder says so, on NFS after 90 s.
    """
    end = time.monotonic() + seconds
    while directory.config.exists() and time.monotonic() < end:
        with contextlib.suppress(SmrlError), directory.locked():
            return
        time.sleep(LOCK_SECONDS)


def _end_with_launcher(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionResetError):  # where the launcher ends with news unread
        connection.recv(1)  # nothing is ever sent this way: it returns when the launcher's end is closed
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SECONDS_TO_SAVE)
    os._exit(128 + signal.SIGTERM)  # the environment hangs; the last checkpoint is whole


if __name__ == "__main__":
    sys.exit(work(sys.argv[1], int(sys.argv[2])))
