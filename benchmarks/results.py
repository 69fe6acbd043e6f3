"""`results.json` and `results.md`: what the sections measured, each with its machine and versions."""

import importlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Results:
    """Records, and the machine and versions that each section was measured with."""

    records: tuple[Record, ...] = ()
    conditions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def with_section(self, section: str, records: Sequence[Record]) -> "Results":
        """Return the results with those of a section replaced by records that were measured just now."""
        kept = (record for record in self.records if section_of(record) != section)
        return Results((*kept, *records), self.conditions | {section: conditions()})


def conditions() -> dict[str, Any]:
    """Return what a section is measured with."""
    versions = {package: version(package) for package in PACKAGES}
    return {"cpu": machine.processor(), "cores": machine.cores(), "patience": patience(), "versions": versions}


def read(folder: Path) -> Results:
    """Return the results of earlier runs, if there were any."""
    path = folder / "results.json"
    if not path.exists():
        return Results()
    document = json.loads(path.read_text())
    return Results(tuple(map(Record.from_json, document["results"])), document["conditions"])


def section_of(record: Record) -> str:
    return record.name.partition("/")[0]


def write(folder: Path, results: Results) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"conditions": results.conditions, "results": [record.to_json() for record in results.records]}
    (folder / "results.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    (folder / "results.md").write_text(page(results))


def page(results: Results) -> str:
    """Return `results.md`: the machines, the targets, and a table for each section."""
    judged = [record for record in results.records if record.met is not None]
    parts = [
        INTRODUCTION,
        *machines(results),
        f"## Targets: {sum(bool(record.met) for record in judged)} of {len(judged)} met\n",
        "![Results over their targets](results.png)\n",
        table(judged),
    ]
    for section in dict.fromkeys(map(section_of, results.records)):
        title = importlib.import_module(f"benchmarks.{section}").SECTION
        parts += [f"## {title}\n", table([record for record in results.records if section_of(record) == section])]
    return "\n".join(parts)


def machines(results: Results) -> Iterator[str]:
    """Yield a paragraph for each machine and set of versions, with the sections that were measured there."""
    groups = dict[str, list[str]]()
    for section in dict.fromkeys(map(section_of, results.records)):
        groups.setdefault(json.dumps(results.conditions[section]), []).append(section)
    for key, sections in groups.items():
        found = json.loads(key)
        versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
        hurry = "" if found["patience"] == 1 else f", with {PATIENCE}={found['patience']:g}"
        yield f"CPU of {', '.join(sections)}: {found['cpu']}, {found['cores']} cores{hurry}. {versions}.\n"


def table(records: Sequence[Record]) -> str:
    rows = ["| | value | interval | target | met |", "|---|---|---|---|---|"]
    return "\n".join([*rows, *(f"| {' | '.join(cells(record))} |" for record in records)]) + "\n"


def cells(record: Record) -> tuple[str, ...]:
    """Return name, value, interval, target and whether it is met, as text."""
    interval = "" if record.low is None or record.high is None else f"{record.low:.4g} … {record.high:.4g}"
    target = "" if record.target is None else f"{'≤' if record.at_most else '≥'} {record.target:g}"
    met = {None: "", True: "yes", False: "**no**"}[record.met]
    return record.name, f"{record.value:.4g} {record.unit}".strip(), interval, target, met
