"""A run that was trained: its settings, its evaluations, its policy."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from smrl import algorithms, checkpoint, runtime
from smrl.acting import Reader
from smrl.envs.environment import rescale
from smrl.errors import SmrlError
from smrl.experiment import Experiment
from smrl.randomness import Purpose, key
from smrl.report.records import Record, read_run
from smrl.rundir import RunDirectory
from smrl.types import Spec


@dataclass(frozen=True)
class Policy:
    """The greedy policy: an observation, or a batch of them, to actions in the environment's own units."""

    spec: Spec
    low: np.ndarray
    high: np.ndarray
    normalised: Callable[[np.ndarray], np.ndarray]  # (batch, obs) → (batch, action) in [-1, 1]

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Choose actions; an observation may have the environment's shape or be flat.

        >>> action = policy(obs)                                                  # doctest: +SKIP
        """
        flat = np.asarray(obs, np.float32).reshape(-1, self.spec.obs_size)
        actions = rescale(self.normalised(flat), self.low, self.high)
        return actions[0] if np.size(obs) == self.spec.obs_size and np.ndim(obs) <= 1 else actions


@dataclass(frozen=True)
class Run:
    """A run directory, opened."""

    path: Path

    @cached_property
    def experiment(self) -> Experiment[Any]:
        """The settings that the run was trained with."""
        return RunDirectory(self.path).read_experiment()

    @property
    def threads(self) -> int:
        """XLA's threads when the run was trained."""
        return int(RunDirectory(self.path).read_config()["threads"])

    @property
    def record(self) -> Record:
        """Steps and mean returns of the evaluations so far."""
        return read_run(self.path)

    @cached_property
    def policy(self) -> Policy:
        """The greedy policy of the newest checkpoint."""
        runtime.start()
        directory = RunDirectory(self.path)
        config = directory.read_config()
        spec = Spec(**config["spec"])
        low, high = (np.array(bound, np.float32) for bound in config["action_bounds"])
        algorithm = algorithms.find(self.experiment.algorithm).make(self.experiment.hyper, spec)
        saved = checkpoint.load(directory.checkpoint, lambda sentence: None)
        if saved is None:
            raise SmrlError(f"{self.path} has no checkpoint yet; train it first.")
        init_key = key(self.experiment.seed, Purpose.INITIALISE)
        template = {"state": jax.eval_shape(algorithm.init, init_key)}
        state = checkpoint.from_arrays(template, saved.arrays)["state"]
        act = Reader(algorithm.exploit, state, np.zeros((1, spec.obs_size), np.float32)).bind(state)
        return Policy(spec, low, high, lambda obs: np.asarray(act(obs)))


def load(path: str | Path) -> Run:
    """Open a run directory.

    >>> policy = load("runs/Hopper-v4/sac-reuse10/seed0").policy                  # doctest: +SKIP
    """
    run = Run(Path(path))
    run.experiment  # noqa: B018  # a folder that is no run is refused here and not at first use
    return run
