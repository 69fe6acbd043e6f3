"""The replay memory of a run, read without changing the run or importing what it names."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smrl.data.rows import refuse_other_rows
from smrl.errors import SmrlError, require
from smrl.memory.replay import Rows
from smrl.plugins import in_words
from smrl.runs import checkpoint
from smrl.runs.identity import flat
from smrl.runs.paths import CHECKPOINT, CONFIG, RunDirectory, find_files
from smrl.types import Spec
from smrl.validation import Count, Few, Positive, convert

FIELDS = ("obs", "action", "reward", "terminated", "last")


@dataclass(frozen=True)
class Memory:
    """The replay memory of a run: the steps of its environments, one environment after the other."""

    settings: dict[str, Any]  # by name, the hyperparameters among them
    spec: Spec
    rows: Rows  # as those of one environment; what was newest is the last row of its episode
    left_out: int  # rows at the start of episodes whose beginning the memory no longer holds


def find_runs(path: Path) -> list[Path]:
    """Return the run at a path, or else the runs below it."""
    if any((path / name).exists() for name in (CONFIG, CHECKPOINT)):
        return [path]
    return [file.parent for file in find_files(path, CONFIG)]


def read_memory(path: Path, largest: int, notify: Callable[[str], None], only_complete: bool = False) -> Memory:
    """Read the replay memory of a run's newest intact checkpoint, of at most ``largest`` bytes.

    If the memory no longer holds the beginning of an environment's first episode, the rows of that episode are left out
    with ``only_complete``, and where observations are stacks of frames, which could not be rebuilt.
    """
    run = RunDirectory(path)
    run.refuse_foreign_files()
    config = run.read_config()
    spec, settings = Spec.from_json(config["spec"]), flat(config["settings"])
    envs, capacity = (convert(name, settings.get(name, 1), kind) for name, kind in (("envs", Few), ("capacity", Count)))
    parts = checkpoint.read_rows(run.checkpoint, notify, largest)
    require(bool(parts), f"{path} has no checkpoint yet; train it first.")
    try:
        rows, is_cut = _in_order(parts, envs, capacity + (spec.obs.stack - 1) * envs)
    except (LookupError, TypeError, ValueError) as error:  # intact files that hold something else
        raise SmrlError(f"the replay memory of {path} is not that of a run ({in_words(error)}).") from error
    refuse_other_rows(rows, spec)
    if not (only_complete or spec.obs.stack > 1):
        is_cut[:] = False
    apart = ~is_cut[rows["successor_rows"]]
    kept = {name: rows[name][~is_cut] for name in FIELDS} | {
        "start": np.array(0),
        "successors": rows["successors"][apart],
    }
    require(len(kept["reward"]) > 0, f"the replay memory of {path} holds no complete episode.")
    kept["successor_rows"] = np.flatnonzero(kept["last"])
    return Memory(settings, spec, kept, int(is_cut.sum()))


def scaled_rewards(memory: Memory, scale: float) -> np.ndarray:
    """Return the rewards of a memory, which are stored scaled, with another scale."""
    theirs = convert("reward_scale", memory.settings.get("reward_scale", 1.0), Positive)
    reward: np.ndarray = memory.rows["reward"]
    return reward if theirs == scale else (reward.astype(np.float64) / theirs * scale).astype(np.float32)


def _in_order(parts: list[Rows], envs: int, capacity: int) -> tuple[Rows, np.ndarray]:
    """Return the newest ``capacity`` rows by environment, and whether each belongs to an episode without beginning."""
    numbers = np.concatenate([int(part["start"]) + np.arange(len(part["reward"])) for part in parts])
    if not len(numbers) or (np.diff(numbers) != 1).any():
        raise ValueError("it lacks rows")
    order = np.lexsort((numbers, numbers % envs))
    numbers = numbers[order]
    rows = {name: np.concatenate([part[name] for part in parts])[order] for name in FIELDS}
    changes = numbers[1:] % envs != numbers[:-1] % envs  # the next row is of another environment
    begins = (numbers < envs) | np.append(False, rows["last"][:-1] & ~changes)
    rows["last"] = rows["last"] | np.append(changes, True)
    episode = np.cumsum(np.append(True, rows["last"][:-1])) - 1
    is_kept = numbers >= numbers.max() + 1 - capacity
    is_cut = ~np.isin(episode, episode[begins & is_kept])
    rows, is_cut, numbers = {name: rows[name][is_kept] for name in FIELDS}, is_cut[is_kept], numbers[is_kept]
    ended = [part for part in parts if len(part["successor_rows"])]
    known, successors = (np.concatenate([part[name] for part in ended]) for name in ("successor_rows", "successors"))
    by_number = np.argsort(known)
    places = np.searchsorted(known, numbers[rows["last"]], sorter=by_number)
    found = by_number[places]
    if (known[found] != numbers[rows["last"]]).any():
        raise ValueError("it lacks observations after the last steps of episodes")
    return {**rows, "successor_rows": np.flatnonzero(rows["last"]), "successors": successors[found]}, is_cut
