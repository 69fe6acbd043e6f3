"""How long the command line takes to answer: `python -m benchmarks.startup`, a part of `make bench`.

The medians of several starts; the goal is half a second on an idle core.
"""

import statistics
import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table

STARTS = 11
COMMANDS = (("--help",), ("--version",), ("list",), ("train", "sac", "--help"))


def seconds(words: tuple[str, ...]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "smrl", *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    table = Table("command", "median of seconds", "fastest", title=f"time to answer, {STARTS} starts")
    for words in COMMANDS:
        seconds(words)  # reads the files into the system's cache
        times = [seconds(words) for _ in range(STARTS)]
        table.add_row(f"smrl {' '.join(words)}", f"{statistics.median(times):.2f}", f"{min(times):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
