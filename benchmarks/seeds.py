"""Runs side by side: `python -m benchmarks.seeds CORE` trains for as many seconds as each line of its input says."""

import os
import subprocess
import sys
import time
from typing import IO

from benchmarks.harness import patience
from smrl import machine, runtime

REUSE, SECONDS = 10, 4.0


def steps_per_second(turns: int) -> tuple[list[float], list[float]]:
    """Measure one run alone and two together, in turns."""
    alone, together = [], []
    runs = [_start(core) for core in sorted(os.sched_getaffinity(0))[:2]]
    try:
        for run in runs:
            _speeds([run])  # waits until it has compiled
        for _ in range(turns):
            alone.append(sum(_speeds(runs[:1])))
            together.append(sum(_speeds(runs)))
    finally:
        for run in runs:
            run.kill()
            run.wait()
    return alone, together


def _start(core: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.seeds", str(core)],
        env=os.environ | {machine.THREADS: "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _speeds(runs: list[subprocess.Popen[str]]) -> list[float]:
    for run in runs:
        print(SECONDS * patience(), file=_open(run.stdin), flush=True)
    return [float(_open(run.stdout).readline()) for run in runs]


def _open(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def main(core: int) -> None:
    """Answer every line of input with the steps per second over the time that it gives."""
    os.sched_setaffinity(0, {core})
    runtime.start(1)
    from benchmarks.end_to_end import training  # after JAX has its threads

    with training(REUSE) as trainer:
        for line in sys.stdin:
            began, steps = time.perf_counter(), 0
            while time.perf_counter() - began < float(line):
                trainer.advance()
                steps += 1
            print(steps / (time.perf_counter() - began), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
