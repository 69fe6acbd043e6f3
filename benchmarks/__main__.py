"""How fast smrl is on this machine, and how fast its peers are: `python -m benchmarks`, which is `make bench`."""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import picture, results
from benchmarks.harness import Record
from smrl import machine

SECTIONS = (
    *("peak", "startup", "updates", "critics", "images", "full_size", "end_to_end", "growth", "memory", "checkpoints"),
    *("environments", "simulators", "frames", "tabular", "latency", "real_time"),
)
QUICK = ("peak", "startup", "updates", "end_to_end")
HOME = Path(__file__).resolve().parent


def main() -> int:
    """Measure all sections; the results of each are written before the next begins."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the core of it, in five minutes")
    parser.add_argument(
        "--only", nargs="+", choices=SECTIONS, help="these sections; the results of the others are kept"
    )
    parser.add_argument(
        "--out", type=Path, help="folder of the results; by default benchmarks/, quick ones build/bench/"
    )
    wanted = parser.parse_args()
    out = wanted.out or (HOME.parent / "build" / "bench" if wanted.quick else HOME)
    failed = []
    for section in wanted.only or (QUICK if wanted.quick else SECTIONS):
        began = time.monotonic()
        records = measured(section, wanted.quick)
        if records is None:
            failed.append(section)
            continue
        show(section, records)
        print(f"{section}: {time.monotonic() - began:.0f} s", flush=True)
        found = results.read(out).with_section(section, records)
        in_order = sorted(found.records, key=lambda record: SECTIONS.index(results.section_of(record)))
        results.write(out, results.Results(tuple(in_order), found.conditions))
        picture.draw(out / "results.png", in_order)
    print(f"written to {out}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return bool(failed)


def measured(section: str, quick: bool) -> list[Record] | None:
    """Return the records of a section for each number of cores; None if a measurement failed."""
    records: list[Record] = []
    counts = [count for count in importlib.import_module(f"benchmarks.{section}").CORES if count <= machine.cores()]
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "records.json"
            words = (section, str(count), "quick" if quick else "full", str(path))
            variables = {machine.THREADS: str(count), "OMP_NUM_THREADS": str(count), "PYTHONPATH": str(HOME.parent)}
            command = [sys.executable, "-m", "benchmarks.worker", *words]
            # in the temporary folder, where simulators may leave their logs
            if subprocess.run(command, env=os.environ | variables, cwd=folder).returncode:
                return None
            records += map(Record.from_json, json.loads(path.read_text()))
    return records


def show(section: str, records: list[Record]) -> None:
    title = importlib.import_module(f"benchmarks.{section}").SECTION
    table = Table("", "value", "interval", "target", "met", title=title)
    for record in records:
        table.add_row(*results.cells(record))
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
