"""Hopper, Walker2D and HalfCheetah: robots that move in the plane of x and z."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from smrl.envs.suites.bullet.camera import View
from smrl.envs.suites.bullet.locomotion import LocomotionEnv, Robot
from smrl.envs.suites.bullet.world import TIME_STEP, Surface
from smrl.errors import nearest, require

MOST = 100.0  # an episode ends when a value other than height and angle exceeds this


@dataclass(frozen=True)
class Posture:
    """Range outside which an episode terminates: the torso's height above its loaded position, and its angle."""

    lowest: float
    highest: float
    angle: float


@dataclass(frozen=True)
class PlanarRobot(Robot):
    """A robot whose first three joints place the torso: along x, along z, around y."""

    cost: float  # coefficient of the action's sum of squares
    alive: float = 0.0  # reward of every step, including the last
    fastest: float = np.inf  # observed velocities are clipped to ± this
    posture: Posture | None = None
    friction: Surface | None = None  # meant for the links; the original gives it to the ground


ROBOTS = {
    "hopper": PlanarRobot(
        model="hopper",
        power=0.75,
        coefficients=(100, 100, 100),
        view=View(height=0.8, distance=3.2),
        cost=1e-3,
        alive=1.0,
        fastest=10.0,
        posture=Posture(lowest=-0.3, highest=np.inf, angle=0.2),
    ),
    "walker2d": PlanarRobot(
        model="walker2d",
        power=0.4,
        coefficients=(100, 100, 30, 100, 100, 30),
        view=View(height=0.8, distance=3.2),
        cost=1e-3,
        alive=1.0,
        fastest=10.0,
        posture=Posture(lowest=-0.2, highest=1.0, angle=1.0),
    ),
    "half_cheetah": PlanarRobot(
        model="half_cheetah",
        power=1.0,
        coefficients=(120, 90, 60, 140, 60, 30),
        view=View(height=0.5, distance=3.2),
        cost=0.1,
        friction=Surface(lateral=0.8, spinning=0.1, rolling=0.1, restitution=0.5),
    ),
}


class PlanarEnv(LocomotionEnv):
    """Run along x: the reward is the torso's velocity, a bonus for not having fallen and a cost of the action.

    Observations are the joint positions without x, and all joint velocities.

    ``repair_friction`` gives HalfCheetah's spinning and rolling friction to its links. The original names the wrong
    body by mistake, so that the ground has it from the second episode on; here it has it from the first.
    """

    def __init__(self, robot: str, repair_friction: bool = False, render_mode: str | None = None) -> None:
        require(robot in ROBOTS, f"there is no planar robot {robot!r}{nearest(robot, ROBOTS)}")
        self.robot = ROBOTS[robot]
        joints = 3 + len(self.robot.coefficients)
        super().__init__(self.robot, 2 * joints - 1, render_mode)
        if self.robot.friction is None:
            require(not repair_friction, f"{robot} has no friction to be repaired: leave repair_friction out")
        elif repair_friction:
            self.links = self.robot.friction
        else:
            self.ground = self.robot.friction
        self._x = 0.0

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Apply torques for 0.0165 seconds."""
        square = self._act(action)
        before, self._x = self._x, self.world.torso_position()[0]
        velocity = (self._x - before) / TIME_STEP
        reward = velocity + self.robot.alive - self.robot.cost * square
        values = self._observe()
        info = {"x_position": self._x, "x_velocity": velocity}
        return np.array(values, np.float32), reward, self._has_fallen(values), False, info

    def _begin(self) -> np.ndarray:
        self._x = self.world.torso_position()[0]
        return np.array(self._observe(), np.float32)

    def _observe(self) -> list[float]:
        positions, velocities = self.world.joint_states()
        most = self.robot.fastest
        clipped = [v if -most <= v <= most else max(min(v, most), -most) for v in velocities]  # NaN remains NaN
        return [*positions[1:], *clipped]

    def _has_fallen(self, values: list[float]) -> bool:
        posture = self.robot.posture
        if posture is None:
            return False
        height, angle, *others = values
        is_upright = posture.lowest < height < posture.highest and abs(angle) < posture.angle
        # If the norm is below MOST, so is every value, and the norm is fastest. NaN fails both comparisons.
        return not (is_upright and (math.hypot(*others) < MOST or all(abs(value) < MOST for value in others)))
