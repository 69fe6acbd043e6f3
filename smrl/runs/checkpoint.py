"""Save a run and continue it bit for bit.

    checkpoint/
      replay/rows-000000000000-000000005000.npz            shards: rows of the replay memory that no longer change
      000000005000/arrays.npz, tail.npz, manifest.json     a checkpoint: its arrays, the newest rows of the replay
                                                           memory, its facts and the checksums of its files

A checkpoint is written to a temporary folder that is then renamed, so it is there completely or not at all. The one
before it is kept. Only what is new is written: a shard of an earlier checkpoint is only listed again, until there are
too many shards and some are merged.
"""

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import numpy as np
from msgspec import Meta

from smrl.errors import SmrlError, require
from smrl.memory.replay import Replay, Rows, Snapshot
from smrl.plugins import in_words
from smrl.reading import load_arrays, parse_json, read_bytes, refusal, unreadable
from smrl.runs.atomic import checksum, discard, save_arrays, sync, write_atomically, writing
from smrl.runs.config import other_version

FORMAT = 3
MANIFEST, ARRAYS, TAIL, REPLAY = "manifest.json", "arrays.npz", "tail.npz", "replay"
KEPT = 2  # checkpoints that are kept
MAX_SHARDS = 50  # shards per checkpoint, unless they would be larger than LARGEST_SHARD
LARGEST_SHARD = 2**28  # bytes; a shard is in memory while it is written or read
DAMAGE = (OSError, ValueError)  # what reading a damaged checkpoint may raise

Digest = Annotated[str, Meta(max_length=64)]
Step = Annotated[int, Meta(ge=0, lt=10**12)]
Manifest = dict[str, Any]  # checked against _Stored
Shard = tuple[int, int]  # its first row, and the row after its last

# rows-… holds settled rows, kept-… all rows that a repair has kept.
_SHARD_NAME = re.compile(r"(rows|kept)-\d{12,}-\d{12,}\.npz", re.ASCII)


class _Episode(TypedDict):
    number: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    total: float
    over: bool


class _Best(TypedDict):
    mean: float
    step: Step


class _Facts(TypedDict):
    episodes: list[_Episode]
    seconds: float
    best: _Best | None
    config: dict[str, Any]  # `smrl.runs.config.check_config` checks it
    tables: dict[Literal["evaluations.csv", "training.csv"], list[str]]
    reuse: NotRequired[Annotated[str, Meta(max_length=5_000)]]  # schedule so far of a run with --reuse budget


class _Manifest(TypedDict):
    format: int
    step: Step
    arrays: Digest
    tail: Digest | None  # None after a repair
    replay: Annotated[dict[Annotated[str, Meta(max_length=50)], Digest], Meta(max_length=10_000)]
    sizes: dict[str, Annotated[int, Meta(ge=0, le=2**63 - 1)]]
    facts: _Facts


class _Stored(TypedDict):
    checksum: Digest
    body: _Manifest


class Saved(NamedTuple):
    """What a checkpoint holds besides the replay memory."""

    step: int
    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]  # JSON


def save(folder: Path, saved: Saved, replay: Replay | Snapshot) -> None:
    """Write a checkpoint, unless this step has one already."""
    path = folder / f"{saved.step:012d}"
    if path.exists():
        return
    with writing(folder):
        shards = _save_shards(folder, replay)
        new = folder / ".new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        manifest = {
            "format": FORMAT,
            "step": saved.step,
            "arrays": save_arrays(new / ARRAYS, saved.arrays),
            "tail": save_arrays(new / TAIL, replay.rows(replay.settled, replay.added)),
            "replay": shards,
            "sizes": {name: (folder / REPLAY / name).stat().st_size for name in shards},
            "facts": saved.facts,
        }
        write_manifest(new, manifest)
        os.rename(new, path)
        sync(folder)
        _discard_old(folder)


def load(folder: Path, notify: Callable[[str], None], replay: Replay | None = None) -> Saved | None:
    """Read the newest intact checkpoint; return None without any.

    If an empty replay memory is given, its rows are restored, and newer checkpoints that are damaged are deleted.
    """
    paths = checkpoints(folder)
    damaged: dict[Path, str] = {}
    for path in reversed(paths):
        try:
            manifest = read_manifest(path)
            rows = row_files(path, manifest) if replay else {}
            if reason := find_damage({path / ARRAYS: manifest["arrays"], **rows}):
                raise ValueError(reason)
            arrays = load_arrays(path / ARRAYS)
        except DAMAGE as error:
            damaged[path] = str(error)
            continue
        for other, why in damaged.items():
            notify(f"checkpoint {other} is damaged ({why}); using that of step {manifest['step']:,}.")
            if replay:
                discard(other)
        if replay:
            for file in rows:
                try:
                    replay.restore(load_arrays(file))
                except (KeyError, *DAMAGE) as error:
                    raise SmrlError(f"{file} does not hold rows of this run ({in_words(error)}).") from error
        return Saved(manifest["step"], arrays, manifest["facts"])
    if paths:
        raise _all_damaged(folder, damaged)
    return None


def read_rows(folder: Path, notify: Callable[[str], None], largest: int) -> list[Rows]:
    """Read the replay memory of the newest intact checkpoint, oldest rows first, without changing anything.

    The result is empty without a checkpoint. A memory of more than ``largest`` bytes is refused.
    """
    damaged: dict[Path, str] = {}
    for path in reversed(checkpoints(folder)):
        try:
            files = row_files(path, read_manifest(path))
            if reason := find_damage(files):
                raise ValueError(reason)
            size = sum(file.stat().st_size for file in files)
            require(size <= largest, f"the replay memory in {path} has {size:,} bytes, more than {largest:,} fit.")
            parts = [load_arrays(file) for file in files]
        except DAMAGE as error:
            damaged[path] = str(error)
            continue
        for other, why in damaged.items():
            notify(f"checkpoint {other} is damaged ({why}); using {path}.")
        return parts
    if damaged:
        raise _all_damaged(folder, damaged)
    return []


def newest_step(folder: Path) -> int | None:
    """Return the step of the newest checkpoint whose arrays are intact; None without one."""
    return next((int(path.name) for path in reversed(checkpoints(folder)) if has_intact_arrays(path)), None)


def _all_damaged(folder: Path, damaged: dict[Path, str]) -> SmrlError:
    for path in unreadable(folder):
        return refusal(path)
    run, reasons = folder.parent, ", ".join(dict.fromkeys(damaged.values()))
    if is_without_rows(folder):
        return SmrlError(
            f"{run} is a run without its replay memory: it can act, but not be continued. Start a new run from its "
            f"networks with --from {run}, or restore {folder / REPLAY} from a copy."
        )
    if any(map(has_intact_arrays, damaged)):
        return SmrlError(
            f"the replay memory of every checkpoint in {folder} is damaged ({reasons}): smrl doctor {run} --repair "
            "continues the run without the damaged rows."
        )
    return SmrlError(
        f"every checkpoint in {folder} is damaged ({reasons}): restore the files from a copy, or move {run} out of the "
        "runs folder to train it again."
    )


def is_without_rows(folder: Path) -> bool:
    """Return whether the replay memory was left out: checkpoints list files of rows, and none of them is there."""
    manifests = {path: read_manifest_if_intact(path) for path in checkpoints(folder)}
    files = [file for path, manifest in manifests.items() if manifest for file in row_files(path, manifest)]
    return bool(files) and not any(map(os.path.lexists, files))


def _discard_old(folder: Path) -> None:
    """Delete old checkpoints, and the shards that no remaining one lists."""
    paths = checkpoints(folder)
    for path in paths[:-KEPT]:
        discard(path)
    kept = filter(None, map(read_manifest_if_intact, paths[-KEPT:]))
    listed = {name for manifest in kept for name in manifest["replay"]}
    for shard in (folder / REPLAY).iterdir():
        if shard.name not in listed:
            discard(shard)


class Writer:
    """Writes the checkpoints of a run, at most one at a time, in another thread while the run goes on."""

    def __init__(self, folder: Path, replay: Replay) -> None:
        self.folder, self.replay = folder, replay
        self._snapshot: Snapshot | None = None
        self._task: Future[None] | None = None  # writes the snapshot

    def save(self, saved: Saved, before: Callable[[], None]) -> None:
        """Call ``before``, write a checkpoint, and wait until both are on the disk."""
        self._finish()
        self._write(saved, before, self.replay)

    def begin(self, saved: Saved, before: Callable[[], None]) -> None:
        """Do as `save` does, but in another thread; the arrays must be copies. The next call raises its errors."""
        self._finish()
        self._snapshot = Snapshot(self.replay)
        pool = ThreadPoolExecutor(1, "checkpoint")
        self._task = pool.submit(self._write, saved, before, self._snapshot)
        pool.shutdown(wait=False)  # the thread ends with the task

    def is_busy(self) -> bool:
        """Return whether a checkpoint is being written."""
        return self._task is not None and not self._task.done()

    def keep(self, count: int) -> None:
        """Prepare for ``count`` rows that are about to be added."""
        if self._snapshot is not None and self.is_busy():
            self._snapshot.keep(count)

    def close(self) -> None:
        """Wait for the checkpoint that is being written."""
        wait([self._task] if self._task else [])

    def _finish(self) -> None:
        task, self._task, self._snapshot = self._task, None, None
        if task is not None:
            task.result()

    def _write(self, saved: Saved, before: Callable[[], None], replay: Replay | Snapshot) -> None:
        before()
        save(self.folder, saved, replay)


# Manifests: the files of a checkpoint with their checksums, and its facts


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, oldest first."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in found if re.fullmatch(r"\d{12,}", path.name, re.ASCII))


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a checkpoint; raise one of DAMAGE if it is damaged."""
    try:
        stored = parse_json(read_bytes(path / MANIFEST))
        manifest: Manifest = msgspec.convert(stored, dict[str, Any])["body"]
        if stored["checksum"] != _digest(manifest):
            raise ValueError("it has a wrong checksum")
        if manifest["format"] != FORMAT:
            raise other_version(f"checkpoint {path}")
        msgspec.convert(stored, _Stored)
    except (KeyError, TypeError, ValueError) as error:  # msgspec's errors among them
        raise ValueError(f"{MANIFEST}: {error}") from None
    if manifest["step"] != int(path.name):
        raise ValueError(f"{MANIFEST} belongs to step {manifest['step']!r}")
    for name in manifest["replay"]:
        if not _SHARD_NAME.fullmatch(name):  # a name in a downloaded run must not lead out of its folder
            raise ValueError(f"{MANIFEST} names a file {name!r}")
    return manifest


def read_manifest_if_intact(path: Path) -> Manifest | None:
    """Read the manifest of a checkpoint; return None if it is damaged."""
    try:
        return read_manifest(path)
    except DAMAGE:
        return None


def newest_manifest(folder: Path) -> Manifest | None:
    """Return the newest intact manifest, even if the checkpoint's other files are damaged."""
    return next(filter(None, map(read_manifest_if_intact, reversed(checkpoints(folder)))), None)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write or replace the manifest of a checkpoint."""
    stored = {"checksum": _digest(manifest), "body": manifest}
    write_atomically(path / MANIFEST, json.dumps(stored, indent=1).encode())


def row_files(path: Path, manifest: Manifest) -> dict[Path, str]:
    """Return the files with a checkpoint's rows and their checksums, oldest rows first."""
    shards = {path.parent / REPLAY / name: digest for name, digest in sorted(manifest["replay"].items())}
    return shards if manifest["tail"] is None else {**shards, path / TAIL: manifest["tail"]}  # None after a repair


def find_damage(files: dict[Path, str]) -> str | None:
    """Describe the first of these files that does not have its checksum; return None if all do."""
    for file, digest in files.items():
        try:
            if checksum(file) != digest:
                return f"{file.name} has a wrong checksum"
        except OSError as error:
            return f"{file.name}: {error.strerror}"
    return None


def has_intact_arrays(path: Path) -> bool:
    """Return whether manifest and arrays of a checkpoint are intact, whatever the state of its replay memory."""
    manifest = read_manifest_if_intact(path)
    return manifest is not None and find_damage({path / ARRAYS: manifest["arrays"]}) is None


def _digest(manifest: Manifest) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


# Shards: which rows of the replay memory share a file, so that there are few files and no row is written often


def _save_shards(folder: Path, replay: Replay | Snapshot) -> dict[str, str]:
    """Write the rows that have settled since the newest checkpoint; return the checksums of all shards by name."""
    (folder / REPLAY).mkdir(parents=True, exist_ok=True)
    newest = newest_manifest(folder) or {"replay": {}, "sizes": {}}
    known = {name: digest for name, digest in newest["replay"].items() if name.startswith("rows-")}
    # A shard holds at most 8 / limit of the memory, see plan_shards.
    limit = max(MAX_SHARDS, math.ceil(8 * replay.capacity * replay.row_bytes / LARGEST_SHARD))
    shards = {}
    for start, stop in plan_shards(map(shard_bounds, known), replay.oldest, replay.settled, replay.capacity, limit):
        name = f"rows-{start:012d}-{stop:012d}.npz"
        path = folder / REPLAY / name
        is_saved = name in known and path.is_file() and path.stat().st_size == newest["sizes"].get(name)
        shards[name] = known[name] if is_saved else save_arrays(path, replay.rows(start, stop))
    sync(folder / REPLAY)
    return shards


def shard_bounds(name: str) -> Shard:
    """Return the rows that a shard holds, by its name."""
    _, start, stop = name.removesuffix(".npz").split("-")
    return int(start), int(stop)


def plan_shards(saved: Iterable[Shard], oldest: int, stop: int, capacity: int, limit: int) -> list[Shard]:
    """Return at most ``limit`` shards that hold the rows from ``oldest`` to ``stop``, keeping saved ones if possible.

    Each holds at most the fraction 8 / limit of the memory, because a shard is copied to be written, and stays on disk
    until its last row has left the memory.

    >>> plan_shards([(0, 30), (30, 31)], oldest=0, stop=32, capacity=100, limit=3)
    [(0, 30), (30, 31), (31, 32)]
    >>> plan_shards([(0, 30), (30, 31), (31, 32)], oldest=0, stop=33, capacity=100, limit=3)
    [(0, 30), (30, 33)]
    """
    largest = 8 * capacity // limit + 1
    shards = sorted(shard for shard in saved if shard[1] > oldest)
    begin = shards[-1][1] if shards else oldest
    shards += [(start, min(start + largest, stop)) for start in range(begin, stop, largest)]
    while len(shards) > limit:
        first, last = _cheapest_merger(shards, oldest, largest)
        shards[first : last + 1] = [(max(shards[first][0], oldest), shards[last][1])]
    return shards


def _cheapest_merger(shards: list[Shard], oldest: int, largest: int) -> tuple[int, int]:
    """Return the first and last of the neighbours whose union exceeds the largest of them by the greatest factor.

    Each time a row is written again, its shard has grown by that factor, so it is written about log(rows) times. There
    are always such neighbours: if any two held more than ``largest`` rows, there would be fewer shards than the limit.
    """
    sizes = [stop - max(start, oldest) for start, stop in shards]
    share, best = 1.0, (0, 0)
    for first in range(len(sizes) - 1):
        rows = most = sizes[first]
        for last in range(first + 1, len(sizes)):
            rows, most = rows + sizes[last], max(most, sizes[last])
            if rows > largest:
                break
            if most / rows < share:
                share, best = most / rows, (first, last)
    return best
