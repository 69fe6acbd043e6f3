"""Make a damaged run usable again, with as little loss as possible."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from smrl.errors import SmrlError, require
from smrl.memory.replay import Rows
from smrl.runs import manifests
from smrl.runs.atomic import discard, load_arrays, save_arrays, sync, write_atomically, writing
from smrl.runs.config import CONFIG, Damaged, read_config, upgraded
from smrl.runs.identity import flat
from smrl.runs.paths import RunDirectory
from smrl.runs.tables import TABLES, as_bytes


def repair(path: Path) -> list[str]:
    """Rebuild config.json and the tables, and leave damaged rows out of the replay memory; what was done, in words."""
    require(
        any((path / name).exists() for name in (CONFIG, manifests.FOLDER)),
        f"{path} is not a run: it has neither {CONFIG} nor a checkpoint; give the folder of a run.",
    )
    with RunDirectory(path).locked():
        return [*mend(path), *_mend_replay(path)]


def mend(path: Path) -> list[str]:
    """Restore config.json and the tables of a run from its newest manifest, without loss; what was done, in sentences.

    The caller holds the run's lock.
    """
    newest = manifests.newest(path / manifests.FOLDER)
    facts = newest["facts"] if newest else {}
    with writing(path):
        return [*_mend_config(path, facts.get("config")), *_mend_tables(path, facts.get("tables", {}))]


def _mend_config(path: Path, config: dict[str, Any] | None) -> list[str]:
    file = path / CONFIG
    try:
        if config is None or file.exists():
            read_config(path)
            return []
        reason = f"{file} was gone"
    except Damaged:
        if config is None:
            raise
        reason = f"{file} was damaged"
    except SmrlError:
        if file.exists():
            raise
        return []  # a run that has not begun
    upgraded(config, file)
    write_atomically(file, json.dumps(config, indent=2).encode())
    return [f"{reason}; it is rebuilt from the checkpoint."]


def _mend_tables(path: Path, tables: dict[str, list[str]]) -> list[str]:
    """Restore the tables whose rows up to the checkpoint have changed; rows after it may be lost with them."""
    messages = []
    for file in (path / name for name in TABLES if name in tables):
        content = as_bytes(tables[file.name])
        found = file.read_bytes() if file.exists() else b""
        if not found.startswith(content):
            write_atomically(file, content)
            rows = max(0, len(tables[file.name]) - 1)
            messages.append(f"{file} was damaged or gone; its {rows} rows are restored from the checkpoint.")
    return messages


def _mend_replay(path: Path) -> list[str]:
    """Make the newest checkpoint whose arrays are whole usable without the rows that are damaged."""
    folder = path / manifests.FOLDER
    places = manifests.places(folder)
    if not places:
        return [f"{path} has no checkpoint yet; the same command trains it from the start."]
    if place := next(filter(_is_whole, reversed(places)), None):
        return [f"checkpoint {place} is whole; the run goes on from it bit for bit."]
    place = next(filter(manifests.has_whole_arrays, reversed(places)), None)
    if place is None:
        raise SmrlError(
            f"no checkpoint in {folder} can be repaired, for their arrays are damaged: restore the files from a copy, "
            f"or move {path} out of the runs folder to train anew."
        )
    body, settings = manifests.read(place), flat(read_config(path)["settings"])
    envs, capacity = settings.get("envs", 1), settings.get("capacity", 1_000_000)
    added = _added(body, envs)
    oldest = max(0, added - capacity)
    files = manifests.row_files(place, body)
    parts = [load_arrays(file) for file, digest in files.items() if manifests.damage(file, digest) is None]
    kept = without_gaps(parts, envs, oldest, added) if parts else {"reward": np.zeros(0)}
    count, replay = len(kept["reward"]), dict[str, str]()
    with writing(folder):
        (folder / "replay").mkdir(exist_ok=True)
        if count:
            name = f"kept-{0:012d}-{count:012d}.npz"
            replay[name] = save_arrays(folder / "replay" / name, kept)
            sync(folder / "replay")
        manifests.write(place, body | {"replay": replay, "tail": None})
        for other in places:  # all are damaged, and the rows have other numbers from now on
            if other != place:
                discard(other)
    return [
        f"{added - oldest - count:,} of the {added - oldest:,} transitions in the replay memory are lost; the run goes "
        f"on from step {body['step']:,} without them, so its numbers will differ from those of an undisturbed run."
    ]


def _is_whole(place: Path) -> bool:
    body = manifests.read_if_whole(place)
    files = {place / "arrays.npz": body["arrays"], **manifests.row_files(place, body)} if body else {}
    return bool(files) and not any(manifests.damage(*file) for file in files.items())


def _added(body: manifests.Body, envs: int) -> int:
    """The number of rows that were ever added, by the names of a checkpoint's shards."""
    stops = [int(name.removesuffix(".npz").rpartition("-")[2]) for name in body["replay"]]
    return max(stops, default=0) + (envs if body["tail"] is not None else 0)


def without_gaps(parts: list[Rows], envs: int, oldest: int, added: int) -> Rows:
    """What is left of a replay memory's rows from oldest to added, numbered anew from 0, for `Replay.restore`.

    The rows of all environments at one step are kept or left out together, so that row i still belongs to environment
    i % envs. A row before a gap becomes the last of its episode, and stays only if what was observed after it is known.
    """
    numbers, rows, stored = _joined(parts)
    place = {row: index for index, row in enumerate(numbers.tolist())}
    following = np.array([place.get(row + envs, -1) for row in numbers.tolist()], int)
    is_stored = np.isin(numbers, list(stored))
    is_usable = (numbers >= oldest) & (is_stored | (following >= 0))
    groups, group = np.unique(numbers // envs, return_inverse=True)
    kept = (np.bincount(group, is_usable, len(groups)) == envs)[group]
    before_gap = kept & ~rows["last"] & (numbers + envs < added) & ~((following >= 0) & kept[following])
    rows["last"] |= before_gap
    apart = np.flatnonzero((rows["last"] | (numbers + envs >= added))[kept])
    old = np.flatnonzero(kept)[apart].tolist()
    successors = [stored.get(int(numbers[index]), rows["obs"][following[index]]) for index in old]
    return {name: values[kept] for name, values in rows.items()} | {
        "start": np.array(0),
        "successor_rows": apart,
        "successors": np.array(successors, rows["obs"].dtype).reshape(-1, *rows["obs"].shape[1:]),
    }


def _joined(parts: list[Rows]) -> tuple[np.ndarray, Rows, dict[int, np.ndarray]]:
    """The numbers of all rows, their fields, and the successors that are stored apart, by row."""
    numbers = np.concatenate([part["start"] + np.arange(len(part["reward"])) for part in parts])
    names = ("obs", "action", "reward", "terminated", "last")
    rows = {name: np.concatenate([part[name] for part in parts]) for name in names}
    stored: dict[int, np.ndarray] = {}
    for part in parts:
        stored |= zip(part["successor_rows"].tolist(), part["successors"], strict=True)
        # Only checkpoints of format 1 have it: the episodes of the rows before these may have been cut meanwhile.
        cut = part.get("last_before", np.zeros(0, np.bool_))
        before = part["start"] - len(cut) + np.arange(len(cut))
        rows["last"][np.isin(numbers, before[cut])] = True
    return numbers, rows, stored
