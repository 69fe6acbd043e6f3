"""The process of a peer: it reads which calls to prepare, then how many of them to make."""

import importlib
import os
import pickle
import sys
import time
from typing import Any


def main() -> None:
    """Answer with seconds; whatever else the libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    module, maker, *arguments = pickle.load(sys.stdin.buffer)
    try:
        made: Any = getattr(importlib.import_module(f"benchmarks.peers.{module}"), maker)(*arguments)
    except ModuleNotFoundError as error:
        print(error.name, file=answers)
        return
    calls = {"call": made} if callable(made) else made._asdict()
    print("ready", file=answers)
    for line in sys.stdin.buffer:
        name, repeats = line.decode().split()
        began = time.perf_counter()
        for _ in range(int(repeats)):
            calls[name]()
        print(time.perf_counter() - began, file=answers)


if __name__ == "__main__":
    main()
