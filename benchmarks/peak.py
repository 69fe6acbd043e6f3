"""The machine's peak in matrix multiplication, to which all other sections are compared."""

from benchmarks import ours
from benchmarks.harness import Record, cores, interleaved, median_of

SECTION = "Peak of the matrix multiplication, float32, 2048 × 2048"
CORES = (1, 2)


def measure(quick: bool) -> list[Record]:
    multiply = ours.multiplication()
    seconds = interleaved({"first": multiply, "again": multiply}, limit=4 if quick else 10)
    both = seconds["first"] + seconds["again"]
    return [median_of(cores(), [ours.peak(value) / 1e9 for value in both], "GFLOP/s")]
