"""Find the sources of data that a user names, and read them into the rows of one replay memory."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from smrl.data import minari, runs
from smrl.data.rows import from_arrays, join
from smrl.errors import SmrlError, require
from smrl.memory.replay import Rows
from smrl.reading import load_arrays
from smrl.settings import Settings
from smrl.types import Spec

MINARI = "minari:"
_REFERENCE = re.compile(r"[^\W\d][\w.]*:\D")
KINDS = "minari:DATASET-ID, the folder of a Minari dataset, an .npz file, a run, or a folder of runs"


def names_module(text: str) -> bool:
    """Return whether a text is ``module:name``, which a user may give for most settings, and not a source of data.

    >>> [names_module(text) for text in ("my_module:Env-v0", "10:300000,1", "minari:pen/human-v2")]
    [True, False, False]
    """
    return _REFERENCE.match(text) is not None and not text.startswith(MINARI)


def load(
    settings: Settings[Any], spec: Spec, here: Path, run: Path, largest: int, notify: Callable[[str], None]
) -> Rows:
    """Read all sources of a run; together they have at most ``largest`` bytes.

    Paths are relative to the folder ``here``. ``run`` is the folder of the run that will learn from the data.
    """
    parts: list[Rows] = []
    for source in settings.data or ():
        left = largest - sum(_size(part) for part in parts)
        try:
            parts += _read(source, settings, spec, here, run, left, notify)
        except SmrlError as error:
            raise SmrlError(f"the data {source}: {error}") from None
    rows = join(parts)
    longest = int(np.diff(np.flatnonzero(rows["last"]), prepend=-1).max())
    require(
        settings.windows == "partial" or longest >= settings.n_step,
        f"the longest episode of the data has {longest} steps: lower --n-step, or choose --windows partial.",
    )
    notify(f"loaded {len(rows['reward']):,} transitions from {', '.join(settings.data or ())}.")
    return rows


def _read(
    source: str,
    settings: Settings[Any],
    spec: Spec,
    here: Path,
    run: Path,
    largest: int,
    notify: Callable[[str], None],
) -> list[Rows]:
    if source.startswith(MINARI):
        path = minari.local_path(source.removeprefix(MINARI))
    else:
        path = Path(os.path.realpath(here / source))  # the user may name a link, but there are none below it
    require(path.exists(), f"there is no such file or folder; a source of data is {KINDS}.")
    if source.startswith(MINARI) or minari.find_dataset(path):
        arrays, place, env = minari.read_dataset(path, spec, largest)
        _note_other_task(source, {"env": env or settings.env}, settings, notify)
        return [from_arrays(arrays, spec, settings.reward_scale, place)]
    if path.suffix == ".npz" and path.is_file():
        return [_read_npz(path, settings, spec, largest)]
    require(path.is_dir(), f"it is not a source of data; that is {KINDS}.")
    require(
        not run.is_relative_to(path),
        "the new run itself would be in this folder, and what is there when a run starts depends on the others: give "
        "the folders of the runs to learn from.",
    )
    found = runs.find_runs(path)
    require(bool(found), f"it holds no runs; a source of data is {KINDS}.")
    parts: list[Rows] = []
    for one in found:
        parts.append(_read_run(one, settings, spec, largest - sum(map(_size, parts)), notify))
    return parts


def _read_npz(path: Path, settings: Settings[Any], spec: Spec, largest: int) -> Rows:
    try:
        arrays = load_arrays(path, largest)
    except OSError as error:
        raise SmrlError(f"it cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise SmrlError(f"{error}.") from error
    return from_arrays(arrays, spec, settings.reward_scale, lambda name, row: f"row {row:,}")


def _read_run(path: Path, settings: Settings[Any], spec: Spec, largest: int, notify: Callable[[str], None]) -> Rows:
    memory = runs.read_memory(path, largest, notify)
    require(
        (memory.spec.obs, memory.spec.action) == (spec.obs, spec.action),
        f"{path} has {memory.spec}; the environment has {spec}: give only runs of equal spaces.",
    )
    _note_other_task(str(path), memory.settings, settings, notify)
    if memory.left_out:
        notify(f"{memory.left_out:,} rows of {path} are left out: the beginning of their episode is no longer stored.")
    return memory.rows | {"reward": runs.scaled_rewards(memory, settings.reward_scale)}


def _note_other_task(
    source: str, theirs: dict[str, Any], settings: Settings[Any], notify: Callable[[str], None]
) -> None:
    """Notify the user of data from another task, which equal spaces do not show."""
    for name in ("env", "action_repeat"):
        mine = getattr(settings, name)
        if theirs.get(name, mine) != mine:
            notify(f"the data {source} has the {name} {theirs[name]}, this run {mine}.")


def _size(rows: Rows) -> int:
    return sum(values.nbytes for values in rows.values())
