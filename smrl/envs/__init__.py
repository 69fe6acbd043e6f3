"""Environments: any Gymnasium task with continuous actions, by its id or by a function that makes it."""

import contextlib
import importlib
import importlib.util
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from smrl.envs import dmc
from smrl.envs.environment import Environment, EnvironmentFault, in_words, rescale, shown
from smrl.envs.repeat import ActionRepeat
from smrl.errors import SmrlError, nearest

__all__ = ["Environment", "EnvironmentFault", "make", "rescale"]

Raw = gymnasium.Env[Any, Any]

# Ids of tasks that come with an extra, and the packages which register them when imported.
EXTRAS = (
    (r"ALE/.*|.*NoFrameskip-v4", "atari", ("ale_py",)),
    (r".*MuJoCoEnv-v0", "pybullet", ("pybullet_data", "smrl.envs.bullet")),  # pybullet itself prints when imported
    (r".*BulletEnv-v0", "pybullet", ("pybullet_envs_gymnasium",)),
)


def make(env: str | Callable[..., Raw], render_mode: str | None = None, action_repeat: int = 1) -> Environment:
    """Make an environment from its Gymnasium id, from ``module:id`` or from a function that returns one."""
    options: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    with _quiet():
        raw = _by_id(env, options) if isinstance(env, str) else _by_call(env, options)
        name = getattr(raw.spec, "id", None) or type(raw.unwrapped).__name__
        try:
            reason = _unfit(raw, name)
        except Exception as error:  # a space may be a property, and that may do anything
            reason = f"{name} fails to tell its spaces, by {in_words(error)}"
        if reason:
            with contextlib.suppress(Exception):
                raw.close()
            raise SmrlError(reason)
        return Environment(ActionRepeat(raw, action_repeat) if action_repeat > 1 else raw, name)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # Gymnasium reports the age of the v4 tasks, which are the paper's, and its logger colours its messages.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", message=r".*WARN: ")
        yield


def _by_id(env: str, options: dict[str, Any]) -> Raw:
    module, _, name = env.rpartition(":")
    if module:
        _import(module, "correct its name, or run where Python finds it (PYTHONPATH)")
    if name.startswith(dmc.PREFIXES):
        return dmc.make(name, **options)
    if name not in gymnasium.registry:
        _import_extra(name)
    try:
        return gymnasium.make(name, disable_env_checker=True, **options)
    except Exception as error:
        # Gymnasium says by its bare Error that an id is malformed.
        unknown = isinstance(error, gymnasium.error.UnregisteredEnv | gymnasium.error.DeprecatedEnv)
        if unknown or type(error) is gymnasium.error.Error or _modern(name):
            raise SmrlError(_unknown(name)) from error
        raise SmrlError(f"{name} cannot be made, its constructor raised {in_words(error)}") from error


def _import(module: str, advice: str) -> None:
    try:
        importlib.import_module(module)
    except Exception as error:
        raise SmrlError(f"the module {module!r} cannot be imported ({in_words(error)}): {advice}") from error


def _import_extra(name: str) -> None:
    for pattern, extra, packages in EXTRAS:
        if re.fullmatch(pattern, name):
            advice = f'pip install "smrl[{extra}]"'
            if any(importlib.util.find_spec(package) is None for package in packages):
                raise SmrlError(f"{name} needs an extra that is not installed: {advice}")
            for package in packages:
                _import(package, advice)


def _modern(name: str) -> str | None:
    """The v4 id of a task whose older version Gymnasium does not have, or has only as a stub that raises."""
    task = re.fullmatch(r"(.+)-v[0-3]", name)
    modern = f"{task[1]}-v4" if task else ""
    spec = gymnasium.registry.get(name)
    is_stub = spec is None or getattr(spec.entry_point, "__module__", "") == "gymnasium.envs"
    return modern if is_stub and modern in gymnasium.registry else None


def _unknown(name: str) -> str:
    modern = _modern(name)
    if modern:
        return f"Gymnasium no longer has {name}: use {modern}"
    known = (id for id in gymnasium.registry if not _modern(id))
    hint = nearest(name, known) or "; see gymnasium.pprint_registry(), or name its module as in my_module:MyTask-v0"
    return f"there is no environment {name!r}{hint}"


def _by_call(env: Callable[..., Raw], options: dict[str, Any]) -> Raw:
    if not callable(env):
        raise SmrlError(f"an environment is given by its id or by a function that makes it, not by {shown(env)}")
    name = getattr(env, "__qualname__", shown(env))
    try:
        inspect.signature(env).bind(**options)
    except TypeError as error:
        wanted = "a parameter render_mode" if options else "no parameter without a default"
        raise SmrlError(f"{name} cannot make an environment ({error}): it needs {wanted}") from error
    except ValueError:
        pass  # some built-in callables have no signature: the call will tell
    try:
        raw = env(**options)
    except Exception as error:
        raise SmrlError(f"{name} cannot make an environment, it raised {in_words(error)}") from error
    if not isinstance(raw, gymnasium.Env):
        raise SmrlError(f"{name} must return a gymnasium.Env, it returned {shown(raw)}")
    return raw


def _unfit(raw: Raw, name: str) -> str | None:
    """Why smrl cannot train in this environment, in one sentence."""
    actions, observations = getattr(raw, "action_space", None), getattr(raw, "observation_space", None)
    needed = "smrl's continuous-control algorithms need a bounded Box action space"
    if not isinstance(actions, Box) or actions.dtype.kind != "f" or 0 in actions.shape:
        return f"{needed}, {name} has {shown(actions)}: choose a task with continuous actions"
    with np.errstate(all="ignore"):
        widths = actions.high - actions.low  # infinite or NaN also for the largest numbers, meant as no bound
    if not (np.isfinite(widths) & (widths > 0)).all():
        return f"{needed} with low < high, {name} has {shown(actions)}: give its action_space such bounds"
    if observations is None:
        return f"{name} has no observation_space: set it to a gymnasium.spaces.Box in its constructor"
    if not isinstance(observations, Box):
        kind = type(observations).__name__
        return f"{name} has {kind} observations, not one vector: wrap it in gymnasium.wrappers.FlattenObservation"
    if observations.dtype == np.uint8 and len(observations.shape) == 3:
        return f"{name} observes images of shape {observations.shape}, which need a pixel algorithm: observe a vector"
    if 0 in observations.shape:
        return f"{name} has observations of shape {observations.shape}: there is nothing to observe"
    return None
