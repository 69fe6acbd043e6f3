"""A trained run: its settings, its evaluations and its policies."""

import contextlib
import html
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from smrl.deploy.export import FOLDER, Exported, export
from smrl.deploy.minari import WrittenDataset, write_dataset
from smrl.envs.environment import Environment
from smrl.envs.make import Raw, make
from smrl.errors import SmrlError, printable, require, short_repr
from smrl.layers import Layer
from smrl.runs import checkpoint
from smrl.runs.identity import title
from smrl.runs.paths import RunDirectory
from smrl.runs.records import Record, Table, read_run, read_table
from smrl.runs.trust import custom_code, refuse_code
from smrl.settings import Settings, from_json
from smrl.training.agent import LoadedPolicy, load_policy
from smrl.types import Discrete, Entry, Spec
from smrl.validation import Seed, convert

logger = logging.getLogger(__name__)
NAMED = "named"  # env_source of an environment that a function makes under a name that the user gave


@dataclass(frozen=True, eq=False, repr=False)
class Policy:
    """A policy of a run, for observations and actions as the environment has them. It can be pickled."""

    spec: Spec
    loaded: LoadedPolicy
    step: int = 0  # environment steps after which it was saved

    @property
    def act(self) -> Callable[[np.ndarray], np.ndarray]:
        """The greedy policy in the algorithm's units: (batch, *obs) → (batch, *action)."""
        return self.loaded.act

    @property
    def layers(self) -> Callable[[], Sequence[Layer]]:
        """A function that returns the layers of ``act``."""
        return self.loaded.layers

    def __call__(self, obs: Any) -> np.ndarray:
        """Return the greedy action for an observation, or the actions for a batch, which has one more leading axis.

        Observations have the shape, or the entries of the Dict or Tuple, of the environment's observation space.

        >>> action = policy(obs)                                                  # doctest: +SKIP
        """
        return self._for_each(self.act, obs)

    def sample(self, obs: Any, seed: int) -> np.ndarray:
        """Return an action, or those of a batch, as training takes it: sampled by SAC, with noise by TD3, and so on.

        The same seed gives the same action, so give every step of an episode its own.

        >>> action = policy.sample(obs, seed=step)                                # doctest: +SKIP
        """
        agent_steps = self.step // self.loaded.functions.settings.action_repeat
        seed = convert("seed", seed, Seed)
        return self._for_each(lambda batch: self.loaded.sample(batch, agent_steps, seed), obs)

    def q_values(self, obs: Any, action: Any = None) -> np.ndarray:
        """Return the value of each critic, (critics,) for one observation and (critics, n) for a batch of n.

        It is the value of an action, or of the actions of a batch, by default of the greedy ones, in the rewards that
        the agent learns from.

        >>> policy.q_values(obs).min()                                            # doctest: +SKIP
        """
        batch, leading = self._batch(obs)
        actions = self.act(batch) if action is None else self._encode(action, leading)
        values = self.loaded.q_values(batch, actions)
        return values if leading else values[:, 0]

    def __repr__(self) -> str:
        return f"Policy({printable(title(self.loaded.functions.settings.to_json()))}, step {self.step:,}; {self.spec})"

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # without what is cached

    @cached_property
    def _decode(self) -> Callable[[np.ndarray], np.ndarray]:
        return self.spec.action.decoder()

    def _for_each(self, act: Callable[[np.ndarray], np.ndarray], obs: Any) -> np.ndarray:
        batch, leading = self._batch(obs)
        actions = self._decode(act(batch))
        return actions if leading else actions[0]

    def _batch(self, obs: Any) -> tuple[np.ndarray, tuple[int, ...]]:
        """Return observations as the algorithm takes them, and the leading axes: () for one, (n,) for n of them."""
        entries = self.spec.entries or (Entry((), self.spec.obs.shape),)
        arrays = [_array(obs, entry.path) for entry in entries]
        given, wanted = [array.shape for array in arrays], [entry.shape for entry in entries]
        leading = given[0][: len(given[0]) - len(wanted[0])]
        is_image = self.spec.obs.dtype == "uint8"
        numbers = all(array.dtype == np.uint8 if is_image else array.dtype.kind in "biuf" for array in arrays)
        if not numbers or len(leading) > 1 or 0 in leading or given != [(*leading, *shape) for shape in wanted]:
            names = [f"{'.'.join(entry.path)} ".lstrip() for entry in entries]
            takes = ", ".join(f"{name}{shape}" for name, shape in zip(names, wanted, strict=True))
            got = ", ".join(f"{name}{array.shape} of {array.dtype}" for name, array in zip(names, arrays, strict=True))
            kind = "uint8 images" if is_image else "observations"
            raise SmrlError(f"the policy takes {kind} of shape {takes}, or with one more leading axis, not {got}")
        rows = math.prod(leading)
        joined = np.concatenate([array.reshape(rows, -1) for array in arrays], axis=1)
        with np.errstate(over="ignore"):
            joined = joined.astype(self.spec.obs.dtype)
        require(bool(np.isfinite(joined).all()), "the observation has values that are no finite float32 numbers")
        padded = np.pad(joined, ((0, 0), (0, math.prod(self.spec.obs.shape) - joined.shape[1])))
        return padded.reshape(rows, *self.spec.obs.shape), leading

    def _encode(self, action: Any, leading: tuple[int, ...]) -> np.ndarray:
        """Return actions of the environment as the algorithm has them."""
        spec, actions = self.spec.action, _array(action, ())
        shape = () if isinstance(spec, Discrete) else spec.shape or (spec.size,)
        numbers = actions.dtype.kind in ("iu" if isinstance(spec, Discrete) else "biuf")
        if not numbers or actions.shape != (*leading, *shape) or not np.isfinite(actions).all():
            wanted = f"{spec} of shape {(*leading, *shape)}"
            raise SmrlError(f"the critics take {wanted}, not {actions.shape} of {actions.dtype}: {short_repr(action)}")
        encoded = spec.encoder()(actions.reshape(math.prod(leading), *shape))
        if isinstance(spec, Discrete) and not ((encoded >= 0) & (encoded < spec.count)).all():
            raise SmrlError(f"the critics take {spec} from {spec.start}, not {short_repr(action)}")
        return encoded


def _array(obs: Any, path: tuple[str, ...]) -> np.ndarray:
    """Return an entry of an observation as an array; of objects if there is none or if it is no array of numbers."""
    try:
        for key in path:
            obs = obs[int(key)] if isinstance(obs, tuple | list) else obs[key]
        return np.asarray(obs)
    except Exception:  # no such key, or lists of different lengths
        return np.array(None)


@dataclass(frozen=True, repr=False)
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

    @property
    def evaluations(self) -> Table:
        """evaluations.csv as arrays by column, which ``pandas.DataFrame`` takes."""
        return read_table(RunDirectory(self.path).evaluations)

    @property
    def training(self) -> Table:
        """training.csv as arrays by column; NaN where a row has no value."""
        return read_table(RunDirectory(self.path).training)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}{''.join(f', {fact}' for fact in self._facts())})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the title, the path, the state and the learning curve."""
        path, *facts = map(html.escape, (printable(str(self.path)), *self._facts()))
        return f"<div><b>{', '.join(facts)}</b><br><code>{path}</code>{self._curve()}</div>"

    def _facts(self) -> list[str]:
        """Return the title and the state, as far as the files can be read."""
        found = []
        with contextlib.suppress(SmrlError, OSError):
            found.append(printable(title(self.config["settings"])))
            found.append(f"no evaluation of {self.config['settings']['steps']:,} steps yet")
            record = self.record
            found[1:] = [f"step {record.steps[-1]:,} of {record.budget:,}", f"return {record.returns[-1]:,.1f}"]
        return found

    def _curve(self) -> str:
        """Return the returns as a small picture."""
        returns = np.zeros(0)
        with contextlib.suppress(SmrlError, OSError):
            returns = self.record.returns
        finite = returns[np.isfinite(returns)]
        if finite.size < 2:
            return ""
        height = np.interp(finite, (finite.min(), finite.max() + 1e-12), (38.0, 2.0))
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(np.linspace(2, 198, finite.size), height, strict=True))
        line = f'<polyline points="{points}" fill="none" stroke="currentColor"/>'
        return f'<br><svg width="200" height="40">{line}</svg>'

    @cached_property
    def policy(self) -> Policy:
        """The policy of the newest checkpoint."""
        return self._load_policy(best=False)

    @cached_property
    def best_policy(self) -> Policy:
        """The policy of the best evaluation so far, without its critics."""
        return self._load_policy(best=True)

    def make_env(self, env: str | Callable[..., Raw] | None = None, render_mode: str | None = None) -> Raw:
        """Make the environment that the run was trained in, with its own actions and observations.

        ``run.policy`` takes these observations and returns these actions. ``env`` is the environment's id or the
        function that makes it, and is needed only if a function made it.

        >>> env = run.make_env(render_mode="rgb_array")                           # doctest: +SKIP
        >>> obs, info = env.reset(seed=0)                                         # doctest: +SKIP
        >>> obs, reward, terminated, truncated, info = env.step(run.policy(obs))  # doctest: +SKIP
        """
        return make_environment(self, env, render_mode).own

    def export(self, path: str | Path, to: str = "numpy", best: bool = False) -> Exported:
        """Write the newest policy, or the best so far, to a folder for use without smrl; see docs/deploy.md.

        ``to`` is numpy, onnx, c or safetensors. What is written is compared with the policy before it takes its place.
        With folder, it is a small folder to share, which `smrl.load` opens, too.

        >>> print(run.export("hopper", to="onnx"))                                # doctest: +SKIP
        """
        folder, to, best = convert("path", path, Path), convert("to", to, str), convert("best", best, bool)
        if to == FOLDER:
            from smrl.report.share import share  # draws a curve: slow to import

            return share(self, folder, best)
        return export(self, folder, to, best)

    def export_memory(self, path: str | Path, env: Callable[..., Raw] | None = None) -> WrittenDataset:
        """Write the replay memory of the newest checkpoint as a Minari dataset to a new folder; see docs/data.md.

        ``env`` is needed only if a function made the run's environment.
        """
        return write_dataset(self, convert("path", path, Path), env)

    def _load_policy(self, best: bool) -> Policy:
        spec = Spec.from_json(self.config["spec"])
        directory = RunDirectory(self.path)
        directory.refuse_foreign_files()
        saved = checkpoint.load(directory.checkpoint, logger.warning)
        if saved is None:
            raise SmrlError(f"{self.path} has no checkpoint yet; train it first, or use status.policy in a callback.")
        require(
            not best or saved.facts["best"] is not None,
            f"{self.path} has kept no best policy; use the newest one, or train it further.",
        )
        step = saved.facts["best"]["step"] if best else saved.step
        return Policy(spec, load_policy(self.settings, spec, saved.arrays, best), step)


def require_run(run: Any) -> Run:
    """Raise SmrlError unless the argument is a run."""
    require(isinstance(run, Run), f"a run is given as smrl.load(path), not as {short_repr(run)}.")
    return run


def make_environment(
    run: Run, env: str | Callable[..., Raw] | None = None, render_mode: str | None = None
) -> Environment:
    """Make the environment of a run with the actions and observations of its algorithm; see `Run.make_env`."""
    name = run.settings.env
    require(
        env is not None or (run.config["env_source"] != NAMED and not name.startswith("__main__:")),
        f"{run.path} was trained in an environment that a function makes ({name}): open it in Python, with "
        f"smrl.evaluate(smrl.load({str(run.path)!r}), env=that_function) or smrl.play(…, env=that_function).",
    )
    if env is None and not run.trust:
        refuse_code(run.path, custom_code(run.settings.to_json()))
    spec = Spec.from_json(run.config["spec"])
    made = make(name if env is None else env, render_mode, **run.settings.env_options)
    if (made.spec.obs, made.spec.action) != (spec.obs, spec.action):
        made.close()
        raise SmrlError(f"{made.name} has {made.spec}; {run.path} was trained with {spec}: give its own environment")
    return made


def load(path: str | Path, trust: bool = False) -> Run:
    """Open a run directory; ``trust`` allows it to import the modules that its settings name.

    >>> policy = load("runs/Hopper-v4/sac-reuse10/seed0").policy                  # doctest: +SKIP
    """
    run = Run(convert("path", path, Path).absolute(), convert("trust", trust, bool))
    run.settings  # noqa: B018  # refuses a folder that is not a run here, rather than at first use
    return run
