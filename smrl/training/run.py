"""A trained run: its settings, its evaluations and its policies."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from smrl.envs.environment import Environment
from smrl.envs.make import Raw, make
from smrl.errors import SmrlError, require, short_repr
from smrl.runs import checkpoint
from smrl.runs.paths import RunDirectory
from smrl.runs.records import Record, read_run
from smrl.runs.trust import custom_code, refuse_code
from smrl.settings import Settings, from_json
from smrl.training.agent import load_policy
from smrl.types import Spec
from smrl.validation import convert

logger = logging.getLogger(__name__)
NAMED = "named"  # env_source of an environment that a function makes under a name that the user gave


@dataclass(frozen=True)
class Policy:
    """The greedy policy of a run, for one observation or a batch of them."""

    spec: Spec
    act: Callable[[np.ndarray], np.ndarray]  # (batch, *obs) → (batch, *action), in the algorithm's units

    @cached_property
    def _decode(self) -> Callable[[np.ndarray], np.ndarray]:
        return self.spec.action.decoder()

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Choose actions in the environment's units; an observation may have the environment's shape or be flat.

        >>> action = policy(obs)                                                  # doctest: +SKIP
        """
        given = np.asarray(obs, self.spec.obs.dtype)
        is_one = given.size == np.prod(self.spec.obs.shape) and given.ndim <= len(self.spec.obs.shape)
        actions = self._decode(self.act(given.reshape(-1, *self.spec.obs.shape)))
        return actions[0] if is_one else actions


@dataclass(frozen=True)
class Run:
    """A run directory that was opened for reading."""

    path: Path
    trust: bool = False  # whether modules that the settings name may be imported

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        return RunDirectory(self.path).read_config()

    @cached_property
    def settings(self) -> Settings[Any]:
        """The settings that the run was trained with."""
        if not self.trust:
            code = custom_code(self.config["settings"])
            refuse_code(self.path, {part: name for part, name in code.items() if part != "environment"})
        return from_json(self.config["settings"])

    @property
    def threads(self) -> int:
        """The number of threads that the run was trained with."""
        return int(self.config["threads"])

    @property
    def record(self) -> Record:
        """Steps and mean returns of the evaluations so far."""
        return read_run(self.path)

    @cached_property
    def policy(self) -> Policy:
        """The greedy policy of the newest checkpoint."""
        return self._load_policy(best=False)

    @cached_property
    def best_policy(self) -> Policy:
        """The greedy policy of the best evaluation so far."""
        return self._load_policy(best=True)

    def make_env(self, env: str | Callable[..., Raw] | None = None, render_mode: str | None = None) -> Environment:
        """Make the environment that the run was trained in.

        ``env`` is its id or the function that makes it, and is needed only if a function made it.
        """
        name = self.settings.env
        require(
            env is not None or (self.config["env_source"] != NAMED and not name.startswith("__main__:")),
            f"{self.path} was trained in an environment that a function makes ({name}): open it in Python, with "
            f"smrl.evaluate(smrl.load({str(self.path)!r}), env=that_function) or smrl.play(…, env=that_function).",
        )
        if env is None and not self.trust:
            refuse_code(self.path, custom_code(self.settings.to_json()))
        return make(name if env is None else env, render_mode, **self.settings.env_options)

    def _load_policy(self, best: bool) -> Policy:
        spec = Spec.from_json(self.config["spec"])
        directory = RunDirectory(self.path)
        directory.refuse_foreign_files()
        saved = checkpoint.load(directory.checkpoint, logger.warning)
        if saved is None:
            raise SmrlError(f"{self.path} has no checkpoint yet; train it first.")
        require(
            not best or saved.facts["best"] is not None,
            f"{self.path} has kept no best policy; evaluate the newest one, or train it further.",
        )
        return Policy(spec, load_policy(self.settings, spec, saved.arrays, best))


def require_run(run: Any) -> Run:
    """Raise SmrlError unless the argument is a run."""
    require(isinstance(run, Run), f"a run is given as smrl.load(path), not as {short_repr(run)}.")
    return run


def load(path: str | Path, trust: bool = False) -> Run:
    """Open a run directory; ``trust`` allows it to import the modules that its settings name.

    >>> policy = load("runs/Hopper-v4/sac-reuse10/seed0").policy                  # doctest: +SKIP
    """
    run = Run(convert("path", path, Path).absolute(), convert("trust", trust, bool))
    run.settings  # noqa: B018  # refuses a folder that is not a run here, rather than at first use
    return run
