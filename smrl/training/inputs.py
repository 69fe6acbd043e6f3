"""What a run starts from besides its settings: data, and the networks of another run.

Both are read once and kept in the run's folder, with their checksums in config.json. From then on the run depends on
these files only, so it continues bit for bit if a source changes or is deleted. They are written before config.json: a
run that is killed in between has not begun, and reads its sources again.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from smrl.algorithms import registry
from smrl.data import sources
from smrl.errors import SmrlError, require
from smrl.memory.replay import Replay
from smrl.randomness import Purpose, key
from smrl.reading import load_arrays
from smrl.runs import checkpoint
from smrl.runs.atomic import save_arrays, sync, writing
from smrl.runs.paths import CONFIG, DATA, START, RunDirectory
from smrl.settings import Settings
from smrl.training.agent import shapes
from smrl.training.memory_budget import largest_data
from smrl.training.normaliser import RUNNING, statistics_of
from smrl.types import Spec

Arrays = dict[str, np.ndarray]
LEARNED = ("['algorithm']", "statistics.")  # how a checkpoint names networks, optimisers and running statistics


def read_inputs(
    settings: Settings[Any], spec: Spec, here: Path, run: Path, notify: Callable[[str], None]
) -> dict[str, Arrays]:
    """Read what the settings name, by the name of the file that keeps it; paths are relative to the folder ``here``."""
    inputs: dict[str, Arrays] = {}
    if settings.from_run is not None:
        inputs[START] = _read_networks(settings, spec, here / settings.from_run, notify)
    if settings.data is not None:
        inputs[DATA] = sources.load(settings, spec, here, run, largest_data(settings, spec), notify)
    return inputs


def keep_inputs(directory: RunDirectory, inputs: Mapping[str, Arrays], notify: Callable[[str], None]) -> dict[str, str]:
    """Write the files of a run's inputs and return their checksums; warn if other seeds have started from others."""
    with writing(directory.path):
        checksums = {name: save_arrays(directory.path / name, arrays) for name, arrays in inputs.items()}
        sync(directory.path)
    for file in sorted(directory.path.parent.glob(f"seed*/{CONFIG}")) if checksums else ():
        config, _ = RunDirectory(file.parent).find_config()
        if config is not None and config.get("inputs") != checksums:
            notify(f"{file.parent} has started from other data or networks: what the settings name has changed since.")
    return checksums


def load_input(directory: RunDirectory, config: Mapping[str, Any], name: str) -> Arrays:
    """Read an input that the run has kept; refuse one that is not as it was written."""
    file = directory.path / name
    reason = checkpoint.find_damage({file: config.get("inputs", {}).get(name, "")})
    if reason is None:
        try:
            return load_arrays(file)
        except checkpoint.DAMAGE as error:
            reason = str(error)
    raise SmrlError(
        f"{file}, which the run learns from, is damaged ({reason}): restore it from a copy, or move {directory.path} "
        "out of the runs folder to train it again."
    )


def data_memory(settings: Settings[Any], spec: Spec, rows: Arrays) -> Replay:
    """Return a memory that holds a run's data."""
    data = Replay(len(rows["reward"]), spec, gamma=settings.gamma, n_step=settings.n_step, windows=settings.windows)
    data.restore(rows)
    return data


def _read_networks(settings: Settings[Any], spec: Spec, path: Path, notify: Callable[[str], None]) -> Arrays:
    """Read what a run's newest checkpoint has learned, without its counters; nothing that the run names is imported."""
    directory = RunDirectory(path)
    directory.refuse_foreign_files()
    config = directory.read_config()
    theirs, algorithm = Spec.from_json(config["spec"]), config["settings"]["algorithm"]
    require(
        algorithm == settings.algorithm,
        f"{path} is a run of {algorithm}: start a run of {settings.algorithm} from one of {settings.algorithm}.",
    )
    require(
        (theirs.obs, theirs.action) == (spec.obs, spec.action),
        f"{path} has {theirs}; {settings.env} has {spec}: start from a run of equal spaces.",
    )
    for setting in ("normalise_observations", "normalise_rewards"):
        is_normalised = bool(config["settings"].get(setting))
        require(
            is_normalised == getattr(settings, setting),
            f"{path} was trained {'with' if is_normalised else 'without'} --{setting.replace('_', '-')}, and its "
            "networks know nothing else: train this run likewise.",
        )
    saved = checkpoint.load(directory.checkpoint, notify)
    if saved is None:
        raise SmrlError(f"{path} has no checkpoint yet; train it first.")
    arrays = {name: array for name, array in saved.arrays.items() if name.startswith(LEARNED) and name != RUNNING}
    made = registry.find(settings.algorithm).make(settings.hyper, spec)
    wanted = shapes({"algorithm": jax.eval_shape(made.init, key(settings.seed, Purpose.INITIALISE))})
    if statistics := statistics_of(settings, spec):
        new = statistics.arrays().items()
        wanted |= {name: (array.shape, str(array.dtype)) for name, array in new if name != RUNNING}
    for name in sorted(wanted.keys() | arrays.keys()):
        found = (arrays[name].shape, str(arrays[name].dtype)) if name in arrays else None
        require(
            found == wanted.get(name),
            f"{path} has {_in_words(found)} at {name}, and this run has {_in_words(wanted.get(name))}: choose the "
            "networks that it was trained with.",
        )
        is_finite = arrays[name].dtype.kind != "f" or bool(np.isfinite(arrays[name]).all())
        require(is_finite, f"{path} has values that are not finite at {name}: it has diverged; start from another run.")
    notify(f"starting with the networks of {path} at step {saved.step:,}.")
    return arrays


def _in_words(array: tuple[tuple[int, ...], str] | None) -> str:
    return "no array" if array is None else f"the shape {array[0]} of {array[1]}"
