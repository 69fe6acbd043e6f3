"""Many runs at once: a process each, as many as the machine has cores."""

import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from smrl import runtime
from smrl.errors import SmrlError
from smrl.experiment import Experiment
from smrl.interruption import Interrupted, Interruption
from smrl.progress import Board, Meter, receive
from smrl.report.records import Record, read_run
from smrl.rundir import RunDirectory
from smrl.session import Session

POLL_SECONDS = 0.1


class Worker:
    """One run in a process of its own."""

    def __init__(self, experiment: Experiment[Any], session: Session, width: int, meter: Meter) -> None:
        task = {
            "experiment": experiment.to_json(),
            "session": dataclasses.asdict(session) | {"runs": str(session.runs)},
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "smrl.experiments.worker", json.dumps(task)],
            env=os.environ | {runtime.THREADS: str(width)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the launcher only, which asks the runs to save themselves
        )
        self.errors = ""
        self._readers = [
            threading.Thread(target=self._show, args=(meter,)),
            threading.Thread(target=self._read_errors),
        ]
        for reader in self._readers:
            reader.start()

    def wait(self) -> int:
        """The exit code, once all that the process said is read."""
        for reader in self._readers:
            reader.join()
        with self.process:  # closes its pipes
            return self.process.wait()

    def _show(self, meter: Meter) -> None:
        for line in self.process.stdout or ():
            receive(line, meter)

    def _read_errors(self) -> None:
        self.errors = (self.process.stderr.read() if self.process.stderr else "").strip()


def run_all(experiments: Sequence[Experiment[Any]], session: Session) -> list[Record]:
    """Train all experiments, or continue them, and read their records."""
    cores = runtime.cores()
    width = session.threads or max(1, cores // len(experiments))  # one thread each, unless cores would lie idle
    waiting, running, failures = list(experiments), list[Worker](), list[str]()
    with Interruption() as interruption, Board(session.quiet) as board:
        while (waiting or running) and interruption.signal is None:
            while waiting and len(running) < max(1, cores // width):
                experiment = waiting.pop(0)
                meter = board.meter(experiment.title, experiment.steps)
                running.append(Worker(experiment, session, width, meter))
            time.sleep(POLL_SECONDS)
            for worker in [worker for worker in running if worker.process.poll() is not None]:
                running.remove(worker)
                if worker.wait() != 0:
                    failures.append(worker.errors)
        for worker in running:
            worker.process.terminate()
        for worker in running:
            worker.wait()
    if interruption.signal is not None:
        sentence = "stopped; every run is saved, and the same command continues them."
        raise Interrupted(interruption.signal, sentence)
    if failures:
        raise SmrlError(f"{len(failures)} of {len(experiments)} runs failed; the first says: {failures[0]}")
    return [read_run(RunDirectory.of(experiment, session.runs).path) for experiment in experiments]
