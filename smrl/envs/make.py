"""Make any Gymnasium environment by its id or by a function."""

import contextlib
import importlib
import importlib.util
import inspect
import logging
import re
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.wrappers import FlattenObservation, NormalizeObservation, NormalizeReward, TimeLimit

from smrl import plugins
from smrl.envs import spaces
from smrl.envs.catalogue import FAMILIES
from smrl.envs.environment import Environment, Finding
from smrl.envs.suites import atari, bullet, dmc
from smrl.envs.wrappers import ActionRepeat, FrameStack, append_zeros
from smrl.errors import SmrlError, nearest, require, short_repr
from smrl.plugins import UserCode, in_words

Raw = gymnasium.Env[Any, Any]

# Ids of tasks that come with an extra, and the package to import before Gymnasium is asked for them.
EXTRAS = (
    (atari.IDS, "atari", "ale_py"),
    (r".*MuJoCoEnv-v0", "pybullet", "pybullet_data"),  # not pybullet, which prints when it is imported
    (r".*BulletEnv-v0", "pybullet", "pybullet_envs_gymnasium"),
    (r"smrl/Catch(Continuous)?-v0", "", "smrl.envs.suites.catch"),
)
# Entry points that do not use MuJoCo, which takes a quarter of a second to import.
WITHOUT_MUJOCO = (
    *("gymnasium.envs.box2d.", "gymnasium.envs.classic_control.", "gymnasium.envs.toy_text."),
    *("ale_py.", "smrl."),
)

AS_RETURNED = "The trained policy does the same, so it takes observations as the environment returns them."

logger = logging.getLogger(__name__)
_logged: set[str] = set()


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

    ``max_episode_steps`` counts the environment's own steps, several of which make up a repeated action; a limit that
    the environment has itself also applies. ``pad_observations`` zeros are appended to every observation.
    ``image_size`` is the side of the images of ``dmc-pixels/…`` and of Atari games, by default 84. ``training`` clips
    the rewards of Atari games and makes the loss of a life terminate.
    """
    options: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    is_drawn = isinstance(env, str) and env.rpartition(":")[2].startswith(dmc.PIXELS)
    with warnings.catch_warnings():
        # Gymnasium warns about the age of the v4 tasks, which are the paper's, and its logger colours its messages.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", message=r".*WARN: ")
        raw = _make_by_name(env, options) if isinstance(env, str) else _make_by_call(env, options)
        is_game = isinstance(raw, atari.Game)
        name = getattr(raw.spec, "id", None) or type(raw.unwrapped).__name__
        name = name.replace("dmc/", dmc.PIXELS) if is_drawn else name
        problem = spaces.unsupported(raw, name) or _running_statistics(raw, name)
        if not problem and pad_observations and (is_drawn or spaces.is_image(raw.observation_space)):
            problem = f"zeros cannot be appended to the images that {name} observes: leave pad_observations out"
        if not problem and image_size is not None and not (is_drawn or is_game):
            problem = f"{name} has no images whose size could be chosen: leave image_size out"
        if problem:
            with contextlib.suppress(Exception, SystemExit):
                raw.close()
            raise SmrlError(problem)
        if is_game and training:
            raw = atari.Lives(raw)
        if max_episode_steps is not None:
            raw = TimeLimit(raw, max_episode_steps)
        if action_repeat > 1:
            raw = ActionRepeat(raw, action_repeat)
        if is_drawn:
            raw = FrameStack(dmc.Pixels(raw, image_size or dmc.SIZE), dmc.STACK)
        if is_game:
            raw = FrameStack(atari.Screen(raw, image_size or atari.SIZE), atari.STACK)
        notes = [Finding("warning", *doubt) for doubt in spaces.doubts(raw.observation_space, name)]
        own = raw
        if spaces.is_nested(raw.observation_space):
            flattened = f"the {type(raw.observation_space).__name__} observations of {name} are flattened to vectors"
            what = f"{flattened} by gymnasium.wrappers.FlattenObservation"
            notes.append(Finding("note", what, AS_RETURNED))
            raw = FlattenObservation(raw)
        if pad_observations:
            what = f"{pad_observations} zeros are appended to the observations of {name}"
            notes.append(Finding("note", what, AS_RETURNED))
            raw = append_zeros(raw, pad_observations)
        return Environment(raw, name, tuple(notes), own)


class EnvFactory:
    """Make the environments of one run, and refuse an environment that was returned before.

    Training, evaluation and bias estimation would otherwise end and reset each other's episodes.
    """

    def __init__(self, make_env: Callable[..., Environment]) -> None:
        self._make_env = make_env
        self._made: list[Environment] = []

    def __call__(self, **options: Any) -> Environment:
        """Make another environment."""
        require(
            not any(env.is_device for env in self._made),
            f"{self._made[0].name if self._made else ''} is a device by its metadata, so only one may be made.",
        )
        env = self._make_env(**options)
        require(
            all(env.env.unwrapped is not other.env.unwrapped for other in self._made),
            f"the function that makes {env.name} returned the same environment twice: return a new one from every call",
        )
        self._made.append(env)
        return env


def is_known(name: str) -> bool:
    """Return whether an id is in Gymnasium's registry or in one of smrl's suites, so that no other code makes it.

    The suites are imported where the name seems to be theirs. The name of a suite that cannot be imported is known,
    because making the environment then only raises an error.
    """
    if ":" in name:  # Gymnasium would import what precedes the colon
        return False
    if name in gymnasium.registry or any(name in family.tasks for family in FAMILIES.values()):
        return True
    with contextlib.suppress(SmrlError):
        if name.startswith(dmc.PREFIXES):
            return dmc.find(name) is not None or dmc.is_registered(name)
        _register_extra(name)
        return name in gymnasium.registry
    return True


def require_callable(env: Any) -> None:
    """Raise SmrlError unless an environment that is given without a name can be called."""
    message = f"an environment is given by its id or by a function that makes it, not by {short_repr(env)}"
    require(callable(env), message)


def _make_by_name(env: str, options: dict[str, Any]) -> Raw:
    module, colon, name = env.rpartition(":")
    require(not colon or bool(module and name), f"{env!r} does not name an environment: write module:id or just the id")
    owner = plugins.import_module(module) if module else None
    if name.startswith(dmc.PREFIXES):
        return dmc.make(name, **options)
    if name not in gymnasium.registry:
        function = plugins.find(owner, name) if owner else None
        if function is not None:
            return _make_by_call(function, options)
        _register_extra(name)
        _refuse_without_version(name)
    entry_point = str(getattr(gymnasium.registry.get(name), "entry_point", ""))
    if not entry_point.startswith(WITHOUT_MUJOCO):
        _log_mujoco_warnings()

    def describe(error: BaseException) -> BaseException:
        if isinstance(error, SmrlError):
            return error
        # Gymnasium raises its bare Error where an id is malformed.
        unknown = isinstance(error, gymnasium.error.UnregisteredEnv | gymnasium.error.DeprecatedEnv)
        if unknown or type(error) is gymnasium.error.Error or _modern_id(name):
            is_identifier = name.replace(".", "_").isidentifier()
            message = plugins.absent(owner, name) if owner and is_identifier else _unknown_id(name)
            return SmrlError(message)
        if isinstance(error, gymnasium.error.DependencyNotInstalled) and entry_point.startswith(
            "gymnasium.envs.mujoco."
        ):
            return SmrlError(f'{name} needs an extra that is not installed: pip install "smrl[mujoco]"')
        return SmrlError(f"{name} cannot be made, its constructor raised {in_words(error)}")

    with UserCode(describe):
        if entry_point.startswith("ale_py.") and re.fullmatch(atari.IDS, name):
            return atari.make(name, **options)
        return gymnasium.make(name, disable_env_checker=True, **options)


def _make_by_call(env: Callable[..., Raw], options: dict[str, Any]) -> Raw:
    require_callable(env)
    name = getattr(env, "__qualname__", short_repr(env))
    try:
        inspect.signature(env).bind(**options)
    except TypeError as error:
        wanted = "a parameter render_mode" if options else "no parameter without a default"
        raise SmrlError(f"{name} cannot make an environment ({error}): it needs {wanted}") from error
    except ValueError:
        pass  # some built-in callables have no signature, so that only the call shows it
    _log_mujoco_warnings()
    with UserCode(lambda error: SmrlError(f"{name} cannot make an environment, it raised {in_words(error)}")):
        raw = env(**options)
    if not isinstance(raw, gymnasium.Env):
        raise SmrlError(f"{name} must return a gymnasium.Env, it returned {short_repr(raw)}")
    return raw


def _running_statistics(env: Raw, name: str) -> str | None:
    """Return an error message if one of Gymnasium's wrappers updates statistics over episodes."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, NormalizeObservation | NormalizeReward) and env.update_running_mean:
            flag = "--normalise-observations" if isinstance(env, NormalizeObservation) else "--normalise-rewards"
            return (
                f"{name} has a {type(env).__name__}, whose running statistics training and evaluation do not share and "
                f"checkpoints do not keep: train with {flag} instead, or set the wrapper's statistics and "
                "update_running_mean = False where it is made"
            )
        env = env.env
    return None


def _register_extra(name: str) -> None:
    """Register the tasks of the extra that an id seems to come from."""
    for pattern, extra, package in EXTRAS:
        if re.fullmatch(pattern, name):
            advice = f'pip install "smrl[{extra}]"'
            is_installed = importlib.util.find_spec(package) is not None
            require(is_installed, f"{name} needs an extra that is not installed: {advice}")
            plugins.import_module(package, advice)
    bullet.register()


def _refuse_without_version(name: str) -> None:
    """Refuse an id without a version, which Gymnasium completes by the newest that it has today."""
    versions = [id for id in gymnasium.registry if re.fullmatch(re.escape(name) + r"-v\d+", id)]
    if name not in gymnasium.registry and versions:
        newest = max(versions, key=lambda id: int(id.rpartition("-v")[2]))
        raise SmrlError(f"{name} has no version, and results and presets depend on it: write {newest}")


def _modern_id(name: str) -> str | None:
    """Return the v4 id of a task whose older version Gymnasium lacks or has only as a stub that raises."""
    task = re.fullmatch(r"(.+)-v[0-3]", name)
    modern = f"{task[1]}-v4" if task else ""
    spec = gymnasium.registry.get(name)
    is_stub = spec is None or getattr(spec.entry_point, "__module__", "") == "gymnasium.envs"
    return modern if is_stub and modern in gymnasium.registry else None


def _unknown_id(name: str) -> str:
    modern = _modern_id(name)
    if modern:
        return f"Gymnasium no longer has {name}: use {modern}"
    known = (id for id in gymnasium.registry if not _modern_id(id))
    hint = nearest(name, known) or "; see gymnasium.pprint_registry(), or name its module as in my_module:MyTask-v0"
    return f"there is no environment {name!r}{hint}"


def _log_mujoco_warnings() -> None:
    """Send MuJoCo's warnings to Python's logging, unless another handler is set.

    Without a handler MuJoCo prints warnings and appends them to MUJOCO_LOG.TXT. dm_control sets its own handler.
    """
    with contextlib.suppress(Exception):  # an environment that needs MuJoCo reports itself that it cannot be imported
        mujoco = importlib.import_module("mujoco")
        if mujoco.get_mju_user_warning() is None:
            mujoco.set_mju_user_warning(_log_mujoco_warning)


def _log_mujoco_warning(message: str) -> None:
    """Log each kind of warning once, because an unstable simulation repeats it.

    Deprecated attributes of a model are logged as information, which Python hides by default: Gymnasium's models have
    them.
    """
    with contextlib.suppress(Exception):  # MuJoCo aborts the process if this raises
        kind = re.split(r"\d", message, maxsplit=1)[0]  # without the joint and the time
        if kind not in _logged:
            _logged.add(kind)
            level = logging.INFO if "deprecated" in message else logging.WARNING
            logger.log(level, "MuJoCo: %s (reported once per process)", message.strip())
