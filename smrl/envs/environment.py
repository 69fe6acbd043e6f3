"""An environment as the training loop sees it: actions in [-1, 1], flat float32 observations, all checked."""

import contextlib
import textwrap
from collections.abc import Callable
from typing import Any, final

import gymnasium
import numpy as np

from smrl.errors import SmrlError
from smrl.types import Spec

FLOAT32_MAX = float(np.finfo(np.float32).max)


class EnvironmentFault(SmrlError):
    """An environment raised an exception or returned what nothing can be learned from."""


def rescale(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Map an action in [-1, 1] linearly onto [low, high], in the dtype of the bounds; always a fresh array.

    >>> rescale(np.float32([-1, 0, 1]), np.float32([0, -2, 0]), np.float32([4, 2, 10]))
    array([ 0.,  0., 10.], dtype=float32)
    """
    return _scale(low, high)(action)


def _scale(low: np.ndarray, high: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """`rescale` with everything worked out that does not depend on the action."""
    if (low == -1).all() and (high == 1).all():
        return lambda action: action.astype(low.dtype)
    centre, reach = (low + high) / 2, (high - low) / 2

    def scale(action: np.ndarray) -> np.ndarray:
        # Rounding may lead past a bound by the last bit, and some environments assert that actions are inside.
        return np.minimum(np.maximum(action * reach + centre, low), high).astype(low.dtype, copy=False)

    return scale


def in_words(error: Exception) -> str:
    """The type and text of an exception on one line.

    >>> in_words(ValueError("no such", "thing"))
    "ValueError: ('no such', 'thing')"
    """
    return textwrap.shorten(f"{type(error).__name__}: {error}".removesuffix(": "), 400, placeholder=" …")


def shown(value: object) -> str:
    """A value as one short line for a message."""
    return textwrap.shorten(repr(value), 80, placeholder=" …")


@final
class Environment:
    """A Gymnasium environment with a bounded Box action space and Box observations; made by `smrl.envs.make`."""

    def __init__(self, env: gymnasium.Env[Any, Any], name: str) -> None:
        observations, actions = env.observation_space, env.action_space
        assert isinstance(observations, gymnasium.spaces.Box)
        assert isinstance(actions, gymnasium.spaces.Box)
        self.env = env
        self.name = name
        self.bounds = (actions.low.reshape(-1), actions.high.reshape(-1))
        self.spec = Spec(obs_size=int(np.prod(observations.shape)), action_size=int(np.prod(actions.shape)))
        self._obs_shape = observations.shape
        self._action_shape = actions.shape
        self._scale = _scale(*self.bounds)

    def reset(self, seed: int | None) -> np.ndarray:
        """Start an episode; the observation is a fresh array that is never changed later."""
        try:
            result = self.env.reset(seed=seed)
        except Exception as error:
            raise self._fault(f"failed in reset(seed={seed}) with {in_words(error)}") from error
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._fault(f"returned {shown(result)} from reset() instead of an observation and an info")
        return self._observation(result[0], "reset")

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        """Do an action in [-1, 1]: the observation, the reward, terminated, truncated."""
        given = self._scale(action).reshape(self._action_shape)  # a fresh array: some environments clip in place
        try:
            result = self.env.step(given)
        except Exception as error:
            raise self._fault(f"failed in step() with {in_words(error)}", action) from error
        try:
            obs, reward, terminated, truncated, _ = result
            ends = bool(terminated), bool(truncated)
        except Exception as error:
            wanted = "an observation, a reward, terminated, truncated and an info"
            raise self._fault(f"returned {shown(result)} from step() instead of {wanted}", action) from error
        return self._observation(obs, "step", action), self._reward(reward, action), *ends

    def render(self) -> Any:
        """A picture of the present state, as the environment's render mode has it."""
        if self.env.render_mode is None:
            raise SmrlError(f'{self.name} was made without a render mode: make it with render_mode="rgb_array"')
        try:
            return self.env.render()
        except Exception as error:
            raise self._fault(f"failed in render() with {in_words(error)}") from error

    def close(self) -> None:
        """Free what the environment holds."""
        with contextlib.suppress(Exception):  # whoever closes an environment has all that they wanted of it
            self.env.close()

    def _observation(self, obs: Any, call: str, action: np.ndarray | None = None) -> np.ndarray:
        try:
            raw = np.asarray(obs)
            flat = raw.reshape(-1)
            square = float(np.vdot(flat, flat))  # unlike dot without a warning where it overflows
        except Exception as error:
            raise self._fault(f"returned {shown(obs)} from {call}(), which is no array of numbers") from error
        if raw.shape != self._obs_shape:
            shapes = f"shape {raw.shape} from {call}() instead of the shape {self._obs_shape} of its space"
            raise self._fault(f"returned an observation of {shapes}", action)
        # A finite sum of squares is the fastest proof that all are finite; the slow way decides about the rest.
        if not square <= FLOAT32_MAX:
            with np.errstate(all="ignore"):
                (bad,) = np.nonzero(~np.isfinite(flat.astype(np.float32)))
            if bad.size:
                value = f"{flat[bad[0]]} at index {bad[0]}, which is no finite float32 number"
                raise self._fault(f"returned an observation from {call}() with {value}", action)
        return flat.astype(np.float32)  # always a copy: the environment may go on to change its own array

    def _reward(self, reward: Any, action: np.ndarray) -> float:
        if not isinstance(reward, float):  # np.float64 is a float as well
            scalar = np.asarray(reward) if np.isscalar(reward) or hasattr(reward, "dtype") else np.empty(0)
            if scalar.shape != () or scalar.dtype.kind not in "biuf":
                raise self._fault(f"returned the reward {shown(reward)}, which is not one number")
            reward = scalar.item()
        if not -FLOAT32_MAX <= reward <= FLOAT32_MAX:
            raise self._fault(f"returned the reward {reward}, which is no finite float32 number", action)
        return float(reward)

    def _fault(self, what: str, action: np.ndarray | None = None) -> EnvironmentFault:
        if action is not None and not np.isfinite(action).all():
            what += f" after the action {shown(action)}: not the environment but the policy has diverged"
        return EnvironmentFault(f"{self.name} {what}")
