"""Small environments, each broken in one way, as a class or an id such as ``broken_envs:Broken/Raises-v0``."""

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Space, Tuple

LIMIT = 50  # steps until truncation, for the registered ids


class Toy(gymnasium.Env[Any, Any]):
    """Not broken: a point that decays towards 0 and is pushed by the action. Subclasses fail from step ``at`` on."""

    def __init__(self, at: int = 5, observations: Space[Any] | None = None, actions: Space[Any] | None = None) -> None:
        self.observation_space = Box(-10, 10, (2,), np.float64) if observations is None else observations
        self.action_space = actions or Box(-1, 1, (1,), np.float32)
        self.at = at
        self.steps = 0
        self.state = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        self.state[:] = self.np_random.uniform(-1, 1, 2)
        return self.observed(self.state.copy()), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.state[:] = 0.9 * self.state + 0.1 * float(np.sum(action))
        return self.observed(self.state.copy()), self.rewarded(-float(self.state @ self.state)), False, False, {}

    def observed(self, obs: np.ndarray) -> Any:
        return obs

    def rewarded(self, reward: float) -> Any:
        return reward

    @classmethod
    def like_this(cls) -> "Toy":
        return cls()

    @staticmethod
    def of_spaces(observations: Space[Any] | None = None, actions: Space[Any] | None = None) -> "Toy":
        return Toy(observations=observations, actions=actions)

    @property
    def due(self) -> bool:
        return self.steps >= self.at


class Raises(Toy):
    def step(self, action: Any) -> Any:
        if self.steps + 1 >= self.at:
            raise ValueError("the simulator\nexploded")
        return super().step(action)


class Exits(Toy):
    """Calls exit(), as a script without a main guard may do."""

    def step(self, action: Any) -> Any:
        raise SystemExit("the licence has expired")


class RaisesInReset(Toy):
    """Raises in every reset but the first."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if self.steps:
            raise OSError("no more episodes")
        return super().reset(seed=seed)


class RaisesInConstructor(Toy):
    def __init__(self) -> None:
        raise FileNotFoundError("model.xml")


class NanObservation(Toy):
    def observed(self, obs: np.ndarray) -> Any:
        return np.array([0, np.nan]) if self.due else obs


class HugeObservation(Toy):
    def observed(self, obs: np.ndarray) -> Any:
        return np.array([1e300, 0]) if self.due else obs


class WrongShape(Toy):
    def observed(self, obs: np.ndarray) -> Any:
        return obs[:, None] if self.due else obs


class WrongKind(Toy):
    def observed(self, obs: np.ndarray) -> Any:
        return {"position": obs} if self.due else obs


class InfReward(Toy):
    def rewarded(self, reward: float) -> Any:
        return np.inf if self.due else reward


class VectorReward(Toy):
    def rewarded(self, reward: float) -> Any:
        return np.array([reward]) if self.due else reward


class NoReward(Toy):
    def rewarded(self, reward: float) -> Any:
        return None if self.due else reward


class OldStep(Toy):
    """Has the interface of the old gym, like OldReset."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, info


class OldReset(Toy):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset(seed=seed)[0]


class NoSeed(Toy):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class NeverEnds(Toy):
    pass


class TimeAsTermination(Toy):
    def step(self, action: Any) -> Any:
        obs, reward, *_ = super().step(action)
        return obs, reward, self.steps == 20, False, {}


class NonDeterministic(Toy):
    def observed(self, obs: np.ndarray) -> Any:
        return obs + np.random.default_rng().normal(0, 1e-3, 2)


class Remembers(Toy):
    """Every reset scales the rewards."""

    worth = 1.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.worth *= 1.001
        return super().reset(seed=seed)

    def rewarded(self, reward: float) -> Any:
        return reward * self.worth


class Individual(Toy):
    """Every instance has a different goal, which no seed repeats."""

    def __init__(self) -> None:
        super().__init__()
        self.goal = np.random.default_rng().normal()

    def rewarded(self, reward: float) -> Any:
        return reward + self.goal


class LiveArray(Toy):
    """Returns its own array and changes it later; also changes the action."""

    def observed(self, obs: np.ndarray) -> Any:
        return self.state

    def step(self, action: Any) -> Any:
        result = super().step(action)
        action[:] = 0
        return result


class ConstantReward(Toy):
    def rewarded(self, reward: float) -> Any:
        return 0.0


class LargeReward(Toy):
    def rewarded(self, reward: float) -> Any:
        return reward - 1e5


class LargeObservation(Toy):
    def observed(self, obs: np.ndarray) -> Any:
        return obs * [1, 1e6]


class Slow(Toy):
    def observed(self, obs: np.ndarray) -> Any:
        time.sleep(0.03)
        return obs


class Image(Toy):
    """Not broken: a moving image, redrawn into the same array in every step."""

    shape = (6, 8, 3)

    def __init__(self) -> None:
        super().__init__(observations=Box(0, 255, self.shape, np.uint8))
        self.canvas = np.zeros(self.shape, np.uint8)

    def observed(self, obs: np.ndarray) -> Any:
        self.canvas[:] = (np.arange(self.canvas.size) * (1 + self.steps) + 100 * abs(obs[0])).reshape(self.shape) % 256
        return self.canvas


class ImageOfFloats(Image):
    def observed(self, obs: np.ndarray) -> Any:
        image = super().observed(obs)
        return image.astype(np.float32) if self.due else image


class SmallerImage(Image):
    def observed(self, obs: np.ndarray) -> Any:
        image = super().observed(obs)
        return image[::2] if self.due else image


class Entries(Toy):
    """Not broken: observations by name."""

    def __init__(self) -> None:
        place, speed = Box(-10, 10, (1, 2), np.float64), Box(-10, 10, (2,), np.float32)
        super().__init__(observations=Dict(place=place, speed=speed))

    def observed(self, obs: np.ndarray) -> Any:
        return {"place": obs[None], "speed": np.float32(2 * obs)}


class LacksAnEntry(Entries):
    def observed(self, obs: np.ndarray) -> Any:
        entries = super().observed(obs)
        return {"place": entries["place"]} if self.due else entries


class Nested(Toy):
    """Not broken: observations in a tuple, one of them by name."""

    def __init__(self) -> None:
        super().__init__(observations=Tuple([Box(-10, 10, (2,)), Dict(a=Box(-10, 10, (1,)), b=Box(-10, 10, (2, 1)))]))

    def observed(self, obs: np.ndarray) -> Any:
        numbers = obs.astype(np.float32)
        return numbers, {"a": numbers[:1], "b": numbers[:, None]}


def make_toy(at: int = 5, render_mode: str | None = None) -> Toy:
    return Toy(at)


_kinds: list[type[Toy]] = [Toy, *Toy.__subclasses__()]
for _kind in _kinds:
    _limit = None if _kind in (NeverEnds, TimeAsTermination) else LIMIT
    gymnasium.register(f"Broken/{_kind.__name__}-v0", f"{__name__}:{_kind.__name__}", max_episode_steps=_limit)
