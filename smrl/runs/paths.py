"""The run directory: the interface between training, continuing and reporting.

runs/<env>/<label>/seed<k>/      the label is readable; the settings in config.json decide which run it is
  config.json       everything needed to repeat the run
  evaluations.csv   returns of the greedy policy; no wall-clock, so a continued run's file is byte-identical
  training.csv      losses, values, seconds
  tensorboard/      the same as event files
  checkpoint/       see checkpoint.py
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock

from smrl.errors import SmrlError, require
from smrl.runs import config as formats
from smrl.runs import identity
from smrl.runs.atomic import links, write_atomically, writing
from smrl.settings import Settings, names
from smrl.types import Spec


@dataclass(frozen=True)
class RunDirectory:
    """The files of a run."""

    path: Path

    @classmethod
    def of(cls, settings: Settings[Any], runs: Path) -> "RunDirectory":
        """The folder of the run with these settings, or the one that it will have."""
        return cls(identity.find(settings.to_json(), names(settings.algorithm), runs))

    @property
    def config(self) -> Path:
        """Everything needed to repeat the run."""
        return self.path / "config.json"

    @property
    def evaluations(self) -> Path:
        """Returns of the greedy policy."""
        return self.path / "evaluations.csv"

    @property
    def training(self) -> Path:
        """Losses, values and seconds."""
        return self.path / "training.csv"

    @property
    def checkpoint(self) -> Path:
        """The newest checkpoints."""
        return self.path / "checkpoint"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the lock of a process that was killed is void."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._refuse_foreign()
            lock = filelock.FileLock(self.path / ".lock")
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                raise SmrlError(f"another process is training {self.path}; wait for it or stop it.") from None
        with lock:
            yield

    def _refuse_foreign(self) -> None:
        """Refuse links, and folders where files belong or the reverse, before anything is written or deleted."""
        for link in links(self.path):
            raise SmrlError(f"{link} is a link; put what it points to in its place, for a run's files must be its own.")
        for file in (self.config, self.evaluations, self.training, self.path / ".lock"):
            require(not file.is_dir(), f"{file} is a folder where a file belongs; move it elsewhere.")
        folder = self.checkpoint
        require(folder.is_dir() or not folder.exists(), f"{folder} is a file, not a folder; move it elsewhere.")

    def read_config(self) -> dict[str, Any]:
        """What config.json says."""
        return formats.read_config(self.path)

    def check_same_run(self, config: Mapping[str, Any], settings: Settings[Any], env_source: str | None) -> None:
        """Refuse to continue a run that has other settings or another function as environment."""
        same = identity.digest(names(settings.algorithm) | identity.flat(config["settings"]))
        require(
            same == identity.digest(settings.to_json()),
            f"{self.path} was just taken by a run with other settings; start the same command again.",
        )
        require(
            config["env_source"] == env_source or config["env_source"] is None,
            f"{self.path} was trained in another environment of the name {settings.env}: the function that makes it "
            "has changed; give env_name= another name for a new run.",
        )

    def write_config(
        self,
        settings: Settings[Any],
        spec: Spec,
        env_source: str | None,
        threads: int,
        platform: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Record everything needed to repeat the run; return what was recorded."""
        config = {
            "format": formats.FORMAT,
            "settings": settings.to_json(),
            "spec": spec.to_json(),
            "env_source": env_source,
            "threads": threads,
            **platform,
        }
        content = json.dumps(config | {"checksum": formats.checksum(config)}, indent=2)
        with writing(self.config):
            write_atomically(self.config, content.encode())
        return dict(json.loads(content))

    @staticmethod
    def changes(config: Mapping[str, Any], platform: Mapping[str, Any]) -> list[str]:
        """Return what differs from when the run was last trained and may change its last bits."""
        pairs = [(name, config["versions"].get(name), now) for name, now in platform["versions"].items()]
        pairs += [("the processor", config["cpu"], platform["cpu"])]
        pairs += [("the backend of JAX", config["backend"], platform["backend"])]
        pairs += [(name, (config["switches"] or {}).get(name), now) for name, now in platform["switches"].items()]
        return [f"{name} was {before} and is {now} now" for name, before, now in pairs if before not in (None, now)]
