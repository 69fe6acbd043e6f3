"""Measure calls in turns, and record the results.

A section of `make bench` is a module with `SECTION`, its title, `CORES`, the numbers of cores to measure with, and
`measure(quick) -> list[Record]`, which runs in a process of its own for each of these numbers.
"""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.peers import Peer
from smrl import machine


@dataclass(frozen=True)
class Record:
    """One result, which is one entry of `results.json`; its name has the parts of a path, the section first."""

    name: str
    value: float
    unit: str
    low: float | None = None  # the ends of the 95 % interval of the median, or of the spread
    high: float | None = None
    target: float | None = None
    at_most: bool = False  # the target is an upper bound

    @property
    def met(self) -> bool | None:
        """Return whether the value reaches its target; None without a target."""
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target

    def to_json(self) -> dict[str, Any]:
        """Return the entry of `results.json`."""
        return asdict(self) | {"met": self.met}

    @staticmethod
    def from_json(entry: dict[str, Any]) -> "Record":
        """Return the record of an entry."""
        return Record(**{name: value for name, value in entry.items() if name != "met"})


Call = Callable[[], Any] | Peer  # what is timed, in this process or in that of a peer
PATIENCE = "BENCH_PATIENCE"  # in the environment: a factor on all limits, to try a section out
REST = 0.05  # seconds before a turn: threads of the call before, such as OpenBLAS's, keep a core busy for a while


def patience() -> float:
    """Return the factor on all time limits."""
    return float(os.environ.get(PATIENCE, "1"))


def cores() -> str:
    """Return the number of threads as part of a record's name: `1 core` or `2 cores`."""
    count = machine.threads()
    return "1 core" if count == 1 else f"{count} cores"


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median by order statistics; the range for fewer than six values."""
    ordered, count = sorted(values), len(values)
    rank, ways, next_ways = 0, 1, count  # of 2ⁿ equally likely cases, those with at most `rank` values below the median
    while 40 * (ways + next_ways) <= 2**count:
        rank, ways = rank + 1, ways + next_ways
        next_ways = next_ways * (count - rank) // (rank + 1)
    return ordered[rank], ordered[count - 1 - rank]


def ratios(theirs: Sequence[float], ours: Sequence[float]) -> list[float]:
    """Return the ratios of their times to ours, turn by turn."""
    return [their / our for their, our in zip(theirs, ours, strict=True)]


def interleaved(
    calls: Mapping[str, Call], limit: float, width: float = 0.05, least: int = 6, turn: float = 0.2
) -> dict[str, list[float]]:
    """Time each call in turns A, B, A, B, … after one uncounted turn.

    The turns end when the 95 % interval of the median ratio of every call to the first is narrower than `width` of it,
    after `least` turns at the earliest, or when `limit` seconds are over. A short call is repeated until its turn takes
    about `turn` seconds; what is returned are seconds of one call.
    """
    limit *= patience()
    for call in calls.values():
        _seconds(call, 1)
    began = time.perf_counter()
    once = {name: _seconds(call, 1) for name, call in calls.items()}
    repeats = {name: max(1, round(turn / max(seconds, 1e-9))) for name, seconds in once.items()}
    is_turn = max(repeats.values()) == 1
    times: dict[str, list[float]] = {name: [seconds] if is_turn else [] for name, seconds in once.items()}
    first = times[next(iter(times))]
    while True:
        if first and time.perf_counter() - began > limit:
            return times
        if len(first) >= least and all(_is_narrow(ratios(other, first), width) for other in times.values()):
            return times
        for name, call in calls.items():
            times[name].append(_seconds(call, repeats[name]))


def _seconds(call: Call, repeats: int) -> float:
    time.sleep(REST)
    if isinstance(call, Peer):
        return call.seconds(repeats) / repeats
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - began) / repeats


def _is_narrow(values: Sequence[float], width: float) -> bool:
    low, high = median_interval(values)
    return high - low <= width * statistics.median(values)


def median_of(
    name: str, values: Sequence[float], unit: str, target: float | None = None, at_most: bool = False
) -> Record:
    """Return the record of a median with its interval."""
    return Record(name, statistics.median(values), unit, *median_interval(values), target, at_most)


def ratio(theirs: Sequence[float], ours: Sequence[float], name: str, target: float | None = None) -> Record:
    """Return the record of our speed over theirs: the median of the ratios of all turns."""
    return median_of(name, ratios(theirs, ours), "×", target)
