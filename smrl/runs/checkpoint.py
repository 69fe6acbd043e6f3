"""Save a run and continue it bit for bit.

    checkpoint/
      replay/rows-000000000000-000000005000.npz            rows of the replay memory that no longer change
      000000005000/arrays.npz, tail.npz, manifest.json     a checkpoint: its arrays, the newest rows of the replay
                                                           memory, its facts and the checksums of its files

A checkpoint is made aside and renamed into place, so it is there as a whole or not at all; the one before it is
kept. It costs what is new: shards that an earlier checkpoint wrote are only named again, unless they became many and
are merged.

Format 1, which is still read, had no tail: its shards ended with the newest row and said which of the rows before
them had become the last of their episode.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from smrl.errors import SmrlError
from smrl.memory.replay import Replay, Rows
from smrl.runs import manifests
from smrl.runs.atomic import discard, load_arrays, save_arrays, sync, writing
from smrl.runs.manifests import FORMAT
from smrl.runs.shards import Shard, needed, plan

KEPT = 2  # checkpoints
SHARDS = 50  # of a checkpoint, at most, unless one would be too large for it


class Saved(NamedTuple):
    """What a checkpoint holds besides the replay memory."""

    step: int
    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]  # JSON
    format: int = FORMAT


class Memory(Protocol):
    """What a checkpoint needs of a replay memory."""

    capacity: int
    added: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""

    @property
    def oldest(self) -> int:
        """The first row that is still there."""

    @property
    def settled(self) -> int:
        """The first row that may still change."""

    def rows(self, start: int, stop: int) -> Rows:
        """The rows from start to stop."""


def save(folder: Path, saved: Saved, replay: Memory) -> None:
    """Write a checkpoint; a step that has one already is left alone."""
    place = folder / f"{saved.step:012d}"
    if place.exists():
        return
    with writing(folder):
        shards = _save_shards(folder, replay)
        aside = folder / ".new"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        body = {
            "format": FORMAT,
            "step": saved.step,
            "arrays": save_arrays(aside / "arrays.npz", saved.arrays),
            "tail": save_arrays(aside / "tail.npz", replay.rows(replay.settled, replay.added)),
            "replay": shards,
            "sizes": {name: (folder / "replay" / name).stat().st_size for name in shards},
            "facts": saved.facts,
        }
        manifests.write(aside, body)
        os.rename(aside, place)
        sync(folder)
        _forget_old(folder)


def load(folder: Path, notify: Callable[[str], None], replay: Replay | None = None) -> Saved | None:
    """Read the newest whole checkpoint, and its rows into the empty replay memory if given; None without one."""
    places = manifests.places(folder)
    damaged: dict[Path, str] = {}
    for place in reversed(places):
        try:
            body = manifests.read(place)
            rows = manifests.row_files(place, body) if replay else {}
            files = {place / "arrays.npz": body["arrays"], **rows}
            if reason := next(filter(None, (manifests.damage(*file) for file in files.items())), None):
                raise ValueError(reason)
        except manifests.DAMAGE as error:
            damaged[place] = str(error)
            continue
        for other, why in damaged.items():
            notify(f"checkpoint {other} is damaged ({why}); using the one before it.")
            if replay:
                discard(other)
        if replay:
            for path in rows:
                replay.restore(load_arrays(path))
        return Saved(body["step"], load_arrays(place / "arrays.npz"), body["facts"], body["format"])
    if places:
        raise _all_damaged(folder, damaged)
    return None


def newest_step(folder: Path) -> int | None:
    """Step of the newest checkpoint whose arrays are whole; None without one."""
    return next(
        (int(place.name) for place in reversed(manifests.places(folder)) if manifests.has_whole_arrays(place)), None
    )


def _all_damaged(folder: Path, damaged: dict[Path, str]) -> SmrlError:
    """What to do where no checkpoint is whole."""
    run, reasons = folder.parent, ", ".join(dict.fromkeys(damaged.values()))
    if any(map(manifests.has_whole_arrays, damaged)):
        return SmrlError(
            f"the replay memory of every checkpoint in {folder} is damaged ({reasons}): smrl repair {run} lets "
            "the run go on without the damaged rows."
        )
    return SmrlError(
        f"every checkpoint in {folder} is damaged ({reasons}): restore the files from a copy, or move {run} out of the "
        "runs folder to train anew."
    )


def _save_shards(folder: Path, replay: Memory) -> dict[str, str]:
    """Write the rows that have settled since the newest checkpoint; answer the checksums of all shards by name."""
    (folder / "replay").mkdir(parents=True, exist_ok=True)
    newest = manifests.newest(folder)
    known: dict[str, str] = {}
    if newest and newest["format"] == FORMAT:
        known = {name: digest for name, digest in newest["replay"].items() if name.startswith("rows-")}
    shards, limit = {}, max(SHARDS, needed(replay.capacity, replay.row_bytes))
    for start, stop in plan(map(_shard, known), replay.oldest, replay.settled, replay.capacity, limit):
        name = f"rows-{start:012d}-{stop:012d}.npz"
        path = folder / "replay" / name
        is_there = name in known and newest and _has_size(path, newest.get("sizes", {}).get(name))
        shards[name] = known[name] if is_there else save_arrays(path, replay.rows(start, stop))
    sync(folder / "replay")
    return shards


def _has_size(path: Path, size: int | None) -> bool:
    """Whether a shard's file is there, of the size that it was written with where that is known."""
    return path.is_file() and size in (None, path.stat().st_size)


def _shard(name: str) -> Shard:
    _, start, stop = name.removesuffix(".npz").split("-")
    return int(start), int(stop)


def _forget_old(folder: Path) -> None:
    places = manifests.places(folder)
    for place in places[:-KEPT]:
        discard(place)
    kept = filter(None, map(manifests.read_if_whole, places[-KEPT:]))
    named = {name for body in kept for name in body["replay"]}
    for shard in (folder / "replay").iterdir():
        if shard.name not in named:
            discard(shard)
