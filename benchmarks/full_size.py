"""Run one hundred updates from images at the paper's sizes and print the time of each."""

import time

from benchmarks import ours
from benchmarks.harness import Record, cores

SECTION = "One hundred updates from images of 84 × 84 at the paper's sizes"
CORES = (2,)
REUSE, UPDATES = {"dqn from images": 10, "sac_pixels": 5, "drqv2": 5}, 100


def measure(quick: bool) -> list[Record]:
    records = []
    for name, reuse in REUSE.items():
        learn = ours.learning(ours.CASES[name], reuse)
        learn()  # compiles
        began = time.perf_counter()
        for _ in range(UPDATES // reuse):
            learn()
        seconds = time.perf_counter() - began
        records.append(Record(f"{name}, M = {reuse}, {cores()}: an update", 1e3 * seconds / UPDATES, "ms"))
    return records
