"""Write files so that a kill at any moment leaves the old or the new content, never a mixture."""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from smrl.errors import SmrlError
from smrl.reading import open_regular

CONTINUES = (
    "or choose another place with --runs, then start the same command again: it continues from the last checkpoint"
)


@contextmanager
def writing(what: Path, advice: str = CONTINUES) -> Iterator[None]:
    """Turn a full or unwritable disk into an SmrlError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise SmrlError(f"cannot write {what}: {reason}; make room {advice}.") from error


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """Make an empty folder, to be renamed to ``place``. If it is not renamed, delete it and the parents made for it."""
    new = place.with_name(f".{place.name}.new")
    missing = [parent for parent in place.parents if not parent.exists()]
    try:
        if os.path.lexists(new):
            discard(new)
        new.mkdir(parents=True)
        yield new
    finally:
        if new.exists():
            discard(new)
        for parent in missing:
            with suppress(OSError):  # it is not empty, or was not made
                parent.rmdir()


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    is_folder = path.is_dir()
    if is_folder and not hasattr(os, "O_DIRECTORY"):
        return  # Windows cannot open a folder
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)  # Windows flushes only writable files
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the content of a file."""
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    sync(new)
    os.replace(new, path)
    sync(path.parent)


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> str:
    """Write arrays as an .npz file, atomically and without pickle; return its checksum."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    sync(new)
    if path.is_dir():
        discard(path)
    os.replace(new, path)
    return checksum(path)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def discard(path: Path) -> None:
    """Delete a file, a folder or a link, but not what a link points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def foreign_files(run: Path) -> dict[Path, str]:
    """Return what is neither a folder nor a regular file in a run's folder, and what it is.

    Files outside the folder could be written, deleted or read through a link. The folder of W&B does not count: W&B
    makes links itself, and smrl uses nothing there.
    """
    found = {}
    for place, folders, names in os.walk(run):
        for path in (Path(place, name) for name in (*folders, *names)):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                found[path] = "a link"
            elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                found[path] = "not a regular file"
        if "wandb" in folders and Path(place) == run:
            folders.remove("wandb")
    return found
