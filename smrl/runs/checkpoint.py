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

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.memory.shards import Shard, plan
from smrl.runs.files import checksum, load_arrays, save_arrays, sync, write_atomically, writing

FORMAT = 2
KEPT = 2  # checkpoints
SHARDS = 50  # of a checkpoint, at most
DAMAGE = (OSError, ValueError, KeyError, TypeError)  # what reading a damaged checkpoint may raise


class Saved(NamedTuple):
    """What a checkpoint holds besides the replay memory."""

    step: int
    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]  # JSON
    format: int = FORMAT


def save(folder: Path, saved: Saved, replay: Replay) -> None:
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
            "facts": saved.facts,
        }
        manifest = {"checksum": _digest(body), "body": body}
        write_atomically(aside / "manifest.json", json.dumps(manifest, indent=1).encode())
        os.rename(aside, place)
        sync(folder)
        _forget_old(folder)


def load(folder: Path, say: Callable[[str], None], replay: Replay | None = None) -> Saved | None:
    """Read the newest whole checkpoint, and its rows into the empty replay memory if given; None without one."""
    places = _places(folder)
    for place in reversed(places):
        try:
            body = _read_manifest(place)
            rows = _row_files(place, body) if replay else {}
            for path, digest in {place / "arrays.npz": body["arrays"], **rows}.items():
                if checksum(path) != digest:
                    raise ValueError(f"{path.name} has a wrong checksum")
        except DAMAGE as error:
            say(f"checkpoint {place} is damaged ({error}); using the one before it.")
            continue
        if replay:
            for path in rows:
                replay.restore(load_arrays(path))
            for damaged in places[places.index(place) + 1 :]:
                shutil.rmtree(damaged)
        return Saved(body["step"], load_arrays(place / "arrays.npz"), body["facts"], body["format"])
    if places:
        raise SmrlError(f"every checkpoint in {folder} is damaged; delete the run's folder to start it anew.")
    return None


def newest_step(folder: Path) -> int | None:
    """Step of the newest checkpoint, by the manifests alone; None without a readable one."""
    body = _newest_manifest(folder)
    return body["step"] if body else None


def _save_shards(folder: Path, replay: Replay) -> dict[str, str]:
    """Write the rows that have settled since the newest checkpoint; answer the checksums of all shards by name."""
    (folder / "replay").mkdir(parents=True, exist_ok=True)
    newest = _newest_manifest(folder)
    known: dict[str, str] = newest["replay"] if newest and newest["format"] == FORMAT else {}
    shards = {}
    for start, stop in plan(map(_shard, known), replay.oldest, replay.settled, replay.capacity, SHARDS):
        name = f"rows-{start:012d}-{stop:012d}.npz"
        shards[name] = known.get(name) or save_arrays(folder / "replay" / name, replay.rows(start, stop))
    sync(folder / "replay")
    return shards


def _shard(name: str) -> Shard:
    _, start, stop = name.removesuffix(".npz").split("-")
    return int(start), int(stop)


def _row_files(place: Path, body: dict[str, Any]) -> dict[Path, str]:
    """The files with a checkpoint's rows and their checksums, oldest rows first."""
    shards = {place.parent / "replay" / name: digest for name, digest in sorted(body["replay"].items())}
    return shards if body["format"] == 1 else {**shards, place / "tail.npz": body["tail"]}


def _forget_old(folder: Path) -> None:
    places = _places(folder)
    for place in places[:-KEPT]:
        shutil.rmtree(place)
    kept = filter(None, map(_manifest_if_whole, places[-KEPT:]))
    named = {name for body in kept for name in body["replay"]}
    for shard in (folder / "replay").iterdir():
        if shard.name not in named:
            shard.unlink()


def _places(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.name.isdigit()) if folder.exists() else []


def _newest_manifest(folder: Path) -> dict[str, Any] | None:
    return next(filter(None, map(_manifest_if_whole, reversed(_places(folder)))), None)


def _manifest_if_whole(place: Path) -> dict[str, Any] | None:
    try:
        return _read_manifest(place)
    except DAMAGE:
        return None


def _read_manifest(place: Path) -> dict[str, Any]:
    manifest = json.loads((place / "manifest.json").read_text())
    if manifest["checksum"] != _digest(manifest["body"]):
        raise ValueError("manifest.json has a wrong checksum")
    body: dict[str, Any] = {"format": 1, **manifest["body"]}
    if body["format"] > FORMAT:
        raise SmrlError(f"checkpoint {place} was written by a newer smrl; update smrl.")
    return body


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
