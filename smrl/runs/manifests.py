"""The manifests of checkpoints: which files a checkpoint has, with their checksums, and its facts. Needs no JAX."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from smrl.errors import SmrlError
from smrl.runs.atomic import checksum, write_atomically

FORMAT = 2
FOLDER = "checkpoint"  # of a run
DAMAGE = (OSError, ValueError, KeyError, TypeError, RecursionError)  # what reading a damaged checkpoint may raise

Body = dict[str, Any]

# rows-… holds settled rows, kept-… those that a repair has kept; format 1 had no prefix.
_SHARD = re.compile(r"(rows-|kept-)?\d{12,}-\d{12,}\.npz", re.ASCII)


def places(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in found if re.fullmatch(r"\d{12,}", path.name, re.ASCII))


def read(place: Path) -> Body:
    """The manifest of a checkpoint; raises one of DAMAGE where it is damaged."""
    manifest = json.loads((place / "manifest.json").read_text(encoding="utf-8"))
    if manifest["checksum"] != _digest(manifest["body"]):
        raise ValueError("manifest.json has a wrong checksum")
    body: Body = {"format": 1, "tail": None, **manifest["body"]}
    if body["format"] > FORMAT:
        raise SmrlError(f"checkpoint {place} was written by a newer smrl; update smrl.")
    if body["step"] != int(place.name):
        raise ValueError(f"manifest.json is of step {body['step']!r}")
    for name in body["replay"]:
        if not _SHARD.fullmatch(name):  # a name from somebody else's run must not lead out of its folder
            raise ValueError(f"manifest.json names a file {name!r}")
    return body


def read_if_whole(place: Path) -> Body | None:
    """The manifest of a checkpoint; None where it is damaged."""
    try:
        return read(place)
    except DAMAGE:
        return None


def newest(folder: Path) -> Body | None:
    """The newest manifest that is whole, whether the checkpoint's other files are or not."""
    return next(filter(None, map(read_if_whole, reversed(places(folder)))), None)


def write(place: Path, body: Body) -> None:
    """Replace the manifest of a checkpoint as a whole."""
    manifest = {"checksum": _digest(body), "body": body}
    write_atomically(place / "manifest.json", json.dumps(manifest, indent=1).encode())


def row_files(place: Path, body: Body) -> dict[Path, str]:
    """The files with a checkpoint's rows and their checksums, oldest rows first."""
    shards = {place.parent / "replay" / name: digest for name, digest in sorted(body["replay"].items())}
    return shards if body["tail"] is None else {**shards, place / "tail.npz": body["tail"]}


def damage(path: Path, digest: str) -> str | None:
    """What is wrong with a file that should have this checksum; None if it is whole."""
    try:
        return None if checksum(path) == digest else f"{path.name} has a wrong checksum"
    except OSError as error:
        return f"{path.name}: {error.strerror}"


def has_whole_arrays(place: Path) -> bool:
    """Whether manifest and arrays of a checkpoint are whole, so that at most its replay memory is damaged."""
    body = read_if_whole(place)
    return body is not None and damage(place / "arrays.npz", body["arrays"]) is None


def _digest(body: Body) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
