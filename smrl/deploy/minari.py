"""Write the replay memory of a run as a Minari dataset."""

import logging
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from smrl.data.minari import ADVICE
from smrl.data.runs import Memory, read_memory, scaled_rewards
from smrl.errors import SmrlError, require
from smrl.memory.replay import Replay
from smrl.plugins import import_module, in_words
from smrl.runs.atomic import new_folder, writing
from smrl.runs.identity import title

if TYPE_CHECKING:
    from smrl.training.run import Run

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WrittenDataset:
    """A Minari dataset that was written."""

    path: Path
    dataset_id: str
    episodes: int
    steps: int
    left_out: int  # steps of episodes whose beginning the replay memory no longer holds

    def __str__(self) -> str:
        cut = f"; {self.left_out:,} steps of episodes without their beginning are left out" if self.left_out else ""
        return f"{self.path}: Minari dataset {self.dataset_id}, {self.episodes:,} episodes, {self.steps:,} steps{cut}"


def write_dataset(run: "Run", path: Path, env: Any = None) -> WrittenDataset:
    """Write the replay memory of a run's newest checkpoint as a Minari dataset to a new folder.

    Observations, actions and rewards are the environment's own, and so are the spaces. The episodes of several
    environments follow one another. An episode that goes on is marked as truncated. One whose beginning was already
    overwritten is left out. ``env`` is the function that makes the environment, where the run was trained with one.
    """
    require(not os.path.lexists(path), f"{path} exists already; write the dataset to another place.")
    version = import_module("minari", ADVICE).__version__
    import_module("h5py", ADVICE)
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    memory = read_memory(run.path, sys.maxsize, logger.warning, only_complete=True)  # it has the size of its files
    place = path.absolute()  # Minari looks for the files of a relative path below that path
    with (
        closing(run.make_env(env)) as own,
        writing(path, "or write the dataset to another place"),
        new_folder(place) as new,
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about an environment that cannot be described in JSON
                storage = MinariStorage.new(
                    new / "data",
                    observation_space=own.observation_space,
                    action_space=own.action_space,
                    env_spec=_spec(own),
                    jpeg_encoding=False,  # which would change images
                )
                written = WrittenDataset(
                    path, _dataset_id(path), int(memory.rows["last"].sum()), len(memory.rows["reward"]), memory.left_out
                )
                storage.update_episodes(
                    EpisodeBuffer(id=number, infos={}, **episode)
                    for number, episode in enumerate(_episodes(memory, own.observation_space))
                )
                storage.update_metadata(
                    {
                        "dataset_id": written.dataset_id,
                        "minari_version": version,
                        "algorithm_name": title(memory.settings),
                        "description": f"Replay memory of smrl: {title(memory.settings)}",
                    }
                )
            os.rename(new, place)
        except (AssertionError, NotImplementedError, TypeError, ValueError) as error:
            raise SmrlError(f"Minari cannot store the replay memory of {run.path} ({in_words(error)}).") from error
    return written


def _episodes(memory: Memory, observation_space: spaces.Space[Any]) -> Iterator[dict[str, Any]]:
    rows, spec = memory.rows, memory.spec
    replay = Replay(len(rows["reward"]), spec, gamma=1.0)
    replay.restore(rows)
    rewards, decode = scaled_rewards(memory, 1.0), spec.action.decoder()
    stops = np.flatnonzero(rows["last"]) + 1
    for start, stop in zip([0, *stops[:-1].tolist()], stops.tolist(), strict=True):
        steps = replay.gather(np.arange(start, stop))
        terminated = rows["terminated"][start:stop]
        ends = np.arange(start, stop) == stop - 1
        yield {
            "observations": _as_observed(np.concatenate([steps.obs, steps.next_obs[-1:]]), observation_space),
            "actions": decode(steps.action),
            "rewards": rewards[start:stop],
            "terminations": terminated,
            "truncations": ends & ~terminated,
        }


def _as_observed(obs: np.ndarray, space: spaces.Space[Any]) -> Any:
    """Return observations as the environment returns them: without zeros that smrl appended, and not flattened."""
    flat, used = obs.reshape(len(obs), -1), 0

    def take(space: spaces.Space[Any]) -> Any:
        nonlocal used
        if isinstance(space, spaces.Dict):
            return {key: take(entry) for key, entry in space.items()}
        if isinstance(space, spaces.Tuple):
            return tuple(take(entry) for entry in space)
        shape = space.shape or ()
        start, used = used, used + math.prod(shape)
        return flat[:, start:used].reshape(len(flat), *shape).astype(space.dtype)

    return take(space)


def _spec(env: Any) -> Any:
    """Return Gymnasium's description of an environment, if it has one that JSON can hold."""
    try:
        env.spec.to_json()
    except Exception:  # no spec, a function as entry point, a wrapper that does not record its arguments
        return None
    return env.spec


def _dataset_id(path: Path) -> str:
    """Return the id of a dataset in a folder: its path below Minari's folder of datasets, or else its name."""
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets").absolute()
    place = path.absolute()
    name = place.relative_to(root).as_posix() if place.is_relative_to(root) else place.name
    name = re.sub(r"[^\w/-]+", "-", name, flags=re.ASCII).strip("-/") or "dataset"
    return name if re.search(r"-v\d+$", name) else f"{name}-v0"
