"""The environment as the training loop sees it: everything that goes in or comes out is converted and checked."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, final

import gymnasium
import numpy as np

from smrl.envs import spaces
from smrl.envs.wrappers import NEW_LIFE, FrameStack
from smrl.errors import SmrlError, short_repr
from smrl.plugins import UserCode, in_words
from smrl.types import Entry

Level = Literal["error", "warning", "note"]
Step = tuple[np.ndarray, float, bool, bool]  # observation, reward, terminated, truncated
FLOAT32_MAX = float(np.finfo(np.float32).max)
SUCCESS = "is_success"  # the entry of an info that says whether an episode has succeeded


@dataclass(frozen=True)
class Finding:
    """A finding about an environment and what it means for training."""

    level: Level
    what: str
    meaning: str


class EnvironmentFault(SmrlError):
    """Error of an environment that raised an exception or returned invalid values."""


@final
class Environment:
    """A Gymnasium environment with supported spaces, made by `smrl.envs.make.make`.

    Observations are float32 vectors or uint8 images. Actions are what an algorithm chooses: a vector in [-1, 1], or the
    index of a discrete action. ``notes`` are for the user to read. ``own`` is the environment with its own actions
    and observations, before the latter were flattened or padded.

    ``over`` is true when the episode has ended. A step that loses a life may terminate without ending the episode: its
    observation then begins the next life. ``info`` is that of the last reset or step.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        name: str,
        notes: tuple[Finding, ...] = (),
        own: gymnasium.Env[Any, Any] | None = None,
    ) -> None:
        self.env = env
        self.own = env if own is None else own
        self.name = name
        self.notes = notes
        # Counts only as the outermost wrapper, because another one around it might skip frames.
        stack = env.stack if isinstance(env, FrameStack) else 1
        spec = spaces.spec(env.observation_space, env.action_space, stack)
        entries = spaces.entries(self.own.observation_space)
        self.spec = spec if entries == (Entry((), spec.obs.shape),) else replace(spec, entries=entries)
        self.over = self._is_closed = False
        self.info: dict[str, Any] = {}
        self._is_image = spaces.is_image(env.observation_space)
        self._obs_shape = env.observation_space.shape
        self._decode = self.spec.action.decoder()

    @property
    def is_device(self) -> bool:
        """Whether metadata["real_time"] says that this is a device, which only runs with --real-time may drive."""
        return self._metadata("real_time") is True

    @property
    def control_period(self) -> Any:
        """The seconds per step in metadata["control_period"], not checked; None without them."""
        return self._metadata("control_period")

    def reset(self, seed: int | None) -> np.ndarray:
        """Start an episode and return its first observation, a new array that the environment does not change later."""
        with self._calling(f"reset(seed={seed})"):
            result = self.env.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._fault(f"returned {short_repr(result)} from reset() instead of an observation and an info")
        self.over, self.info = False, _as_dict(result[1])
        return self._observation(result[0], "reset")

    def begin_reset(self, seed: int | None) -> Callable[[], np.ndarray]:
        """Return a function that resets; a worker (`smrl.envs.workers`) begins at once, and its function waits."""
        return partial(self.reset, seed)

    def begin_step(self, action: np.ndarray) -> Callable[[], Step]:
        """Return a function that takes a step; as `begin_reset`."""
        return partial(self.step, action)

    def step(self, action: np.ndarray) -> Step:
        """Take a step and return the observation, the reward, terminated and truncated."""
        given = self._decode(action)  # a new array, because some environments clip in place
        with self._calling("step()", action):
            result = self.env.step(given)
        try:
            obs, reward, terminated, truncated, info = result
            ends = bool(terminated), bool(truncated)
            self.info = _as_dict(info)
            goes_on = self.info.get(NEW_LIFE, False)
        except Exception as error:
            wanted = "an observation, a reward, terminated, truncated and an info"
            raise self._fault(f"returned {short_repr(result)} from step() instead of {wanted}", action) from error
        self.over = ends[1] or (ends[0] and not goes_on)
        return self._observation(obs, "step", action), self._reward(reward, action), *ends

    def render(self) -> Any:
        """Return what the environment's render mode makes of the current state."""
        if self.env.render_mode is None:
            raise SmrlError(f'{self.name} was made without a render mode: make it with render_mode="rgb_array"')
        with self._calling("render()"):
            return self.env.render()

    def close(self) -> None:
        """Close the environment, once; an exception does no harm, but one that is to end the process is a fault."""
        if self._is_closed:
            return
        self._is_closed = True
        with self._calling("close()"), contextlib.suppress(Exception):
            self.env.close()

    def _metadata(self, name: str) -> Any:
        with self._calling("metadata"):
            return dict(self.env.metadata or {}).get(name)

    def _calling(self, call: str, action: np.ndarray | None = None) -> UserCode:
        return UserCode(lambda error: self._fault(f"failed in {call} with {in_words(error)}", action))

    def _observation(self, obs: Any, call: str, action: np.ndarray | None = None) -> np.ndarray:
        try:
            raw = np.asarray(obs)
            flat = raw.reshape(-1)
            square = 0.0 if self._is_image else float(np.vdot(flat, flat))  # unlike dot, vdot overflows silently
        except Exception as error:
            raise self._fault(f"returned {short_repr(obs)} from {call}(), which is no array of numbers") from error
        if raw.shape != self._obs_shape:
            shapes = f"shape {raw.shape} from {call}() instead of the shape {self._obs_shape} of its space"
            raise self._fault(f"returned an observation of {shapes}", action)
        if self._is_image:
            if raw.dtype != np.uint8:
                raise self._fault(f"returned an image of {raw.dtype} from {call}() instead of the uint8 of its space")
            return raw.copy()
        # A finite sum of squares is the fastest proof that all values are finite. Only otherwise look at each.
        if not square <= FLOAT32_MAX:
            with np.errstate(all="ignore"):
                (bad,) = np.nonzero(~np.isfinite(flat.astype(np.float32)))
            if bad.size:
                value = f"{flat[bad[0]]} at index {bad[0]}, which is no finite float32 number"
                raise self._fault(f"returned an observation from {call}() with {value}", action)
        return flat.astype(np.float32)  # always copies, because the environment may change its own array later

    def _reward(self, reward: Any, action: np.ndarray) -> float:
        if not isinstance(reward, float):  # np.float64 is a float too
            scalar = np.asarray(reward) if np.isscalar(reward) or hasattr(reward, "dtype") else np.empty(0)
            if scalar.shape != () or scalar.dtype.kind not in "biuf":
                raise self._fault(f"returned the reward {short_repr(reward)}, which is not one number")
            reward = scalar.item()
        if not -FLOAT32_MAX <= reward <= FLOAT32_MAX:
            raise self._fault(f"returned the reward {reward}, which is no finite float32 number", action)
        return float(reward)

    def _fault(self, what: str, action: np.ndarray | None = None) -> EnvironmentFault:
        if action is not None and not np.isfinite(action).all():
            what += f" after the action {short_repr(action)}: not the environment but the policy has diverged"
        return EnvironmentFault(f"{self.name} {what}")


def _as_dict(info: Any) -> dict[str, Any]:
    return info if isinstance(info, dict) else {}


def success_of(info: Mapping[str, Any]) -> bool | None:
    """Return whether an episode whose last step had this info has succeeded; None where it does not say so.

    >>> success_of({"is_success": np.float32(1)}), success_of({"is_success": "no"}), success_of({})
    (True, None, None)
    """
    value = info.get(SUCCESS)
    scalar = np.asarray(value) if np.isscalar(value) or hasattr(value, "dtype") else np.empty(0)
    return bool(scalar) if scalar.shape == () and scalar.dtype.kind in "biuf" else None
