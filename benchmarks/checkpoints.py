"""Seconds and bytes of a checkpoint, against the steps since the last one and in all, and how long training waits.

The state is as large as that of SAC with two layers of 256. In the background training waits until the other thread has
begun, and in the slowest step while it writes.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import Record, median_of
from smrl.memory.replay import Replay
from smrl.runs.checkpoint import Saved, Writer
from smrl.types import ArraySpec, Continuous, Spec

SECTION = "Checkpoints: 17 observations, 6 actions, a million weights and moments"
CORES = (1,)
CAPACITY, OBS, ACTION = 1_000_000, 17, 6
TOTALS, NEW = (10_000, 100_000, 1_000_000), (1_000, 3_000, 10_000, 30_000)  # steps in all, and since the last one
WEIGHTS, TIMES = 1_000_000, 6


def measure(quick: bool) -> list[Record]:
    replay, records = Replay(CAPACITY, Spec(ArraySpec((OBS,)), Continuous(ACTION)), gamma=0.99), list[Record]()
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(Path(folder), replay)
        for total in TOTALS:
            add(replay, total - replay.added)
            _write(writer)
            for new in NEW if total == TOTALS[-1] else (3_000,):
                records += saving(writer, new, f"{total:,} steps in all, {new:,} since the last one")
        records += background(writer)
    return records


def saving(writer: Writer, new: int, title: str) -> list[Record]:
    """Measure seconds and bytes of checkpoints after a number of new transitions each."""
    seconds, sizes = [], []
    for _ in range(TIMES):
        add(writer.replay, new)
        before = _files(writer.folder)
        began = time.perf_counter()
        _write(writer)
        seconds.append(time.perf_counter() - began)
        sizes.append(sum(size for file, size in _files(writer.folder).items() if file not in before) / 1e6)
    return [median_of(f"{title}: time", seconds, "s"), median_of(f"{title}: written", sizes, "MB")]


def background(writer: Writer) -> list[Record]:
    """Measure the milliseconds that training waits for a checkpoint in the background."""
    begun, steps = [], []
    for _ in range(TIMES):
        add(writer.replay, 3_000)
        began, slowest = time.perf_counter(), 0.0
        writer.begin(_state(writer.replay), lambda: None)
        begun.append((time.perf_counter() - began) * 1e3)
        while writer.is_busy():
            slowest = max(slowest, add(writer.replay, 1, writer))
            time.sleep(0.003)  # the updates of a step, which need no lock of Python's
        steps.append(slowest * 1e3)
        writer.close()
    return [
        median_of("in the background: until it has begun", begun, "ms"),
        median_of("in the background: the slowest step meanwhile", steps, "ms"),
    ]


def add(replay: Replay, count: int, writer: Writer | None = None) -> float:
    """Add transitions and return the seconds of the slowest one."""
    draw, slowest = np.random.default_rng(replay.added), 0.0
    observations = draw.standard_normal((1_000, OBS), np.float32)  # random, for nothing else is as hard to compress
    action = np.zeros(ACTION, np.float32)
    for row in range(count):
        began = time.perf_counter()
        if writer:
            writer.keep(1)
        obs = observations[row % 1_000]
        replay.add(obs, action, 1.0, obs, False, row % 1_000 == 999)
        slowest = max(slowest, time.perf_counter() - began)
    return slowest


def _state(replay: Replay) -> Saved:
    return Saved(replay.added, {"weights": np.zeros(WEIGHTS, np.float32)}, {})


def _write(writer: Writer) -> None:
    writer.save(_state(writer.replay), lambda: None)


def _files(folder: Path) -> dict[tuple[str, int, int], int]:
    """Return the sizes of all files; a file that was written again has a different key."""
    found = [(str(path), path.stat()) for path in folder.rglob("*") if path.is_file()]
    return {(name, facts.st_ino, facts.st_mtime_ns): facts.st_size for name, facts in found}
