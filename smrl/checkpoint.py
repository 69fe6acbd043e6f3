"""Save a run and continue it bit for bit.

    checkpoint/
      replay/000000000000-000000005000.npz     rows of the replay memory, written once
      000000005000/arrays.npz, manifest.json   a checkpoint: its arrays, its facts, the checksums of its files

A checkpoint is made aside and renamed into place, so it is there as a whole or not at all; the one before it is
kept. It costs what is new: rows that an earlier checkpoint wrote are only named again.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from smrl.errors import SmrlError
from smrl.files import checksum, load_arrays, save_arrays, sync, write_atomically, writing
from smrl.replay import Replay

KEPT = 2


class Saved(NamedTuple):
    """What a checkpoint holds besides the replay memory."""

    step: int
    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]  # JSON


def save(folder: Path, saved: Saved, replay: Replay) -> None:
    """Write a checkpoint; a step that has one already is left alone."""
    place = folder / f"{saved.step:012d}"
    if place.exists():
        return
    with writing(folder):
        shards = _kept_shards(folder, replay.oldest)
        saved_rows = max((_rows(name)[1] for name in shards), default=0)
        (folder / "replay").mkdir(parents=True, exist_ok=True)
        if replay.added > saved_rows:
            name = f"{max(saved_rows, replay.oldest):012d}-{replay.added:012d}.npz"
            shards[name] = save_arrays(folder / "replay" / name, replay.since(saved_rows))
        sync(folder / "replay")

        aside = folder / ".new"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        body = {
            "step": saved.step,
            "arrays": save_arrays(aside / "arrays.npz", saved.arrays),
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
            _verify(place / "arrays.npz", body["arrays"])
            for name, digest in body["replay"].items() if replay else ():
                _verify(folder / "replay" / name, digest)
        except (OSError, ValueError, KeyError, TypeError) as error:
            say(f"checkpoint {place} is damaged ({error}); using the one before it.")
            continue
        if replay:
            for name in sorted(body["replay"]):
                replay.restore(load_arrays(folder / "replay" / name))
            for damaged in places[places.index(place) + 1 :]:
                shutil.rmtree(damaged)
        return Saved(body["step"], load_arrays(place / "arrays.npz"), body["facts"])
    if places:
        raise SmrlError(f"every checkpoint in {folder} is damaged; delete the run's folder to start it anew.")
    return None


def to_arrays(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a pytree by their path."""
    leaves = jax.tree_util.tree_flatten_with_path(jax.device_get(tree))[0]
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def from_arrays(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A pytree of the template's structure from `to_arrays`' answer."""

    def leaf(path: Any, like: Any) -> jax.Array:
        name = jax.tree_util.keystr(path)
        if name not in arrays or arrays[name].shape != like.shape or arrays[name].dtype != like.dtype:
            raise SmrlError(f"the checkpoint does not fit this algorithm at {name}; it is of another version.")
        return jax.numpy.array(arrays[name])

    return jax.tree_util.tree_map_with_path(leaf, template)


def _places(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.name.isdigit()) if folder.exists() else []


def _rows(shard: str) -> tuple[int, int]:
    start, stop = shard.removesuffix(".npz").split("-")
    return int(start), int(stop)


def _kept_shards(folder: Path, oldest: int) -> dict[str, str]:
    """The shards of the newest checkpoint that still hold a row which the memory has."""
    places = _places(folder)
    shards = _read_manifest(places[-1])["replay"] if places else {}
    return {name: digest for name, digest in shards.items() if _rows(name)[1] > oldest}


def _forget_old(folder: Path) -> None:
    places = _places(folder)
    for place in places[:-KEPT]:
        shutil.rmtree(place)
    named = {name for place in places[-KEPT:] for name in _read_manifest(place)["replay"]}
    for shard in (folder / "replay").iterdir():
        if shard.name not in named:
            shard.unlink()


def _read_manifest(place: Path) -> dict[str, Any]:
    manifest = json.loads((place / "manifest.json").read_text())
    if manifest["checksum"] != _digest(manifest["body"]):
        raise ValueError("manifest.json has a wrong checksum")
    body: dict[str, Any] = manifest["body"]
    return body


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _verify(path: Path, digest: str) -> None:
    if checksum(path) != digest:
        raise ValueError(f"{path.name} has a wrong checksum")
