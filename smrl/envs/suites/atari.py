"""Atari games with the usual preprocessing. Importing this module does not import ale_py.

From the emulator outwards: no-ops at the start, four frames per step, lives and the fire button (`Game`), clipped
rewards and terminations for training (`Lives`), a greyscale image of 84×84 (`Screen`), and a stack of four images.
"""

import importlib
import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from smrl.envs.wrappers import NEW_LIFE, Reset, Step
from smrl.errors import SmrlError
from smrl.plugins import in_words

IDS = r"ALE/.*|.*NoFrameskip-v\d"
SIZE, STACK = 84, 4
MAX_NO_OPS, SKIP = 30, 4  # no-op frames at the start; frames per step
NO_OP, FIRE = 0, 1


def make(name: str, **options: Any) -> "Game":
    """Make a game by its Gymnasium id, which decides on sticky actions.

    v4 has none, v5 repeats the previous action with probability 0.25.
    """
    ale = importlib.import_module("ale_py")
    ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)  # without its greeting
    try:
        return Game(gymnasium.make(name, frameskip=1, obs_type="grayscale", disable_env_checker=True, **options))
    except (OSError, TypeError) as error:
        advice = "pip install --force-reinstall ale-py restores all games, ALE_ROMS_DIR names another folder of them"
        raise SmrlError(f"the ROM of {name} is missing or damaged ({in_words(error)}): {advice}") from error


class Game(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """A game in steps of four frames; the observation is the maximum of the last two, because some objects flicker.

    An episode is a full game that begins with 1 to 30 frames without action. If the game has a fire button, it is
    pressed at the beginning of every life. A step that loses a life goes on to the beginning of the next one and sets
    NEW_LIFE in its info.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        emulator: Any = env.unwrapped
        space: Any = env.observation_space
        meanings = emulator.get_action_meanings()
        self._buttons = (FIRE, FIRE + 1) if meanings[FIRE] == "FIRE" and len(meanings) > 2 else ()
        self._lives = 0
        self.observation_space = Box(0, 255, (*space.shape, 1), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        screen, info = self.env.reset(seed=seed, options=options)
        for _ in range(self.unwrapped.np_random.integers(1, MAX_NO_OPS + 1)):
            screen, _, terminated, truncated, info = self.env.step(NO_OP)
        screen, self._lives = screen[..., None], info["lives"]
        for button in self._buttons:
            screen, _, terminated, truncated, info = self._hold(button)
        return (screen, info) if not (terminated or truncated) else self.reset(options=options)

    def step(self, action: Any) -> Step:
        screen, reward, terminated, truncated, info = self._hold(action)
        is_lost = 0 < info["lives"] < self._lives  # at 0 lives the game is over, in some games a few frames later
        if is_lost:
            for button in (NO_OP, *self._buttons):
                if terminated or truncated:
                    break
                screen, more, terminated, truncated, info = self._hold(button)
                reward += more
        self._lives = info["lives"]
        info[NEW_LIFE] = is_lost and not (terminated or truncated)
        return screen, reward, terminated, truncated, info

    def _hold(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        total, screens = 0.0, list[np.ndarray]()
        for _ in range(SKIP):
            screen, reward, terminated, truncated, info = self.env.step(action)
            screens.append(screen)
            total += float(reward)
            if terminated or truncated:
                break
        return np.max(screens[-2:], axis=0)[..., None], total, terminated, truncated, info


class Lives(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Clip rewards to -1, 0 or 1 and terminate at the loss of a life, although the game goes on."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)

    def step(self, action: Any) -> Step:
        screen, reward, terminated, truncated, info = self.env.step(action)
        return screen, float(np.sign(float(reward))), terminated or info[NEW_LIFE], truncated, info


class Screen(gymnasium.ObservationWrapper[Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Observe the screen in ``size`` × ``size`` pixels, each the mean over the area that it covers."""

    def __init__(self, env: gymnasium.Env[Any, Any], size: int = SIZE) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, size=size)
        super().__init__(env)
        space: Any = env.observation_space
        (self._rows, self._heights), (self._columns, self._widths) = (overlaps(old, size) for old in space.shape[:2])
        self._area = self._heights[0].sum() * self._widths[0].sum()
        self.observation_space = Box(0, 255, (size, size, 1), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Reduce an image by sums of integers, which are the same on every machine."""
        lines = (observation[self._rows, :, 0] * self._heights[..., None]).sum(axis=1)
        sums = (lines[:, self._columns] * self._widths).sum(axis=2)
        return np.rint(sums / self._area).astype(np.uint8)[..., None]


def overlaps(before: int, after: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the old pixels that each new pixel of a line covers and their integer weights, both (after, most).

    >>> overlaps(3, 2)
    (array([[0, 1],
           [1, 2]]), array([[2, 1],
           [1, 2]]))
    """
    parts = math.lcm(before, after)  # divide the line so finely that old and new pixels are whole numbers of parts
    shares = np.zeros((after, before), int)
    np.add.at(shares, (np.arange(parts) * after // parts, np.arange(parts) * before // parts), 1)
    most = (shares > 0).sum(axis=1).max()
    covered = np.sort(np.argsort(shares == 0, axis=1, kind="stable")[:, :most], axis=1)
    return covered, np.take_along_axis(shares, covered, axis=1)
