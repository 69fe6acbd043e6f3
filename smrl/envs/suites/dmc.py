"""The DeepMind Control suite, as ``dmc/cheetah-run`` or by Shimmy's Gymnasium id ``dm_control/cheetah-run-v0``.

Both names make the same environment. It steps dm_control directly, which is faster than Shimmy and bit for bit the
same, and observes one vector. ``dmc-pixels/cheetah-run`` is the same task observed in images (`Pixels`). Importing this
module does not import dm_control.
"""

import contextlib
import importlib
import importlib.util
import logging
import math
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from smrl.envs.catalogue import canonical
from smrl.envs.wrappers import Reset, Step
from smrl.errors import SmrlError, nearest, require
from smrl.plugins import import_module, in_words

PIXELS = "dmc-pixels/"
PREFIXES = ("dmc/", PIXELS, "dm_control/")
LIMIT = 1000  # frames per episode for LQR, which has no time limit of its own; all other tasks have this one
UNBOUNDED, REACH = 1e9, 10.0  # LQR declares actions up to ±1e10, but its optimal controllers stay within ±10
INSTALL = 'pip install "smrl[dmc]"'

WIDTH, HEIGHT = 320, 240  # of rendered pictures
SIZE, STACK = 84, 3  # of the images that are observed, as in DrQ-v2
RENDERER = "MUJOCO_GL"  # environment variable by which a user chooses the renderer
RENDERERS = ("egl", "osmesa", "glfw")  # in the order of preference; only glfw needs a screen
PLATFORM = "PYOPENGL_PLATFORM"  # environment variable by which dm_control chooses PyOpenGL's platform
INSTALL_RENDERER = "install a system renderer (Debian: apt-get install libegl1 libgl1 libosmesa6)"


class DmControl(gymnasium.Env[np.ndarray, np.ndarray]):
    """One task of the suite.

    Observations are the entries of dm_control's dictionary, concatenated in its order. Episodes are truncated at
    dm_control's time limit, 1000 frames, and only LQR's tasks terminate. An episode depends only on the seed given to
    ``reset`` and on the actions.
    """

    def __init__(self, domain: str, task: str, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"the render mode is rgb_array or none, not {render_mode!r}")
        loader = suite()  # imports absl, whose logger the next line needs
        with _no_model_warnings():
            # LQR draws its springs at random when it is made. A fixed seed makes every instance the same system.
            env = loader.load(domain, task, task_kwargs={"random": 0})
        self._env, self._task, self._physics = env, env.task, env.physics
        self._physics.check_invalid_state = _InvalidState(self._physics)
        if render_mode is None and (domain, task) == ("quadruped", "escape"):
            # Its reset creates a renderer to upload the new terrain, which fails on a machine without OpenGL.
            self._physics.__class__ = type("Physics", (type(self._physics),), {"contexts": None})
        self._substeps = round(env.control_timestep() / self._physics.timestep())
        self._limit = LIMIT if math.isinf(env._step_limit) else math.ceil(env._step_limit)
        self._frames_left = 0
        self._is_seeded = False

        actions = env.action_spec()
        bounds = np.broadcast_to([actions.minimum, actions.maximum], (2, *actions.shape))
        self.action_space = Box(*np.where(abs(bounds) > UNBOUNDED, np.sign(bounds) * REACH, bounds), dtype=np.float64)
        size = sum(math.prod(entry.shape) for entry in env.observation_spec().values())
        self.observation_space = Box(-np.inf, np.inf, (size,), np.float64)
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": round(1 / env.control_timestep())}
        # The cameras of DrQ-v2, because the quadruped's first one is too far away.
        self._camera_id = 2 if domain == "quadruped" else 0
        self.spec = gymnasium.envs.registration.EnvSpec(
            id=f"dmc/{domain}-{task}",
            entry_point="smrl.envs.suites.dmc:DmControl",
            max_episode_steps=self._limit,
            order_enforce=False,
            disable_env_checker=True,
            kwargs={"domain": domain, "task": task},
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Start an episode; without a seed, continue the random numbers of the last one."""
        super().reset(seed=seed)
        if seed is None and not self._is_seeded:
            seed = int(self.np_random.integers(2**32))
        if seed is not None:
            # dm_control's generator takes 32 bits or several words of them. Up to 32 bits this is what Shimmy does.
            self._task.random.seed(seed if seed < 2**32 else np.random.SeedSequence(seed).generate_state(8))
            self._is_seeded = True
        entries = self._env.reset().observation
        self._frames_left = self._limit
        return _flat(entries), {}

    def step(self, action: np.ndarray) -> Step:
        """Simulate one frame as dm_control's environment does, without its bookkeeping."""
        if not self._frames_left:
            raise gymnasium.error.ResetNeeded("the episode is over or none has begun: call reset")
        task, physics = self._task, self._physics
        task.before_step(action, physics)
        physics.step(self._substeps)
        task.after_step(physics)
        reward = float(task.get_reward(physics))
        obs = _flat(task.get_observation(physics))
        discount = task.get_termination(physics)  # None, unless the task terminates
        self._frames_left = self._frames_left - 1 if discount is None else 0
        terminated = discount == 0
        return obs, reward, terminated, not (terminated or self._frames_left), {}

    def render(self) -> Any:
        return None if self.render_mode is None else self._physics.render(HEIGHT, WIDTH, self._camera_id)

    def close(self) -> None:
        self._frames_left = 0
        self._physics.free()


class Pixels(gymnasium.ObservationWrapper[Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Observe a task in ``size`` × ``size`` RGB images instead of its vector.

    Every step draws one image, so this wrapper belongs around an action repeat. Without ``shadows``, which DrQ-v2 has,
    a CPU draws several times as fast, but edges are not smoothed.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], size: int = SIZE, shadows: bool = False) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, size=size, shadows=shadows)
        super().__init__(env)
        self.observation_space = Box(0, 255, (size, size, 3), np.uint8)
        task: Any = env.unwrapped
        assert isinstance(task, DmControl)
        visual = task._physics.model.vis
        visual.global_.offwidth = max(visual.global_.offwidth, size)
        visual.global_.offheight = max(visual.global_.offheight, size)
        if not shadows:
            visual.quality.shadowsize = visual.quality.offsamples = 0
        engine = importlib.import_module("dm_control.mujoco.engine")
        try:
            # `Physics.render` would create a new camera for each image, which takes as long as drawing.
            self._camera = engine.Camera(task._physics, size, size, task._camera_id)
            self._camera.render()
        except Exception as error:
            chosen = os.environ.get(RENDERER)
            advice = f"choose another {RENDERER} than {chosen!r}, or " if chosen else ""
            raise SmrlError(f"cannot draw images ({in_words(error)}): {advice}{INSTALL_RENDERER}") from error

    def observation(self, observation: Any) -> np.ndarray:
        return self._camera.render().copy()


def _flat(entries: dict[str, Any]) -> np.ndarray:
    return np.concatenate([entry.ravel() for entry in entries.values()])


class _InvalidState:
    """Check for new MuJoCo warnings after a step as dm_control does, without its allocations and Python loops."""

    def __init__(self, physics: Any) -> None:
        self._physics = physics
        self._check = physics.check_invalid_state
        self._before = b""

    def __call__(self) -> "_InvalidState":
        return self

    def __enter__(self) -> None:
        self._before = self._physics._warnings.tobytes()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        counts = self._physics._warnings
        if kind is None and counts.tobytes() != self._before:
            with self._check():  # raises, or logs if so configured, where a count has grown
                self._physics._warnings_before[:] = np.frombuffer(self._before, counts.dtype)


def make(name: str, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """Make a task of the suite by any of its names, or another task of dm_control by its Shimmy id."""
    is_installed = importlib.util.find_spec("dm_control") is not None
    require(is_installed, f"{name} needs an extra that is not installed: {INSTALL}")
    found = find(name)
    if found and render_mode == "human":
        return gymnasium.wrappers.HumanRendering(DmControl(*found, render_mode="rgb_array"))
    if found:
        return DmControl(*found, render_mode or ("rgb_array" if name.startswith(PIXELS) else None))
    known = [*names(), *names(PIXELS), "dmc/cup-catch", f"{PIXELS}cup-catch"]
    if is_registered(name):
        return gymnasium.make(name, render_mode=render_mode, disable_env_checker=True)
    if name.startswith("dm_control/") and importlib.util.find_spec("shimmy"):
        known = [id for id in gymnasium.registry if id.startswith("dm_control/")]
    domains = ", ".join(sorted({domain for domain, _ in suite().ALL_TASKS}))
    hint = nearest(name, known) or f"; a task is named as dmc/cheetah-run is, the domains are {domains}"
    raise SmrlError(f"there is no environment {name!r}{hint}")


def is_registered(name: str) -> bool:
    """Return whether Shimmy registers a name, as it does also for tasks that are not in the suite."""
    if name.startswith("dm_control/") and importlib.util.find_spec("shimmy"):
        importlib.import_module("shimmy")
    return name in gymnasium.registry


def find(name: str) -> tuple[str, str] | None:
    """Return domain and task of a name, or None if it is not in the suite; - and _ are equivalent."""
    domain, _, task = canonical(name).rpartition("/")[2].partition("-")
    return (domain, task) if name.startswith(PREFIXES) and (domain, task) in suite().ALL_TASKS else None


def names(prefix: str = "dmc/") -> list[str]:
    """Return the short names of all tasks, such as ``dmc/cheetah-run``."""
    return [f"{prefix}{domain}-{task}" for domain, task in suite().ALL_TASKS]


def suite() -> Any:
    """Import ``dm_control.suite``, also on machines that cannot render."""
    if "dm_control._render" not in sys.modules:
        _import_renderer()
    return import_module("dm_control.suite", INSTALL)


def _import_renderer() -> None:
    """Import dm_control's renderer: the user's choice, or else the first that can be imported.

    The variable stays set to the renderer that was found, because the package mujoco must load the same libraries.
    """
    chosen = os.environ.get(RENDERER)
    if chosen:
        advice = f"choose another {RENDERER} than {chosen!r}: egl, osmesa, glfw or off"
        import_module("dm_control._render", advice)
        return
    platform = os.environ.get(PLATFORM)
    for backend in RENDERERS:
        os.environ[RENDERER] = backend
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", module="glfw")  # without a screen it only warns
                importlib.import_module("dm_control._render")
            return
        except Exception:  # a missing library can raise anything
            os.environ.pop(PLATFORM, None)
            if platform is not None:
                os.environ[PLATFORM] = platform
            # PyOpenGL keeps the platform for which it was first imported.
            for name in [name for name in sys.modules if name.partition(".")[0] == "OpenGL"]:
                del sys.modules[name]
    os.environ[RENDERER] = "off"
    try:
        import_module("dm_control._render", INSTALL)
    finally:
        del os.environ[RENDERER]


@contextlib.contextmanager
def _no_model_warnings() -> Iterator[None]:
    """Suppress log messages about deprecated attributes in the suite's models."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
