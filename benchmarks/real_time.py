"""Lateness of a 50 Hz environment while SAC with reuse 10 and layers of 256 learns, and while nothing is learned.

The lateness of a step is defined in docs/robots.md. The second measurement shows what the machine itself adds: its
scheduler, and whatever else runs on it. Both leave one core to the environment.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import smrl
from benchmarks.harness import Record
from examples.robot import Robot
from smrl import machine

SECTION = "Real time: SAC with reuse 10 on a 50 Hz pendulum"
CORES = (2,)
STEPS, TARGET = 2_100, 5.0  # ms, 99th percentile
LITTLE = {"reuse": 1, "batch_size": 1, "actor_hidden": (8,), "critic_hidden": (8,)}


def measure(quick: bool) -> list[Record]:
    steps = STEPS // 3 if quick else STEPS
    learning, idle = _measured({"steps": steps, "reuse": 10}), _measured({"steps": steps, **LITTLE})
    return [
        Record("while it learns: p99", learning["late_p99_ms"], "ms", target=TARGET, at_most=True),
        Record("while it learns: p50", learning["late_p50_ms"], "ms"),
        Record("while it learns: latest step", learning["late_max_ms"], "ms"),
        Record("while it learns: action p99", learning["latency_p99_ms"], "ms"),
        Record("with hardly any learning: p99", idle["late_p99_ms"], "ms"),
        Record("with hardly any learning: latest step", idle["late_max_ms"], "ms"),
    ]


def _measured(settings: dict[str, Any]) -> dict[str, float]:
    """Train in a process of its own, whose number of threads is that of a real-time run."""
    command = [sys.executable, "-m", "benchmarks.real_time", json.dumps(settings)]
    variables = {name: value for name, value in os.environ.items() if name != machine.THREADS}
    return json.loads(subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True).stdout)


def train(**settings: Any) -> dict[str, float]:
    """Return the only row of training.csv, which is about all steps."""
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"runs": Path(folder), "checkpoint_seconds": 10, "quiet": True}
        device: dict[str, Any] = {"real_time": True, "eval_episodes": 0, "eval_every": settings["steps"]}
        run = smrl.train("sac", Robot, warmup=300, **device, **options, **settings)
        with (run.path / "training.csv").open() as file:
            (row,) = csv.DictReader(file)
    return {name: float(value or "nan") for name, value in row.items()}


if __name__ == "__main__":
    print(json.dumps(train(**json.loads(sys.argv[1]))))
