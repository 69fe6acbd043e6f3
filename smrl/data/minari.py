"""Minari datasets in HDF5 files, read as arrays by name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from smrl.data.rows import Arrays, Place
from smrl.errors import SmrlError, require
from smrl.plugins import import_module, in_words
from smrl.reading import parse_json, read_bytes
from smrl.types import Entry, Spec

ADVICE = 'pip install "smrl[data]"'
METADATA, DATA = "metadata.json", "main_data.hdf5"
NAMES = {"actions": "action", "rewards": "reward", "terminations": "terminated", "truncations": "truncated"}


def find_dataset(path: Path) -> Path | None:
    """Return the folder with the files of the Minari dataset at a path; None if there is none."""
    return next((folder for folder in (path / "data", path) if (folder / METADATA).is_file()), None)


def local_path(dataset: str) -> Path:
    """Return the folder of a dataset of this id that was downloaded or made before."""
    import_module("minari", ADVICE)
    from minari.storage.datasets_root_dir import get_dataset_path

    path = Path(get_dataset_path(dataset))
    require(
        find_dataset(path) is not None, f"there is no such dataset in {path}: minari download {dataset} fetches it."
    )
    return path


def read_dataset(path: Path, spec: Spec, largest: int) -> tuple[Arrays, Place, str | None]:
    """Read all episodes of a dataset; return its arrays, names of their rows, and the id of its environment.

    A dataset may be somebody else's: only arrays within its own file are read, of together at most ``largest`` bytes,
    and no environment is made.
    """
    folder = find_dataset(path) or path
    env = _environment(folder / METADATA)
    import_module("minari", ADVICE)
    h5py: Any = import_module("h5py", ADVICE)
    try:
        with h5py.File(folder / DATA, "r") as file:
            _refuse_large(h5py, file, largest)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        raise SmrlError(f"{folder / DATA} cannot be read as HDF5 ({in_words(error)}).") from error
    from minari.dataset.minari_storage import MinariStorage

    try:
        storage = MinariStorage.read(folder)
        episodes = [_episode(data, spec) for data in storage.get_episodes(range(storage.total_episodes))]
    except SmrlError:
        raise
    except Exception as error:  # a dataset that is not one can raise nearly anything
        raise SmrlError(f"Minari cannot read it ({in_words(error)}).") from error
    require(bool(episodes), "it holds no episodes.")
    arrays = {name: np.concatenate([episode[name] for episode in episodes]) for name in episodes[0]}
    ends = np.cumsum([len(episode["reward"]) for episode in episodes])

    def place(name: str, row: int) -> str:
        stops = ends + np.arange(1, len(ends) + 1) if name == "obs" else ends
        episode = int(np.searchsorted(stops, row, side="right"))
        return f"step {row - (stops[episode - 1] if episode else 0):,} of episode {episode:,}"

    return arrays, place, env


def _environment(file: Path) -> str | None:
    """Return the id of the dataset's environment, where it has one; refuse what Minari would need code to read."""
    try:
        metadata = parse_json(read_bytes(file))
        form, spaces = metadata["data_format"], [metadata["observation_space"], metadata["action_space"]]
        env = json.loads(metadata["env_spec"])["id"] if "env_spec" in metadata else None
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise SmrlError(f"{file} does not describe a dataset with its spaces ({in_words(error)}).") from error
    # Without spaces Minari would make the environment that the file names.
    require(all(isinstance(space, str) for space in spaces), f"{file} does not describe a dataset with its spaces.")
    require(form == "hdf5", f"it is stored as {form!r}; smrl reads the format hdf5.")
    return env if isinstance(env, str) else None


def _refuse_large(h5py: Any, file: Any, largest: int) -> None:
    """Refuse more bytes than fit, and links and arrays that lead to other files."""
    size = 0

    def visit(group: Any) -> None:
        nonlocal size
        for name in group:
            link = group.get(name, getlink=True)
            require(isinstance(link, h5py.HardLink), f"{name} in it is a link, which smrl does not follow.")
            found = group[name]
            if isinstance(found, h5py.Group):
                visit(found)
                continue
            require(not found.is_virtual and not found.external, f"{name} in it is stored in another file.")
            size += found.nbytes

    visit(file)
    require(size <= largest, f"it holds {size:,} bytes, more than the {largest:,} that fit.")


def _episode(data: Mapping[str, Any], spec: Spec) -> dict[str, np.ndarray]:
    """Return the arrays of an episode; one that was not ended is taken as cut off by a time-out."""
    episode = {ours: np.asarray(data[name]) for name, ours in NAMES.items()}
    for entry in spec.entries or (Entry((), spec.obs.shape),):
        episode[".".join(("obs", *entry.path))] = _pick(data["observations"], entry.path)
    steps, number = len(episode["reward"]), data["id"]
    require(steps > 0, f"episode {number} has no steps.")
    for name, values in episode.items():
        wanted = steps + name.startswith("obs")
        require(
            values.ndim > 0 and len(values) == wanted,
            f"{name} of episode {number} has the shape {values.shape} instead of {wanted:,} rows.",
        )
    ends = episode["terminated"].astype(np.bool_) | episode["truncated"].astype(np.bool_)
    require(not ends[:-1].any(), f"episode {number} goes on after it was terminated or truncated.")
    episode["truncated"] = episode["truncated"].astype(np.bool_)
    episode["truncated"][-1] |= not ends[-1]
    return episode


def _pick(observations: Any, path: tuple[str, ...]) -> np.ndarray:
    """Return an entry of nested observations."""
    for key in path:
        try:
            observations = observations[int(key)] if isinstance(observations, tuple) else observations[key]
        except (LookupError, TypeError, ValueError):
            raise SmrlError(f"its observations have no entry {'.'.join(path)}.") from None
    require(not isinstance(observations, dict | tuple), "its observations have several entries, the environment's not.")
    return np.asarray(observations)
