"""How long training waits for a checkpoint with a full replay memory of a million transitions; a part of `make bench`.

In the background: until the other thread has begun, and the longest step while it writes beyond the usual one. Without
it: until the checkpoint is on the disk. The state is as large as that of SAC with two layers of 256.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from smrl.memory.replay import Replay
from smrl.runs.background import Writer
from smrl.runs.checkpoint import Saved
from smrl.types import ArraySpec, Continuous, Spec

CAPACITY, OBS, ACTION = 1_000_000, 17, 6
NEW = 3_000  # transitions between two checkpoints
WEIGHTS = 1_000_000  # of all networks and moments
CHECKPOINTS = 20


def filled() -> Replay:
    """A full memory."""
    replay = Replay(CAPACITY, Spec(ArraySpec((OBS,)), Continuous(ACTION)), 0.99)
    add(replay, CAPACITY + 1)
    return replay


def add(replay: Replay, count: int, writer: Writer | None = None) -> float:
    """Add transitions; the seconds of the slowest one."""
    obs, action, slowest = np.zeros(OBS, np.float32), np.zeros(ACTION, np.float32), 0.0
    for row in range(count):
        began = time.perf_counter()
        if writer:
            writer.keep(1)
        replay.add(obs, action, 1.0, obs, False, row % 1000 == 999)
        slowest = max(slowest, time.perf_counter() - began)
    return slowest


def measure(replay: Replay, folder: Path) -> tuple[list[float], list[float], list[float]]:
    """Seconds until a checkpoint has begun in the background, its slowest step, and seconds of one without it."""
    weights, writer = np.zeros(WEIGHTS, np.float32), Writer(folder, replay)
    begun, steps, waited = [], [], []
    for number in range(2 * CHECKPOINTS):
        add(replay, NEW)
        start = time.perf_counter()
        saved = Saved(replay.added, {"weights": np.array(weights)}, {})
        if number % 2:
            writer.save(saved, lambda: None)
            waited.append(time.perf_counter() - start)
            continue
        writer.begin(saved, lambda: None)
        begun.append(time.perf_counter() - start)
        slowest = 0.0
        while writer.is_busy():
            slowest = max(slowest, add(replay, 1, writer))
            time.sleep(0.003)  # the updates of a step, which need no lock of Python's
        steps.append(slowest)
        writer.close()
    return begun, steps, waited


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        replay = filled()
        writer = Writer(Path(folder), replay)
        writer.save(Saved(0, {}, {}), lambda: None)  # the first one writes all transitions, whichever way
        times = measure(replay, Path(folder))
    table = Table("training waits", "median, ms", "longest, ms", title=f"a checkpoint at {CAPACITY:,} transitions")
    names = ("to begin it in the background", "in a step while it is written", "for it without the background")
    for name, seconds in zip(names, times, strict=True):
        table.add_row(name, f"{1e3 * np.median(seconds):.2f}", f"{1e3 * np.max(seconds):.2f}")
    Console(width=100).print(table)
