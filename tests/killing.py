"""What tests share that kill runs: where a run is, what came of it, and when to kill it."""

import subprocess
import time
from pathlib import Path

import numpy as np


def place(env: str, runs: Path) -> Path:
    (found,) = runs.glob(f"{env.replace('/', '-')}/*/seed0")
    return found


def outcome(env: str, runs: Path) -> tuple[bytes, dict[str, bytes]]:
    """The bytes of evaluations.csv and of all arrays of the last checkpoint."""
    folder = place(env, runs)
    newest = max(path for path in (folder / "checkpoint").iterdir() if path.name.isdigit())
    with np.load(newest / "arrays.npz") as arrays:
        return (folder / "evaluations.csv").read_bytes(), {name: array.tobytes() for name, array in arrays.items()}


def wait_for_checkpoint(process: subprocess.Popen[str], folder: Path, after: int) -> int:
    """Wait until a run has saved a step beyond the given one, or has ended; the step."""
    while process.poll() is None:
        steps = [int(path.name) for path in folder.glob("*/*/seed0/checkpoint/*") if path.name.isdigit()]
        if max(steps, default=0) > after:
            return max(steps)
        time.sleep(0.01)
    return after
