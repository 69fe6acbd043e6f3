"""The run directory: the interface between training, continuing and reporting.

runs/<env>/<variant>-reuse<M>/seed<k>/
  config.json       everything needed to repeat the run
  evaluations.csv   returns of the greedy policy; no wall-clock, so a continued run's is byte-identical
  training.csv      losses, values, seconds
  tensorboard/      the same as event files
  checkpoint/       see checkpoint.py
"""

import dataclasses
import fcntl
import json
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from smrl.envs.environment import Environment
from smrl.errors import SmrlError
from smrl.experiment import Experiment, from_json
from smrl.files import write_atomically, writing


@dataclass(frozen=True)
class RunDirectory:
    """Where the files of a run are."""

    path: Path

    @classmethod
    def of(cls, experiment: Experiment[Any], runs: Path) -> "RunDirectory":
        """The place of an experiment below a folder of runs."""
        env = experiment.env.replace("/", "-").replace(":", "-")
        reuse = str(experiment.reuse).replace(":", "until").replace(",", "then")
        return cls(runs / env / f"{experiment.variant}-reuse{reuse}" / f"seed{experiment.seed}")

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
        """What a run continues from."""
        return self.path / "checkpoint"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the system lets go of the lock even where this one is killed."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / ".lock").open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SmrlError(f"another process is training {self.path}; wait for it or stop it.") from None
            yield

    def read_config(self) -> dict[str, Any]:
        """What config.json says."""
        try:
            config: dict[str, Any] = json.loads(self.config.read_text())
            missing = {"experiment", "spec", "action_bounds", "threads", "versions"} - config.keys()
            if missing:
                raise ValueError(f"it lacks {', '.join(sorted(missing))}")
        except (FileNotFoundError, NotADirectoryError):
            raise SmrlError(f"{self.path} is not a run: it has no config.json; give a run's folder.") from None
        except (ValueError, AttributeError) as error:
            raise SmrlError(f"{self.config} is damaged ({error}); delete the run to start anew.") from None
        return config

    def read_experiment(self) -> Experiment[Any]:
        """The experiment of the run."""
        return from_json(self.read_config()["experiment"])

    def refuse_another(self, experiment: Experiment[Any]) -> None:
        """See that the run that is there, if any, is of the same experiment; only its steps may differ."""
        if not self.config.exists():
            return
        old, new = _flat(self.read_config()["experiment"]), _flat(experiment.to_json())
        differences = [
            f"{name} is {old.get(name)} there and {new.get(name)} here"
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name) and name != "steps"
        ]
        if differences:
            raise SmrlError(
                f"{self.path} holds a run with other settings ({'; '.join(differences)}); "
                "nothing was changed: use the same settings or another --runs folder."
            )

    def version_changes(self) -> list[str]:
        """What has another version now than when the run was last trained."""
        old = self.read_config()["versions"] if self.config.exists() else {}
        return [
            f"{name} was {old[name]} and is {new} now" for name, new in _versions().items() if old.get(name, new) != new
        ]

    def write_config(self, experiment: Experiment[Any], env: Environment, threads: int) -> None:
        """Record everything needed to repeat the run."""
        config = {
            "experiment": experiment.to_json(),
            "variant": experiment.variant,
            "spec": dataclasses.asdict(env.spec),
            "action_bounds": [bound.tolist() for bound in env.bounds],
            "threads": threads,
            "versions": _versions(),
            "machine": f"{platform.machine()} {platform.system()}",
            "git_commit": _git_commit(),
        }
        with writing(self.config):
            write_atomically(self.config, json.dumps(config, indent=2).encode())


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(config))  # tuples become lists, as in the file
    return plain | plain.pop("hyper")


def _versions() -> dict[str, str]:
    names = ("smrl", "jax", "jaxlib", "flax", "optax", "gymnasium", "mujoco", "numpy")
    return {name: version(name) for name in names} | {"python": platform.python_version()}


def _git_commit() -> str | None:
    """The commit of this package's source, where it is run from a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()
