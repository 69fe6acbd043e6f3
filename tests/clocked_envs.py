"""Devices with a real clock, for runs in real time."""

import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.spaces import Box

from smrl.types import Algorithm, Spec

PERIOD = 0.002


class Clocked(PendulumEnv):
    """Pendulum-v1 whose steps take ``PERIOD`` seconds; it notes what happens to it."""

    metadata = PendulumEnv.metadata | {"real_time": True, "control_period": PERIOD}
    episode_steps = 40
    made: list["Clocked"] = []  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.made.append(self)
        self.resets = self.steps = self.closed = 0
        self.taken: list[np.ndarray] = []
        self.returns: list[float] = []
        self.due = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps, self.resets = 0, self.resets + 1
        self.returns.append(0.0)
        self.due = time.perf_counter()
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        now = time.perf_counter()
        self.due = max(self.due + type(self).metadata["control_period"], now)
        time.sleep(self.due - now)
        self.taken.append(np.array(action))
        self.steps += 1
        obs, reward, terminated, _, info = super().step(action)  # type: ignore[no-untyped-call]
        self.returns[-1] += float(reward)
        return obs, reward, terminated, self.steps == self.episode_steps, info

    def close(self) -> None:
        self.closed += 1


class Falls(Clocked):
    """Fails in step 100."""

    def step(self, action: Any) -> Any:
        if len(self.taken) == 100:
            raise OSError("the robot fell over")
        return super().step(action)


class Fast(Clocked):
    """Has a period in which no action can be chosen."""

    metadata = Clocked.metadata | {"control_period": 1e-6}


class Counter(gymnasium.Env[Any, Any]):
    """Observes a pattern of the number of its steps, always in the same array, as drivers of cameras do."""

    metadata = {"real_time": True, "control_period": 0.05}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.observation_space = Box(0, 2**24, (64,), np.float32)
        self.action_space = Box(-1, 1, (1,), np.float32)
        self.buffer = np.zeros(64, np.float32)
        self.steps = 0

    def observed(self) -> np.ndarray:
        self.buffer[:] = self.steps * 64 + np.arange(64)
        return self.buffer

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observed(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.observed(), float(self.steps), False, self.steps % 50 == 0, {}


class Learns(Clocked):
    """A clock of 5 ms, and episodes as long as Pendulum-v1's."""

    metadata = Clocked.metadata | {"control_period": 0.005}
    episode_steps = 200


@dataclass(frozen=True)
class NoHyperparameters:
    """None."""


def pattern(config: NoHyperparameters, spec: Spec) -> Algorithm[Any]:
    """An algorithm whose parameters are all equal, and whose actions are -1 if it sees that they are not.

    Otherwise an action is the number of updates, modulo 64, in units of 1/64.
    """

    def explore(params: Any, obs: Any, step: Any, key: Any) -> Any:
        is_whole = (params == params[0, 0]).all()
        return jnp.full((len(obs), 1), jnp.where(is_whole, params[0, 0] % 64 / 64, -1.0), jnp.float32)

    return Algorithm(
        init=lambda key: jnp.zeros((256, 256), jnp.float32),
        update=lambda params, batch, context, key: (params + 1, {"first": params[0, 0]}),
        explore=explore,
        exploit=lambda params, obs: explore(params, obs, 0, None),
    )
