"""Resident size of the replay memory against the transitions in it, over the bytes of its rows."""

from pathlib import Path

import numpy as np

from benchmarks.harness import Record
from smrl.memory.replay import Replay
from smrl.types import ArraySpec, Continuous, Discrete, Spec

SECTION = "Memory: resident bytes per transition stored, over their raw bytes"
CORES = (1,)
EPISODE = 1_000  # steps
MEMORIES = {  # observations and actions, and how many transitions are stored
    "17 observations, 6 actions": (Spec(ArraySpec((17,)), Continuous(6)), (100_000, 300_000, 1_000_000)),
    "images of 84 × 84 in stacks of 4": (
        Spec(ArraySpec((84, 84, 4), "uint8", 4), Discrete(6)),
        (10_000, 30_000, 100_000),
    ),
}


def measure(quick: bool) -> list[Record]:
    kept = list[Replay]()  # so that no memory takes the place of an earlier one
    return [record for name in MEMORIES for record in growth(name, kept)]


def growth(name: str, kept: list[Replay]) -> list[Record]:
    """Measure the resident size of a filling memory; raw bytes count each observation, action, reward and flag once."""
    spec, counts = MEMORIES[name]
    obs, action = np.ones(spec.obs.shape, spec.obs.dtype), np.ones_like(spec.action.array.zeros())
    before = resident()
    replay, records = Replay(counts[-1], spec, gamma=0.99), list[Record]()
    kept.append(replay)
    for count in counts:
        while replay.added < count:
            replay.add(obs, action, 1.0, obs, False, replay.added % EPISODE == EPISODE - 1)
        used = resident() - before
        records.append(Record(f"{name}, {count:,} stored: resident", used / 1e6, "MB"))
    share = used / (count * replay.row_bytes)
    return [*records, Record(f"{name}: resident over raw bytes", share, "×", target=1.05, at_most=True)]


def resident() -> int:
    """Return the resident bytes of this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
