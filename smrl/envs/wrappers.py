"""General Gymnasium wrappers that Gymnasium itself does not have."""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import TransformObservation

from smrl.errors import require

# Info key, true after a step that ended a life but not the episode: the step's observation begins the next life.
NEW_LIFE = "new_life"

Reset = tuple[Any, dict[str, Any]]
Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


class ActionRepeat(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Repeat every action ``repeat`` times and sum the rewards; stop early at the end of an episode.

    The info of a step has the number of repetitions as ``frames``.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], repeat: int) -> None:
        require(repeat >= 1, f"an action is done at least once, not {repeat} times")
        gymnasium.utils.RecordConstructorArgs.__init__(self, repeat=repeat)
        super().__init__(env)
        self.repeat = repeat
        if "render_fps" in env.metadata:  # a video has one picture per step and should last as long as the episode
            self.metadata = {**env.metadata, "render_fps": env.metadata["render_fps"] / repeat}

    def step(self, action: Any) -> Step:
        step, total = self.env.step, 0.0
        for frames in range(1, self.repeat + 1):  # noqa: B007
            obs, reward, terminated, truncated, info = step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, {**info, "frames": frames}


class FrameStack(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Observe the last ``stack`` images, joined along their last axis, the oldest first.

    The first image of an episode or of a life fills the stack. Gymnasium's FrameStackObservation adds an axis instead.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], stack: int) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, stack=stack)
        super().__init__(env)
        self.stack = stack
        space: Any = env.observation_space
        self.observation_space = Box(self._filled(space.low), self._filled(space.high), dtype=space.dtype)
        self._stacked = self._filled(space.low)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        frame, info = self.env.reset(seed=seed, options=options)
        self._stacked = self._filled(frame)
        return self._stacked, info

    def step(self, action: Any) -> Step:
        frame, reward, terminated, truncated, info = self.env.step(action)
        if info.get(NEW_LIFE):
            self._stacked = self._filled(frame)
        else:
            self._stacked = np.concatenate([self._stacked[..., frame.shape[-1] :], frame], axis=-1)
        return self._stacked, reward, terminated, truncated, info

    def _filled(self, frame: np.ndarray) -> np.ndarray:
        return np.concatenate([frame] * self.stack, axis=-1)


def append_zeros(env: gymnasium.Env[Any, Any], zeros: int) -> gymnasium.Env[Any, Any]:
    """Flatten the Box observations of an environment and append zeros to them.

    Some tasks had entries in earlier versions that were always zero. They carry no information, but they widen the
    first layer, whose initial weights become smaller.
    """
    space: Any = env.observation_space
    padding = np.zeros(zeros, space.dtype)

    def pad(obs: Any) -> np.ndarray:
        return np.concatenate([np.ravel(obs), padding])

    return TransformObservation(env, pad, Box(pad(space.low), pad(space.high), dtype=space.dtype))
