"""Measures one section with one number of cores: `python -m benchmarks.worker SECTION CORES full|quick FILE`."""

import importlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from smrl import runtime


def main(section: str, cores: int, quick: bool, path: Path) -> None:
    """Write the section's records to a file; standard output belongs to whatever libraries print."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])  # torch has as many threads by default
    runtime.start(cores)
    records = importlib.import_module(f"benchmarks.{section}").measure(quick)
    entries = [replace(record, name=f"{section}/{record.name}").to_json() for record in records]
    path.write_text(json.dumps(entries))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "quick", Path(sys.argv[4]))
