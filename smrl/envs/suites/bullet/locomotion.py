"""Base class of the PyBullet tasks: a robot that is moved by torques and starts near its loaded pose."""

import math
from dataclasses import dataclass
from operator import mul
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box

from smrl.envs.suites.bullet.camera import View, picture
from smrl.envs.suites.bullet.simulator import simulator
from smrl.envs.suites.bullet.world import Surface, World
from smrl.errors import SmrlError, require

START = 0.1  # each joint starts within ± this, in radians or metres


@dataclass(frozen=True)
class Robot:
    """Parameters of a robot besides its model."""

    model: str  # the name of its MJCF file
    power: float
    coefficients: tuple[float, ...]  # of the powered joints; an action's torque is power · coefficient · action
    view: View


class LocomotionEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A robot in a world of its own; subclasses define observations and rewards."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(self, robot: Robot, obs_length: int, render_mode: str | None) -> None:
        require(render_mode in (None, "rgb_array"), f"PyBullet tasks render as rgb_array, not as {render_mode!r}")
        simulator()  # raises here, and not in the first reset, if PyBullet is missing
        self.observation_space = Box(-np.inf, np.inf, (obs_length,), np.float32)
        self.action_space = Box(-1.0, 1.0, (len(robot.coefficients),), np.float32)
        self.render_mode = render_mode
        self.ground = Surface()
        self.links: Surface | None = None  # None: as in the model
        self._robot = robot
        self._torques = [robot.power * coefficient for coefficient in robot.coefficients]
        self._shape = (len(self._torques),)  # of actions
        self._world: World | None = None

    @property
    def world(self) -> World:
        """The simulated world, from the first reset on."""
        if self._world is None:
            raise ResetNeeded("there is no world before reset() and after close(): call reset()")
        return self._world

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode with the joints near their loaded positions and at rest."""
        super().reset(seed=seed)
        if self._world is None:
            self._world = World(self._robot.model, self.ground, self.links)
        else:
            self._world.load()
        self._world.place(self.np_random.uniform(-START, START, len(self._world.joints)).tolist())
        return self._begin(), {}

    def render(self) -> Any:
        """An image of the robot, uint8 (height, width, 3)."""
        require(self.render_mode is not None, 'the environment was made without render_mode="rgb_array"')
        return picture(self.world, self._robot.view)

    def close(self) -> None:
        """Free the simulator's memory."""
        if self._world is not None:
            self._world.close()
            self._world = None

    def _begin(self) -> np.ndarray:
        """Record where the episode starts; return the first observation."""
        raise NotImplementedError

    def _act(self, action: np.ndarray) -> float:
        """Simulate a step; return the action's sum of squares."""
        # Lists are faster than arrays for so few numbers, and the simulator is fast enough for this to matter.
        given = np.asarray(action)
        if given.shape != self._shape:
            raise SmrlError(f"an action has the shape {self._shape}, not {given.shape}")
        values = given.tolist()
        square = sum(map(mul, values, values))
        if not square <= 1:  # only then can a value be outside [-1, 1], or NaN
            if not math.isfinite(square):
                raise SmrlError(f"an action must be finite, not {given}")
            values = [max(-1.0, min(1.0, value)) for value in values]
        self.world.step(list(map(mul, self._torques, values)))
        return square
