"""`results.json` and `results.md`: what the sections measured, with the machine and the versions."""

import importlib
import json
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.harness import PATIENCE, Record, patience
from smrl import machine

PACKAGES = (
    "smrl",
    "jax",
    "jaxlib",
    "numpy",
    "gymnasium",
    "mujoco",
    "sbx-rl",
    "stable-baselines3",
    "sb3-contrib",
    "torch",
    "rltools",
)
INTRODUCTION = """\
# Benchmarks

Written by `make bench`. What is compared was measured in turns, A, B, A, B, …, smrl and every peer in a process of its
own; a value is the median of the turns, and the interval is the median's 95 % one (of fewer than six turns, the least
and the greatest).
"""


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def read(folder: Path) -> list[Record]:
    """Return the records of an earlier run, if there was one."""
    path = folder / "results.json"
    entries = json.loads(path.read_text())["results"] if path.exists() else []
    return [Record.from_json(entry) for entry in entries]


def merged(old: Sequence[Record], new: Sequence[Record], section: str) -> list[Record]:
    """Return the old records with those of a section replaced."""
    return [record for record in old if section_of(record) != section] + list(new)


def section_of(record: Record) -> str:
    return record.name.partition("/")[0]


def write(folder: Path, records: Sequence[Record]) -> None:
    """Write both files."""
    peak = {record.name.partition("/")[2]: record.value for record in records if section_of(record) == "peak"}
    facts = {
        "versions": {package: version(package) for package in PACKAGES},
        "cpu": machine.processor(),
        "cores": machine.cores(),
        "peak_gflops": peak,
        "patience": patience(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    document = facts | {"results": [record.to_json() for record in records]}
    (folder / "results.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    (folder / "results.md").write_text(page(facts, records))


def page(facts: dict[str, Any], records: Sequence[Record]) -> str:
    """Return `results.md`: the machine, the targets, and a table for each section."""
    judged = [record for record in records if record.met is not None]
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    peaks = ", ".join(f"{value:.0f} GFLOP/s on {name}" for name, value in facts["peak_gflops"].items())
    hurry = "" if facts["patience"] == 1 else f" The last sections were measured with {PATIENCE}={facts['patience']:g}."
    parts = [
        INTRODUCTION,
        f"CPU: {facts['cpu']}, {facts['cores']} cores; matrix multiplication: {peaks or 'not measured'}. {versions}."
        f"{hurry}\n",
        f"## Targets: {sum(bool(record.met) for record in judged)} of {len(judged)} met\n",
        "![Results over their targets](results.png)\n",
        table(judged),
    ]
    for section in dict.fromkeys(map(section_of, records)):
        title = importlib.import_module(f"benchmarks.{section}").SECTION
        parts += [f"## {title}\n", table([record for record in records if section_of(record) == section])]
    return "\n".join(parts)


def table(records: Sequence[Record]) -> str:
    rows = ["| | value | interval | target | met |", "|---|---|---|---|---|"]
    return "\n".join([*rows, *(f"| {' | '.join(cells(record))} |" for record in records)]) + "\n"


def cells(record: Record) -> tuple[str, ...]:
    """Return name, value, interval, target and whether it is met, as text."""
    interval = "" if record.low is None or record.high is None else f"{record.low:.4g} … {record.high:.4g}"
    target = "" if record.target is None else f"{'≤' if record.at_most else '≥'} {record.target:g}"
    met = {None: "", True: "yes", False: "**no**"}[record.met]
    return record.name, f"{record.value:.4g} {record.unit}".strip(), interval, target, met
