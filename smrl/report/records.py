"""What a run directory says, as one frozen record."""

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smrl.errors import SmrlError

CONFIG, EVALUATIONS = "config.json", "evaluations.csv"


@dataclass(frozen=True, eq=False)
class Record:
    """One run: what was trained, and the mean return of every evaluation."""

    path: Path
    env: str
    variant: str  # the algorithm with the knobs that are not as in the paper, such as sac-fresh10
    reuse: str  # "10", or a schedule such as "10:300000,1"
    seed: int
    budget: int  # the steps that the run is to make
    episodes: int  # per evaluation
    steps: NDArray[np.int64]  # strictly increasing, at least one
    returns: NDArray[np.float64]


def read_run(path: Path) -> Record:
    """The record of one run directory that has at least one evaluation."""
    config = _config(path / CONFIG)
    experiment = config["experiment"]
    rows = _rows(path / EVALUATIONS)
    if not rows:
        raise SmrlError(f"{path / EVALUATIONS} holds no evaluation yet; wait for the run's first one.")
    try:
        steps = np.array([int(row["step"]) for row in rows], np.int64)
        returns = np.array([float(row["mean"]) for row in rows], np.float64)
        episodes = int(rows[-1]["episodes"])
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(path / EVALUATIONS, "its columns step, episodes and mean must hold numbers") from error
    if (np.diff(steps) <= 0).any():
        raise _broken(path / EVALUATIONS, "its steps do not increase")
    try:
        reuse = str(experiment["reuse"])
        if not re.fullmatch(r"(\d+:\d+,)*\d+", reuse):
            raise _broken(path / CONFIG, f"'{reuse}' is not a reuse schedule")
        return Record(
            path,
            env=str(experiment["env"]),
            variant=str(config["variant"]),
            reuse=reuse,
            seed=int(experiment["seed"]),
            budget=int(experiment["steps"]),
            episodes=episodes,
            steps=steps,
            returns=returns,
        )
    except KeyError as error:
        raise _broken(path / CONFIG, f"it has no {error}") from error
    except (TypeError, ValueError) as error:
        raise _broken(path / CONFIG, "its seed and steps must be whole numbers") from error


def _config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(_text(file))
    except ValueError as error:
        raise _broken(file, "it is not JSON") from error
    if not isinstance(config, dict) or not isinstance(config.get("experiment"), dict):
        raise _broken(file, "it has no object named experiment")
    return config


def _rows(file: Path) -> list[dict[str, str]]:
    complete, _, _ = _text(file).rpartition("\n")  # what follows the last newline was cut off by a kill
    return list(csv.DictReader(complete.split("\n")))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SmrlError(f"there is no {file.name} in {file.parent}; give the directory of a run.") from None
    except OSError as error:
        raise SmrlError(f"{file} cannot be read ({error.strerror}); check its permissions.") from error
    except UnicodeDecodeError as error:
        raise _broken(file, "it is not text") from error


def _broken(file: Path, reason: str) -> SmrlError:
    return SmrlError(f"{file} is broken: {reason}; train this run again or move its directory away.")
