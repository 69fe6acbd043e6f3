"""Train one run of many in a separate process: `python -m smrl.studies.worker REQUEST DESCRIPTOR`.

The request is JSON. The descriptor is the socket over which events go to the launcher. It closes when the launcher ends
for any reason; then the run saves itself and ends too.
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

from smrl import output, plugins
from smrl.envs.make import make
from smrl.errors import SmrlError
from smrl.runs.paths import RunDirectory
from smrl.runs.trust import custom_code
from smrl.settings import RunOptions, from_json
from smrl.training.progress import SentProgress
from smrl.training.run_training import run_training
from smrl.training.signals import Interrupted

SECONDS_TO_SAVE = 60.0
LOCK_POLL_SECONDS = 0.5


def work(request: str, descriptor: int) -> int:
    """Train a run and return the exit code."""
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)  # or a process that the environment starts would hold it open
    threading.Thread(target=_end_with_launcher, args=(connection,), daemon=True).start()
    progress = SentProgress(connection)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # a cluster signals all processes of a job; the launcher handles it
    given = json.loads(request)
    if custom_code(given["settings"]):
        plugins.use_working_directory()
    try:
        settings = from_json(given["settings"])
        options = RunOptions(**given["options"])
        wait_for_lock(RunDirectory.of(settings, options), given["lock_timeout"])
        run_training(settings, options, partial(make, settings.env), progress)
    except SmrlError as error:
        progress.fail(str(error))
        return 2
    except Interrupted as stop:
        progress.fail(str(stop))
        return stop.exit_code
    return 0


def wait_for_lock(directory: RunDirectory, seconds: float) -> None:
    """Wait for the end of another process that trains this run, such as one on a node that is presumed dead.

    The lock of a node without power expires when the server of the shared folder releases it, on NFS after 90 s.
    """
    end = time.monotonic() + seconds
    while directory.config.exists() and time.monotonic() < end:
        with contextlib.suppress(SmrlError), directory.locked():
            return
        time.sleep(LOCK_POLL_SECONDS)


def _end_with_launcher(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionResetError):  # the launcher ended with events unread
        connection.recv(1)  # the launcher sends nothing: this returns when its end is closed
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SECONDS_TO_SAVE)
    os._exit(128 + signal.SIGTERM)  # the environment hangs; the last checkpoint is intact


if __name__ == "__main__":
    output.guard_streams()  # a full disk must not end a run through output.log
    sys.exit(work(sys.argv[1], int(sys.argv[2])))
