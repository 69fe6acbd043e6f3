"""What tests of sweeps share: a small file, what its runs come to, and waiting for them to be under way."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

SMALL = """
steps = 5000
warmup = 100
eval_every = 1000
eval_episodes = 1
max_episode_steps = 50
actor_hidden = [8]
critic_hidden = [8]
batch_size = 8
"""


def written(folder: Path, runs: str) -> Path:
    """A sweep's file with one table of small runs."""
    file = folder / "sweep.toml"
    file.write_text(f'title = "A sweep"\n{SMALL}\n[[runs]]\n{runs}\n')
    return file


def results(runs: Path) -> dict[str, tuple[bytes, dict[str, bytes]]]:
    """The bytes of evaluations.csv and of all arrays of the last checkpoint, by the place of the run."""
    found = {}
    for file in runs.rglob("evaluations.csv"):
        newest = max(path for path in (file.parent / "checkpoint").iterdir() if path.name.isdigit())
        with np.load(newest / "arrays.npz") as arrays:
            saved = {name: array.tobytes() for name, array in arrays.items()}
        found[str(file.parent.relative_to(runs))] = (file.read_bytes(), saved)
    return found


def saved_steps(runs: Path) -> dict[str, int]:
    """The newest checkpoint of each run that has one, by the place of the run."""
    found: dict[str, int] = {}
    for path in runs.glob("*/*/seed*/checkpoint/*"):
        if path.name.isdigit():
            place = str(path.parents[1].relative_to(runs))
            found[place] = max(int(path.name), found.get(place, 0))
    return found


def until(condition: Callable[[], bool], minutes: float = 2) -> None:
    """Wait for something."""
    end = time.monotonic() + 60 * minutes
    while not condition():
        assert time.monotonic() < end, f"it did not happen within {minutes} minutes"
        time.sleep(0.02)
