"""Environments: any Gymnasium task, by its id or by a function that makes it."""

import contextlib
import importlib.util
import inspect
import operator
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType
from typing import Any

import gymnasium
from gymnasium.wrappers import FlattenObservation, TimeLimit

from smrl import plugins
from smrl.envs import source, spaces
from smrl.envs.environment import Environment
from smrl.envs.pad import PadObservations
from smrl.envs.repeat import ActionRepeat
from smrl.envs.spaces import shown
from smrl.envs.stack import FrameStack
from smrl.envs.suites import atari, dmc, mujoco_warnings, pixels
from smrl.envs.suites.bullet import registration
from smrl.errors import SmrlError, nearest, require
from smrl.plugins import in_words

Raw = gymnasium.Env[Any, Any]

# Ids of tasks that come with an extra, and the packages to import before Gymnasium is asked for them.
EXTRAS = (
    (atari.IDS, "atari", ("ale_py",)),
    (r".*MuJoCoEnv-v0", "pybullet", ("pybullet_data",)),  # not pybullet, which prints when it is imported
    (r".*BulletEnv-v0", "pybullet", ("pybullet_envs_gymnasium",)),
    (r"smrl/Catch(Continuous)?-v0", "", ("smrl.envs.suites.catch",)),
)
# Tasks whose modules surely do not use MuJoCo, which takes a quarter of a second to import.
WITHOUT_MUJOCO = (
    *("gymnasium.envs.box2d.", "gymnasium.envs.classic_control.", "gymnasium.envs.toy_text."),
    *("ale_py.", "smrl."),
)


def make(
    env: str | Callable[..., Raw],
    render_mode: str | None = None,
    action_repeat: int = 1,
    max_episode_steps: int | None = None,
    pad_observations: int | None = None,
    image_size: int | None = None,
    training: bool = False,
) -> Environment:
    """Make an environment from its Gymnasium id, ``module:id``, ``module:function`` or a function that returns one.

    Episodes are truncated after ``max_episode_steps`` of the environment's own steps, of which a repeated action takes
    several; a limit that the environment has itself holds as well. ``pad_observations`` zeros are appended to every
    observation. ``image_size`` is the side of the images of ``dmc-pixels/…`` and of Atari's games, 84 by default. For
    ``training`` Atari's rewards are clipped, and a lost life terminates.
    """
    options: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    is_drawn = isinstance(env, str) and env.rpartition(":")[2].startswith(dmc.PIXELS)
    with _quiet():
        raw = _by_name(env, options) if isinstance(env, str) else _by_call(env, options)
        is_game = isinstance(raw, atari.Game)
        name = getattr(raw.spec, "id", None) or type(raw.unwrapped).__name__
        name = name.replace("dmc/", dmc.PIXELS) if is_drawn else name
        reason = _unfit(raw, name)
        if not reason and pad_observations and (is_drawn or spaces.is_image(raw.observation_space)):
            reason = f"no zeros can be appended to the images that {name} observes: leave pad_observations out"
        if not reason and image_size is not None and not (is_drawn or is_game):
            reason = f"{name} has no images whose size could be chosen: leave image_size out"
        if reason:
            with contextlib.suppress(Exception):
                raw.close()
            raise SmrlError(reason)
        if is_game and training:
            raw = atari.Lives(raw)
        if max_episode_steps is not None:
            raw = TimeLimit(raw, max_episode_steps)
        if action_repeat > 1:
            raw = ActionRepeat(raw, action_repeat)
        if is_drawn:
            raw = FrameStack(pixels.Pixels(raw, image_size or pixels.SIZE), pixels.STACK)
        if is_game:
            raw = FrameStack(atari.Screen(raw, image_size or atari.SIZE), atari.STACK)
        notes = []
        if spaces.is_nested(raw.observation_space):
            flattened = f"the {type(raw.observation_space).__name__} observations of {name} are flattened to vectors"
            notes.append(f"{flattened} by gymnasium.wrappers.FlattenObservation")
            raw = FlattenObservation(raw)
        if pad_observations:
            notes.append(f"{pad_observations} zeros are appended to the observations of {name}")
            raw = PadObservations(raw, pad_observations)
        return Environment(raw, name, tuple(notes))


class EnvFactory:
    """Makes the environments that are open at once, and refuses one that is among them already.

    Training, evaluation and bias would otherwise end and reset each other's episodes.
    """

    def __init__(self, make_env: Callable[..., Environment]) -> None:
        self._make_env = make_env
        self._made: list[Environment] = []

    def __call__(self, **options: Any) -> Environment:
        """Make another environment."""
        env = self._make_env(**options)
        require(
            all(env.env.unwrapped is not other.env.unwrapped for other in self._made),
            f"the function that makes {env.name} returned the same environment twice: return a new one from every call",
        )
        self._made.append(env)
        return env


def _unfit(raw: Raw, name: str) -> str | None:
    try:
        return spaces.unfit(getattr(raw, "observation_space", None), getattr(raw, "action_space", None), name)
    except Exception as error:  # a space may be a property, and that may do anything
        return f"{name} fails to tell its spaces, by {in_words(error)}"


def identify(env: str | Callable[..., Raw], env_name: str | None = None) -> tuple[str, str | None]:
    """The name of a user's environment and a digest of its source, by which a run is found again.

    A function or class of a module is called ``module:name``. What cannot be imported by a name, such as a lambda, a
    partial or a nested function, needs an ``env_name``: the user then answers for its being the same environment.
    """
    if isinstance(env, str):
        require(env_name is None, f"env_name is for functions, and {env!r} is a name already: leave env_name out")
        return env, None
    _require_callable(env)
    if env_name is not None:
        is_name = isinstance(env_name, str) and env_name.isprintable() and bool(env_name.strip())
        require(is_name, f"env_name must be a name such as 'my-pendulum', not {shown(env_name)}")
        is_taken = env_name in gymnasium.registry or env_name.startswith(dmc.PREFIXES)
        require(not is_taken, f"env_name {env_name!r} is the id of another environment: choose a name of your own")
        return env_name, None
    reference = _reference(env)
    if reference is None:
        advice = 'give it one by env_name="…", or make it a function or class of a module'
        raise SmrlError(f"{shown(env)} has no name by which its run could be found again: {advice}")
    return reference, source.digest(env)


def _reference(env: Callable[..., Raw]) -> str | None:
    """``module:name``, if this is what the module has under the name."""
    if not isinstance(env, type | FunctionType | BuiltinFunctionType) or getattr(env, "__closure__", None):
        return None
    try:
        is_found = operator.attrgetter(env.__qualname__)(sys.modules[env.__module__]) is env
    except (AttributeError, KeyError):
        return None
    module = "__main__" if env.__module__ == "__mp_main__" else env.__module__  # what a spawned process calls it
    return f"{module}:{env.__qualname__}" if is_found else None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # Gymnasium reports the age of the v4 tasks, which are the paper's, and its logger colours its messages.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", message=r".*WARN: ")
        yield


def _by_name(env: str, options: dict[str, Any]) -> Raw:
    module, _, name = env.rpartition(":")
    owner = plugins.import_module(module) if module else None
    if name.startswith(dmc.PREFIXES):
        return dmc.make(name, **options)
    if name not in gymnasium.registry:
        function = plugins.find(owner, name) if owner else None
        if function is not None:
            return _by_call(function, options)
        _register(name)
    entry_point = str(getattr(gymnasium.registry.get(name), "entry_point", ""))
    if not entry_point.startswith(WITHOUT_MUJOCO):
        mujoco_warnings.to_logging()
    try:
        if entry_point.startswith("ale_py.") and re.fullmatch(atari.IDS, name):
            return atari.make(name, **options)
        return gymnasium.make(name, disable_env_checker=True, **options)
    except SmrlError:
        raise
    except (Exception, SystemExit) as error:
        # Gymnasium says by its bare Error that an id is malformed.
        unknown = isinstance(error, gymnasium.error.UnregisteredEnv | gymnasium.error.DeprecatedEnv)
        if unknown or type(error) is gymnasium.error.Error or _modern(name):
            is_word = name.replace(".", "_").isidentifier()
            reason = plugins.absent(owner, name) if owner and is_word else _unknown(name)
            raise SmrlError(reason) from error
        raise SmrlError(f"{name} cannot be made, its constructor raised {in_words(error)}") from error


def _register(name: str) -> None:
    """Make Gymnasium know the ids of the extra that this one seems to come with."""
    for pattern, extra, packages in EXTRAS:
        if re.fullmatch(pattern, name):
            advice = f'pip install "smrl[{extra}]"'
            if any(importlib.util.find_spec(package) is None for package in packages):
                raise SmrlError(f"{name} needs an extra that is not installed: {advice}")
            for package in packages:
                plugins.import_module(package, advice)
    registration.register()


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
    _require_callable(env)
    name = getattr(env, "__qualname__", shown(env))
    try:
        inspect.signature(env).bind(**options)
    except TypeError as error:
        wanted = "a parameter render_mode" if options else "no parameter without a default"
        raise SmrlError(f"{name} cannot make an environment ({error}): it needs {wanted}") from error
    except ValueError:
        pass  # some built-in callables have no signature: the call will tell
    mujoco_warnings.to_logging()
    try:
        raw = env(**options)
    except (Exception, SystemExit) as error:
        raise SmrlError(f"{name} cannot make an environment, it raised {in_words(error)}") from error
    if not isinstance(raw, gymnasium.Env):
        raise SmrlError(f"{name} must return a gymnasium.Env, it returned {shown(raw)}")
    return raw


def _require_callable(env: Any) -> None:
    message = f"an environment is given by its id or by a function that makes it, not by {shown(env)}"
    require(callable(env), message)
