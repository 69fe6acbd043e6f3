"""The folder of a run, and the files in it: the interface between training, continuing and reporting.

runs/<env>/<label>/seed<k>/      the label is readable; the settings in config.json decide which run it is
  config.json       everything needed to repeat the run
  evaluations.csv   returns of the greedy policy, without times, so that the file of a continued run is byte-identical
  training.csv      losses, values, seconds
  tensorboard/      the same as event files
  checkpoint/       see checkpoint.py
  data.npz          the data that the run learns from besides its own, where it has any (`smrl.training.inputs`)
  start.npz         the networks of another run, where it started from them
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from smrl.errors import SmrlError, require
from smrl.reading import parse_json, refusal, unreadable
from smrl.runs import checkpoint, identity
from smrl.runs.atomic import foreign_files, write_atomically, writing
from smrl.runs.config import FORMAT, Damaged, check_config, checksum, read_file

if TYPE_CHECKING:
    from smrl.settings import RunOptions, Settings
    from smrl.types import Spec

CONFIG, EVALUATIONS, TRAINING = "config.json", "evaluations.csv", "training.csv"
CHECKPOINT, TENSORBOARD, LOCK = "checkpoint", "tensorboard", ".lock"
DATA, START = "data.npz", "start.npz"
LONGEST_ENV_NAME = 120  # characters of the folder of an environment


def find_files(folder: Path, *names: str) -> list[Path]:
    """Return the files of these names in a folder and below it, sorted; runs that are being trained may be among them.

    Unlike `Path.rglob`, this does not fail when a folder is deleted meanwhile, as checkpoints are.
    """
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        found += [Path(place, name) for name in names if name in files or name in folders]
        folders[:] = [name for name in folders if name != CHECKPOINT]
    return sorted(found)


class RunDirectory:
    """The folder of one run, and the paths of its files."""

    def __init__(self, path: Path) -> None:
        self.path, self.checkpoint = path, path / CHECKPOINT
        self.config, self.evaluations, self.training = path / CONFIG, path / EVALUATIONS, path / TRAINING

    @classmethod
    def of(cls, settings: "Settings[Any]", options: "RunOptions") -> "RunDirectory":
        """Return the folder of the run with these settings, or the one that it will have."""
        # Imported here because runs are read without what settings depend on.
        from smrl.presets import usual_values
        from smrl.settings import names

        mine, agent_steps = settings.to_json(), settings.steps // settings.action_repeat
        usual = usual_values(mine, names(settings.algorithm, agent_steps))
        return cls(find(mine, _defaults(settings), options.runs, usual, options.name))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the lock of a process that was killed no longer counts."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self.refuse_foreign_files()
            lock = filelock.FileLock(self.path / LOCK)
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                raise SmrlError(f"another process is training {self.path}; wait for it or stop it.") from None
        try:
            for path in unreadable(self.path):
                raise refusal(path)
            yield
        finally:
            lock.release()

    def refuse_foreign_files(self) -> None:
        """Refuse links, devices, and folders instead of files or the reverse, before anything is read or written."""
        for path, kind in foreign_files(self.path).items():
            advice = "replace it by what it points to" if kind == "a link" else "move it elsewhere"
            raise SmrlError(f"{path} is {kind}; {advice}, because a run must own its files.")
        for file in (self.config, self.evaluations, self.training, *(self.path / name for name in (LOCK, DATA, START))):
            require(not file.is_dir(), f"{file} is a folder where a file belongs; move it elsewhere.")
        folder = self.checkpoint
        require(folder.is_dir() or not folder.exists(), f"{folder} is a file, not a folder; move it elsewhere.")

    def read_config(self) -> dict[str, Any]:
        """Read and check config.json."""
        try:
            config = parse_json(read_file(self.config))
        except ValueError as error:
            raise Damaged(self.config, str(error)) from None
        return check_config(config, self.config)

    def find_config(self) -> tuple[dict[str, Any] | None, SmrlError | None]:
        """Return the config from config.json or else from the checkpoint, if either has it, and the file's error."""
        try:
            return self.read_config(), None
        except SmrlError as error:
            damage = error
        try:
            manifest = checkpoint.newest_manifest(self.checkpoint)
            return (check_config(manifest["facts"]["config"], self.config) if manifest else None), damage
        except SmrlError:
            return None, damage

    def write_config(
        self,
        settings: "Settings[Any]",
        spec: "Spec",
        env_source: str | None,
        threads: int,
        platform: Mapping[str, Any],
        inputs: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Write config.json and return its content.

        ``platform`` is what `smrl.runtime.platform_facts` returns, ``inputs`` the checksums of the run's inputs.
        """
        config = {
            "format": FORMAT,
            "settings": settings.to_json(),
            "spec": spec.to_json(),
            "env_source": env_source,
            "threads": threads,
            **platform,
            **({"inputs": inputs} if inputs else {}),
        }
        content = json.dumps(config | {"checksum": checksum(config)}, indent=2)
        with writing(self.config):
            write_atomically(self.config, content.encode())
        return dict(json.loads(content))

    def check_same_run(self, config: Mapping[str, Any], settings: "Settings[Any]", env_source: str | None) -> None:
        """Refuse to continue a run that has other settings or another function as environment."""
        same = identity.canonical(_defaults(settings) | identity.flat(config["settings"]))
        require(
            same == identity.canonical(settings.to_json()),
            f"{self.path} was just taken by a run with other settings; start the same command again.",
        )
        require(
            config["env_source"] in (None, env_source),
            f"{self.path} was trained in another environment of the name {settings.env}: the function that makes it "
            "has changed; give env_name= another name for a new run.",
        )

    @staticmethod
    def changes(config: Mapping[str, Any], platform: Mapping[str, Any]) -> list[str]:
        """Describe what has changed since the run was last trained and may change its last bits."""
        pairs = [(name, config["versions"].get(name), now) for name, now in platform["versions"].items()]
        pairs += [
            ("the processor", config["cpu"], platform["cpu"]),
            ("the backend of JAX", config["backend"], platform["backend"]),
        ]
        pairs += [(name, config["switches"].get(name), now) for name, now in platform["switches"].items()]
        return [f"{name} was {before} and is {now} now" for name, before, now in pairs if before not in (None, now)]


def find(
    settings: Mapping[str, Any],
    defaults: Mapping[str, Any],
    runs: Path,
    usual: Mapping[str, Any] | None = None,
    word: str | None = None,
) -> Path:
    """Return the folder of a run: where a run of these settings and seed is, or else where it belongs.

    Settings that a stored run lacks count as the defaults. A label folder never holds runs of two identities. A new one
    is named by what differs from the ``usual`` values, by default the defaults, and by the user's ``word``.
    """
    mine = {**identity.flat(defaults), **identity.flat(settings)}
    place = runs / (identity.file_name(mine["env"], "-")[:LONGEST_ENV_NAME] or "-")
    wanted, seed = identity.canonical(mine), f"seed{mine['seed']}"
    same: list[Path] = []
    labels = []
    for folder, stored in _stored_runs(place, "*/*", defaults):
        if stored is not None and identity.canonical(stored) == wanted:
            if folder.name == seed and stored["seed"] == mine["seed"]:
                if all(stored.get(name) == mine.get(name) for name in identity.EVALUATION):
                    return folder
                same.append(folder)
            labels.append(folder.parent)
    if same:  # evaluated in other ways; before these were left out of the identity, there could be several
        return same[0]

    def is_free(label: Path) -> bool:
        return all(
            folder.name != seed and stored is not None and identity.canonical(stored) == wanted
            for folder, stored in _stored_runs(label, "*", defaults)
        )

    names = (identity.slug(settings, defaults if usual is None else usual, word, attempt) for attempt in count())
    return next(label for label in chain(labels, (place / name for name in names)) if is_free(label)) / seed


def _defaults(settings: "Settings[Any]") -> dict[str, Any]:
    from smrl.settings import names  # imported here because runs are read without what settings depend on

    return names(settings.algorithm)


def _stored_runs(
    place: Path, pattern: str, defaults: Mapping[str, Any]
) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    """Yield the folders of runs with their settings, or None if those cannot be read."""
    for folder in sorted(place.glob(pattern)):
        config, _ = RunDirectory(folder).find_config()
        if config is not None:
            yield folder, {**defaults, **identity.flat(config["settings"])}
        elif (folder / CONFIG).exists():
            yield folder, None
