"""How the time of a learning step grows with M, the batch, the width of the networks, the critics, and seeds at once.

A line through the medians gives the cost of one more, and the constant part.
"""

import statistics
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from benchmarks import ours, seeds
from benchmarks.harness import Record, cores, interleaved, median_of, ratio
from benchmarks.ours import Case

SECTION = "Growth of the time of a learning step, SAC unless said otherwise"
CORES = (2,)
REUSES, BATCHES, WIDTHS, CRITICS = (1, 2, 5, 10, 20, 50), (64, 128, 256, 512, 1024), (64, 128, 256, 512), (2, 5, 10, 20)


def measure(quick: bool) -> list[Record]:
    sac, redq = Case("sac"), Case("redq")
    wide = {width: {"actor_hidden": (width, width), "critic_hidden": (width, width)} for width in WIDTHS}
    widths = times({width: (replace(sac, changes=changes), 5) for width, changes in wide.items()})
    exponent = np.polyfit(np.log(WIDTHS[-2:]), np.log([statistics.median(widths[width]) for width in WIDTHS[-2:]]), 1)[
        0
    ]
    return [
        *line("M", "update", times({reuse: (sac, reuse) for reuse in REUSES})),
        *line("batch, M = 5", "transition", times({size: (replace(sac, batch=size), 5) for size in BATCHES})),
        *points("width, M = 5", widths),
        Record(
            f"width, {cores()}: power of the width that the time grows with, {WIDTHS[-2]} to {WIDTHS[-1]}", exponent, ""
        ),
        *line(
            "REDQ's critics, M = 5",
            "critic",
            times({count: (replace(redq, changes={"critics": count}), 5) for count in CRITICS}),
        ),
        *at_once(),
    ]


def times(cases: Mapping[int, tuple[Case, int]]) -> dict[int, list[float]]:
    """Measure milliseconds of a learning step for each case and M, in turns."""
    calls = {str(size): ours.learning(case, reuse) for size, (case, reuse) in cases.items()}
    taken = interleaved(calls, limit=20)
    return {size: [1e3 * seconds for seconds in taken[str(size)]] for size in cases}


def points(title: str, taken: Mapping[int, list[float]]) -> list[Record]:
    return [median_of(f"{title}, {cores()}: {size}", values, "ms") for size, values in taken.items()]


def line(title: str, unit: str, taken: Mapping[int, list[float]]) -> list[Record]:
    """Return the points, the slope and the intercept of a line fitted to relative errors."""
    medians = np.array([statistics.median(values) for values in taken.values()])
    slope, rest = np.polyfit(list(taken), medians, 1, w=1 / medians)
    return [
        *points(title, taken),
        Record(f"{title}, {cores()}: slope", float(slope), f"ms per {unit}"),
        Record(f"{title}, {cores()}: left at 0", float(rest), "ms"),
    ]


def at_once() -> list[Record]:
    """Measure the steps per second of two runs of SAC (M = 10), one per core, over those of a single run."""
    alone, together = seeds.steps_per_second(turns=6)
    return [
        median_of("one seed on one core", alone, "steps/s"),
        median_of("two seeds on two cores", together, "steps/s"),
        ratio(together, alone, "two seeds on two cores: times as fast as one on one", 1.8),
    ]
