"""Hopper, Walker2D, HalfCheetah and Ant: robots that are moved by torques and start near their loaded pose."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import mul
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box

from smrl.envs.suites.bullet.world import SURFACE, TIME_STEP, View, World, simulator
from smrl.envs.wrappers import Reset, Step
from smrl.errors import SmrlError, nearest, require

START = 0.1  # each joint starts within ± this, in radians or metres
MAX_VALUE = 100.0  # a planar robot's episode ends when a value other than height and angle exceeds this

ANT_OBS_LENGTH = 111  # the last 84 are zeros instead of the contact forces of the MuJoCo task
HEIGHT, JOINTS = 0, slice(5, 13)  # indices of the torso's height and of the joints in Ant's observation
GOAL = 1000.0  # distance along x, in metres
MIN_HEIGHT = 0.26  # height of the torso below which the ant has fallen
AT_LIMIT = 0.99  # a joint is at its limit beyond this fraction of its range, measured from the centre
LIMIT_COST = 0.1  # per joint at its limit


@dataclass(frozen=True)
class Robot:
    """Parameters of a robot that its model does not contain."""

    model: str  # name of the MJCF file
    power: float
    coefficients: tuple[float, ...]  # of the powered joints: torque = power · coefficient · action
    view: View


@dataclass(frozen=True)
class PlanarRobot(Robot):
    """A robot whose first three joints place the torso: along x, along z, around y."""

    cost: float  # coefficient of the action's sum of squares
    alive: float = 0.0  # reward of every step, including the last
    max_velocity: float = np.inf  # observed velocities are clipped to ± this
    heights: tuple[float, float] | None = None  # of the torso above its loaded position; None: it cannot fall
    max_angle: float = np.inf  # of the torso; an episode terminates outside heights and angle
    friction: Mapping[str, float] | None = None  # meant for the links, but the original gives it to the ground


HOPPER = PlanarRobot(
    model="hopper",
    power=0.75,
    coefficients=(100, 100, 100),
    view=View(height=0.8, distance=3.2),
    cost=1e-3,
    alive=1.0,
    max_velocity=10.0,
    heights=(-0.3, np.inf),
    max_angle=0.2,
)
ROBOTS = {
    "hopper": HOPPER,
    "walker2d": replace(
        HOPPER,
        model="walker2d",
        power=0.4,
        coefficients=(100, 100, 30, 100, 100, 30),
        heights=(-0.2, 1.0),
        max_angle=1.0,
    ),
    "half_cheetah": PlanarRobot(
        model="half_cheetah",
        power=1.0,
        coefficients=(120, 90, 60, 140, 60, 30),
        view=View(height=0.5, distance=3.2),
        cost=0.1,
        friction=SURFACE | {"spinningFriction": 0.1, "rollingFriction": 0.1},
    ),
}
ANT = Robot(model="ant", power=2.5, coefficients=(100,) * 8, view=View(height=0.4, distance=4.0, yaw=30, pitch=-25))


class LocomotionEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """Base class: a robot in its own world; subclasses define observations and rewards."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(self, robot: Robot, obs_length: int, render_mode: str | None) -> None:
        require(render_mode in (None, "rgb_array"), f"PyBullet tasks render as rgb_array, not as {render_mode!r}")
        simulator()  # raises here instead of in the first reset if PyBullet is missing
        self.observation_space = Box(-np.inf, np.inf, (obs_length,), np.float32)
        self.action_space = Box(-1.0, 1.0, (len(robot.coefficients),), np.float32)
        self.render_mode = render_mode
        self.ground: Mapping[str, float] = SURFACE
        self.links: Mapping[str, float] | None = None
        self._robot = robot
        self._torques = [robot.power * coefficient for coefficient in robot.coefficients]
        self._action_shape = (len(self._torques),)
        self._world: World | None = None

    @property
    def world(self) -> World:
        """The simulated world, which the first reset creates."""
        if self._world is None:
            raise ResetNeeded("there is no world before reset() and after close(): call reset()")
        return self._world

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Start an episode with the joints at rest near their loaded positions."""
        super().reset(seed=seed)
        if self._world is None:
            self._world = World(self._robot.model, self.ground, self.links)
        else:
            self._world.load()
        self._world.place(self.np_random.uniform(-START, START, len(self._world.joints)).tolist())
        return self._begin(), {}

    def render(self) -> Any:
        """Return an image of the robot, uint8 (height, width, 3)."""
        require(self.render_mode is not None, 'the environment was made without render_mode="rgb_array"')
        return self.world.picture(self._robot.view)

    def close(self) -> None:
        """Free the simulator's memory."""
        if self._world is not None:
            self._world.close()
            self._world = None

    def _begin(self) -> np.ndarray:
        """Record where the episode starts and return the first observation."""
        raise NotImplementedError

    def _act(self, action: np.ndarray) -> float:
        """Simulate a step and return the action's sum of squares."""
        # Lists are faster than arrays of this size, and the simulator is fast enough for this to matter.
        given = np.asarray(action)
        if given.shape != self._action_shape:
            raise SmrlError(f"an action has the shape {self._action_shape}, not {given.shape}")
        values = given.tolist()
        square = sum(map(mul, values, values))
        if not square <= 1:  # only then can a value be outside [-1, 1] or NaN
            if not math.isfinite(square):
                raise SmrlError(f"an action must be finite, not {given}")
            values = [max(-1.0, min(1.0, value)) for value in values]
        self.world.step(list(map(mul, self._torques, values)))
        return square


class PlanarEnv(LocomotionEnv):
    """Run along x: the reward is the torso's velocity, a bonus for being alive and a cost of the action.

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

    def step(self, action: np.ndarray) -> Step:
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
        most = self.robot.max_velocity
        clipped = [v if -most <= v <= most else max(min(v, most), -most) for v in velocities]  # NaN remains NaN
        return [*positions[1:], *clipped]

    def _has_fallen(self, values: list[float]) -> bool:
        if self.robot.heights is None:
            return False
        height, angle, *others = values
        is_upright = self.robot.heights[0] < height < self.robot.heights[1] and abs(angle) < self.robot.max_angle
        # A norm below the maximum proves the same of every value and is faster. NaN fails both comparisons.
        is_small = math.hypot(*others) < MAX_VALUE or all(abs(value) < MAX_VALUE for value in others)
        return not (is_upright and is_small)


class AntEnv(LocomotionEnv):
    """Walk to a far goal along x: the reward is progress, ±1 for being alive or not, and a cost per joint at its limit.

    Observations are the torso's height and orientation (x, y, z, w), the joint positions, the torso's velocity and
    angular velocity, the joint velocities, and zeros.

    ``repair_alive`` compares the torso's height alone with the threshold. The original adds the initial height to it,
    so that an ant hardly ever counts as fallen. ``repair_progress`` measures progress by the mean position of the ant's
    parts. The original includes the floor, which never moves, so that progress is scaled by 21/22.
    """

    def __init__(
        self, repair_alive: bool = False, repair_progress: bool = False, render_mode: str | None = None
    ) -> None:
        super().__init__(ANT, ANT_OBS_LENGTH, render_mode)
        self.repair_alive = repair_alive
        self.repair_progress = repair_progress
        self._distance = self._raised = 0.0

    def step(self, action: np.ndarray) -> Step:
        """Apply torques for 0.0165 seconds."""
        self._act(action)
        before, values = self._distance, self._observe()
        progress = (before - self._distance) / TIME_STEP
        at_limit = sum(
            [not low <= value <= high for value, (low, high) in zip(values[JOINTS], self._free, strict=True)]
        )
        is_alive = values[HEIGHT] + self._raised > MIN_HEIGHT
        reward = (1.0 if is_alive else -1.0) + progress - LIMIT_COST * at_limit
        terminated = not (is_alive and math.isfinite(sum(values)))
        info = {"progress": progress, "joints_at_limit": at_limit}
        return self._padded(values), reward, terminated, False, info

    def _begin(self) -> np.ndarray:
        cut = (1 - AT_LIMIT) / 2
        self._free = [(low + cut * (high - low), high - cut * (high - low)) for low, high in self.world.limits]
        values = self._observe()
        self._raised = 0.0 if self.repair_alive else values[HEIGHT]
        return self._padded(values)

    def _observe(self) -> list[float]:
        """Return the observation without the zeros at its end, and update the distance to the goal."""
        positions, velocities = self.world.joint_states()
        place, orientation, velocity, spin = self.world.base_state()
        parts = [place, *self.world.link_positions()]
        count = len(parts) + (not self.repair_progress)  # the floor, which is at the origin
        x, y = sum([part[0] for part in parts]) / count, sum([part[1] for part in parts]) / count
        self._distance = math.hypot(GOAL - x, y)
        return [place[2], *orientation, *positions, *velocity, *spin, *velocities]

    def _padded(self, values: list[float]) -> np.ndarray:
        obs = np.zeros(ANT_OBS_LENGTH, np.float32)
        obs[: len(values)] = values
        return obs
