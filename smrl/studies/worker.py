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
from smrl.runs.directory import RunDirectory
from smrl.runs.foreign import named_code
from smrl.runs.settings import from_json
from smrl.training.carry_out import carry_out
from smrl.training.interruption import Interrupted
from smrl.training.progress import SentMeter
from smrl.training.session import Session

SECONDS_TO_SAVE = 60.0
LOCK_SECONDS = 0.5  # between two looks at a lock


def work(task: str, descriptor: int) -> int:
    """Carry out a run; the exit code."""
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)  # a process that the environment starts must not hold it open
    threading.Thread(target=_end_with_launcher, args=(connection,), daemon=True).start()
    meter = SentMeter(connection)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # a cluster warns all processes of a job; the launcher answers for them
    given = json.loads(task)
    if named_code(given["settings"]):
        plugins.use_working_directory()
    try:
        settings = from_json(given["settings"])
        session = Session(**given["session"])
        wait_for_lock(RunDirectory.of(settings, session.runs), given["patience"])
        carry_out(settings, session, partial(make, settings.env), meter)
    except SmrlError as error:
        meter.fail(str(error))
        return 2
    except Interrupted as stop:
        meter.fail(str(stop))
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
