"""Seconds until the command line answers, and from the command to the first update."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

from benchmarks.harness import Record, interleaved, median_of

SECTION = "Start-up: SAC on HalfCheetah-v4 with a warm-up of 256 steps, the C++ kernels compiled before"
CORES = (2,)
ANSWERS = (("--help",), ("--version",), ("list",), ("train", "sac", "--help"))
TRAIN = ("train", "sac", "HalfCheetah-v4", "--warmup", "256", "--quiet", "--runs")
SHORT = ("--steps", "260", "--eval-every", "260", "--eval-episodes", "1")


def answer(words: tuple[str, ...]) -> Callable[[], None]:
    return lambda: _run([sys.executable, "-m", "smrl", *words], {})


def measure(quick: bool) -> list[Record]:
    wanted = ANSWERS[:1] if quick else ANSWERS
    times = interleaved({" ".join(words): answer(words) for words in wanted}, limit=10 if quick else 30, least=11)
    targets = {"--help": 0.5}
    records = [median_of(f"smrl {words}", times[words], "s", targets.get(words), at_most=True) for words in times]
    with tempfile.TemporaryDirectory() as cache:
        _run(
            [sys.executable, "-m", "smrl", *TRAIN, f"{cache}/runs", *SHORT], {"XDG_CACHE_HOME": cache}
        )  # fills the cache
        starts = {
            "cold": lambda: first_update({"JAX_ENABLE_COMPILATION_CACHE": "false"}),
            "with the compilation cache": lambda: first_update({"XDG_CACHE_HOME": cache}),
        }
        times = interleaved(starts, limit=30 if quick else 60)
    limits = {"cold": 6.0, "with the compilation cache": 3.0}
    return records + [
        median_of(f"first update, {name}", times[name], "s", limits[name], at_most=True) for name in times
    ]


def first_update(variables: dict[str, str]) -> None:
    """Train until the first update, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        _run([sys.executable, "-m", "benchmarks.first_update", *TRAIN, folder], variables)


def _run(command: list[str], variables: dict[str, str]) -> None:
    subprocess.run(command, env=os.environ | variables, stdout=subprocess.DEVNULL, check=True)
