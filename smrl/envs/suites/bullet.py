"""The PyBullet tasks of the paper, reimplemented from a description of pybullet-gym's "-MuJoCoEnv-v0" tasks.

Hopper, Walker2D, HalfCheetah and Ant are moved by torques and start near their loaded pose. Quirks of the original that
change a task are kept by default, because published results include them; keywords that begin with ``repair_`` remove
them. Importing this module does not import PyBullet.
"""

import contextlib
import functools
import importlib
import math
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import mul
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled, Error, ResetNeeded
from gymnasium.spaces import Box

from smrl.envs.wrappers import Reset, Step
from smrl.errors import SmrlError, nearest, require

TASKS: dict[str, tuple[str, dict[str, Any]]] = {  # class and its arguments, by Gymnasium id
    "HopperMuJoCoEnv-v0": ("PlanarEnv", {"robot": "hopper"}),
    "Walker2DMuJoCoEnv-v0": ("PlanarEnv", {"robot": "walker2d"}),
    "HalfCheetahMuJoCoEnv-v0": ("PlanarEnv", {"robot": "half_cheetah"}),
    "AntMuJoCoEnv-v0": ("AntEnv", {}),
}

TIME_STEP = 0.0165  # seconds of one step of the environment, which is one call of the simulator
SUBSTEPS, SOLVER_ITERATIONS = 4, 5
GRAVITY, CONTACT_ERP = -9.8, 0.9
MOTOR_GAIN = 0.1  # of the joint motors, whose force is zero
SURFACE = {"lateralFriction": 0.8, "spinningFriction": 0.0, "rollingFriction": 0.0, "restitution": 0.5}
GROUND, ROBOT = 0, 1  # bodies are numbered in the order of loading
BASE = -1  # PyBullet's link number of a body's base

WIDTH, HEIGHT = 480, 360
FIELD_OF_VIEW, NEAR, FAR = 45.0, 0.1, 100.0
LIGHT = (1, -2, 4)
ROBOT_COLOUR = (0.95, 0.55, 0.25, 1.0)  # PyBullet does not read the colours of the model

START = 0.1  # each joint starts within ± this, in radians or metres
MAX_VALUE = 100.0  # a planar robot's episode ends when a value other than height and angle exceeds this

ANT_OBS_LENGTH = 111
ANT_ZEROS = [0.0] * 84  # end of the observation, instead of the contact forces of the MuJoCo task
ANT_HEIGHT, ANT_JOINTS = 0, slice(5, 13)  # indices of the torso's height and of the joints in Ant's observation
GOAL = 1000.0  # distance along x, in metres
MIN_HEIGHT = 0.26  # height of the torso below which the ant has fallen
AT_LIMIT = 0.99  # a joint is at its limit beyond this fraction of its range, measured from the centre
LIMIT_COST = 0.1  # per joint at its limit

_redirection = threading.Lock()  # two threads that redirect at once would restore each other's files


@dataclass(frozen=True)
class Robot:
    """Parameters of a robot that its model does not contain; most are for planar robots."""

    model: str  # name of the MJCF file
    torques: tuple[float, ...]  # of the powered joints for an action of 1
    view: tuple[float, float, float, float]  # camera: height, distance to the torso that it follows, yaw, pitch
    cost: float = 0.0  # coefficient of the action's sum of squares
    alive: float = 0.0  # reward of every step, including the last
    max_velocity: float = np.inf  # observed velocities are clipped to ± this
    heights: tuple[float, float] | None = None  # of the torso above its loaded position; None: it cannot fall
    max_angle: float = np.inf  # of the torso; an episode terminates outside heights and angle
    friction: Mapping[str, float] | None = None  # meant for the links, but the original gives it to the ground


HOPPER = Robot(
    model="hopper",
    torques=(75.0, 75.0, 75.0),
    view=(0.8, 3.2, 0.0, -12.0),
    cost=1e-3,
    alive=1.0,
    max_velocity=10.0,
    heights=(-0.3, np.inf),
    max_angle=0.2,
)
WALKER = replace(
    HOPPER, model="walker2d", torques=(40.0, 40.0, 12.0, 40.0, 40.0, 12.0), heights=(-0.2, 1.0), max_angle=1.0
)
CHEETAH = Robot(
    model="half_cheetah",
    torques=(120.0, 90.0, 60.0, 140.0, 60.0, 30.0),
    view=(0.5, 3.2, 0.0, -12.0),
    cost=0.1,
    friction=SURFACE | {"spinningFriction": 0.1, "rollingFriction": 0.1},
)
ANT = Robot(model="ant", torques=(250.0,) * 8, view=(0.4, 4.0, 30.0, -25.0))
PLANAR_ROBOTS = {robot.model: robot for robot in (HOPPER, WALKER, CHEETAH)}


class World:
    """The ground and a robot in a separate physics client.

    Two things make episodes repeat bit for bit. Contacts are solved in the order of the bodies' numbers
    (``deterministicOverlappingPairs``), because their default order depends on memory addresses and differs even
    between two newly loaded worlds. And every episode loads its world again, because PyBullet can restore a saved state
    but keeps the previous contacts, so that an episode would depend on the one before. `make bench` measures the cost
    of loading.
    """

    def __init__(self, model: str, ground: Mapping[str, float], links: Mapping[str, float] | None = None) -> None:
        self.bullet = simulator()
        self.client: int = self.bullet.connect(self.bullet.DIRECT)
        if self.client < 0:
            raise Error("PyBullet has no client left for another environment: close those that are not needed")
        self.close = weakref.finalize(self, self.bullet.disconnect, physicsClientId=self.client)
        self._model = os.path.join(data_path(), "mjcf", f"{model}.xml")
        self._ground, self._links = ground, links  # surfaces; the links default to those of the model
        self.load()

    def step(self, torques: list[float]) -> None:
        """Simulate one time step with these torques at the powered joints."""
        self._set_torques(forces=torques)
        self._simulate()

    def joint_states(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return positions and velocities of the joints."""
        positions, velocities, _, _ = zip(*self._get_joints(), strict=True)
        return positions, velocities

    def torso_position(self) -> Sequence[float]:
        """Return the torso's centre of mass, which after a step is one substep older than the joint positions."""
        return self._get_torso()[0]

    def picture(self, view: tuple[float, float, float, float]) -> np.ndarray:
        """Render an image, uint8 (height, width, 3), in software that needs neither a screen nor a GPU."""
        bullet = self.bullet
        x, y, _ = self.torso_position()
        height, distance, yaw, pitch = view
        image = bullet.getCameraImage(
            WIDTH,
            HEIGHT,
            bullet.computeViewMatrixFromYawPitchRoll((x, y, height), distance, yaw, pitch, roll=0, upAxisIndex=2),
            bullet.computeProjectionMatrixFOV(FIELD_OF_VIEW, WIDTH / HEIGHT, NEAR, FAR),
            lightDirection=LIGHT,
            shadow=0,
            renderer=bullet.ER_TINY_RENDERER,
            physicsClientId=self.client,
        )[2]
        return np.array(image, np.uint8).reshape(HEIGHT, WIDTH, 4)[..., :3].copy()

    def load(self) -> None:
        """Load the world and prepare the calls that every step makes."""
        bullet, client = self.bullet, self.client
        bullet.resetSimulation(physicsClientId=client)
        bullet.setGravity(0, 0, GRAVITY, physicsClientId=client)
        bullet.setPhysicsEngineParameter(
            fixedTimeStep=TIME_STEP,
            numSubSteps=SUBSTEPS,
            numSolverIterations=SOLVER_ITERATIONS,
            deterministicOverlappingPairs=1,
            physicsClientId=client,
        )
        bullet.setDefaultContactERP(CONTACT_ERP, physicsClientId=client)
        bullet.loadSDF(os.path.join(data_path(), "plane_stadium.sdf"), physicsClientId=client)
        bullet.changeDynamics(GROUND, BASE, **self._ground, physicsClientId=client)
        flags = bullet.URDF_USE_SELF_COLLISION | bullet.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        bullet.loadMJCF(self._model, flags=flags, physicsClientId=client)
        links = bullet.getNumJoints(ROBOT, physicsClientId=client)
        # A link has the number of its joint; every movable joint leads to a massless link.
        infos = [bullet.getJointInfo(ROBOT, joint, physicsClientId=client) for joint in range(links)]
        movable = [info for info in infos if not info[1].startswith(b"jointfix")]
        self.joints = [info[0] for info in movable]
        powered = [info[0] for info in movable if not info[1].startswith(b"ignore")]  # others place the torso
        self.limits = [(info[8], info[9]) for info in movable]
        torso = next((info[0] for info in infos if info[12] == b"torso"), BASE)
        bullet.setJointMotorControlArray(  # disables the motors that PyBullet adds to joints by default
            ROBOT,
            self.joints,
            bullet.POSITION_CONTROL,
            positionGains=[MOTOR_GAIN] * len(self.joints),
            velocityGains=[MOTOR_GAIN] * len(self.joints),
            forces=[0.0] * len(self.joints),
            physicsClientId=client,
        )
        for link in range(BASE, links):
            bullet.changeVisualShape(ROBOT, link, rgbaColor=ROBOT_COLOUR, physicsClientId=client)
            if self._links is not None:
                bullet.changeDynamics(ROBOT, link, **self._links, physicsClientId=client)

        def call(name: str, *arguments: Any) -> Callable[..., Any]:
            return functools.partial(getattr(bullet, name), *arguments, physicsClientId=client)

        self._simulate = call("stepSimulation")
        self._set_torques = call("setJointMotorControlArray", ROBOT, powered, bullet.TORQUE_CONTROL)
        self._get_joints = call("getJointStates", ROBOT, self.joints)
        self.get_links = call("getLinkStates", ROBOT, list(range(links)))
        self.get_base = call("getBasePositionAndOrientation", ROBOT)
        self.get_base_velocity = call("getBaseVelocity", ROBOT)
        self._get_torso = self.get_base if torso == BASE else call("getLinkState", ROBOT, torso)


class LocomotionEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """Base class: a robot in its own world; subclasses define observations and rewards."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(self, robot: Robot, obs_length: int, render_mode: str | None) -> None:
        require(render_mode in (None, "rgb_array"), f"PyBullet tasks render as rgb_array, not as {render_mode!r}")
        simulator()  # raises here instead of in the first reset if PyBullet is missing
        self.observation_space = Box(-np.inf, np.inf, (obs_length,), np.float32)
        self.action_space = Box(-1.0, 1.0, (len(robot.torques),), np.float32)
        self.render_mode = render_mode
        self.ground: Mapping[str, float] = SURFACE
        self.links: Mapping[str, float] | None = None
        self.robot = robot
        self._world: World | None = None

    @property
    def world(self) -> World:
        """The simulated world, which the first reset creates."""
        if self._world is None:
            raise ResetNeeded("there is no world before reset() and after close(): call reset()")
        return self._world

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        if self._world is None:
            self._world = World(self.robot.model, self.ground, self.links)
        else:
            self._world.load()
        world = self._world
        for joint, position in zip(world.joints, self.np_random.uniform(-START, START, len(world.joints)), strict=True):
            world.bullet.resetJointState(ROBOT, joint, position, 0, physicsClientId=world.client)
        return self._begin(), {}

    def render(self) -> Any:
        require(self.render_mode is not None, 'the environment was made without render_mode="rgb_array"')
        return self.world.picture(self.robot.view)

    def close(self) -> None:
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
        if given.shape != self.action_space.shape:
            raise SmrlError(f"an action has the shape {self.action_space.shape}, not {given.shape}")
        values = given.tolist()
        square = sum(map(mul, values, values))
        if not square <= 1:  # only then can a value be outside [-1, 1] or NaN
            if not math.isfinite(square):
                raise SmrlError(f"an action must be finite, not {given}")
            values = [max(-1.0, min(1.0, value)) for value in values]
        self.world.step(list(map(mul, self.robot.torques, values)))
        return square


class PlanarEnv(LocomotionEnv):
    """Run along x: the reward is the torso's velocity, a bonus for being alive and a cost of the action.

    Observations are the joint positions without x, and all joint velocities.

    ``repair_friction`` gives HalfCheetah's spinning and rolling friction to its links. The original names the wrong
    body by mistake, so that the ground has it from the second episode on; here it has it from the first.
    """

    def __init__(self, robot: str, repair_friction: bool = False, render_mode: str | None = None) -> None:
        require(robot in PLANAR_ROBOTS, f"there is no planar robot {robot!r}{nearest(robot, PLANAR_ROBOTS)}")
        joints = 3 + len(PLANAR_ROBOTS[robot].torques)  # the first three place the torso: along x, along z, around y
        super().__init__(PLANAR_ROBOTS[robot], 2 * joints - 1, render_mode)
        if self.robot.friction is None:
            require(not repair_friction, f"{robot} has no friction to be repaired: leave repair_friction out")
        elif repair_friction:
            self.links = self.robot.friction
        else:
            self.ground = self.robot.friction
        self._x = 0.0

    def step(self, action: np.ndarray) -> Step:
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
        self._act(action)
        before, values = self._distance, self._observe()
        progress = (before - self._distance) / TIME_STEP
        joints = zip(values[ANT_JOINTS], self._free, strict=True)
        at_limit = sum([not low <= position <= high for position, (low, high) in joints])
        is_alive = values[ANT_HEIGHT] + self._raised > MIN_HEIGHT
        reward = (1.0 if is_alive else -1.0) + progress - LIMIT_COST * at_limit
        terminated = not (is_alive and math.isfinite(sum(values)))
        info = {"progress": progress, "joints_at_limit": at_limit}
        return np.array(values + ANT_ZEROS, np.float32), reward, terminated, False, info

    def _begin(self) -> np.ndarray:
        cut = (1 - AT_LIMIT) / 2
        self._free = [(low + cut * (high - low), high - cut * (high - low)) for low, high in self.world.limits]
        values = self._observe()
        self._raised = 0.0 if self.repair_alive else values[ANT_HEIGHT]
        return np.array(values + ANT_ZEROS, np.float32)

    def _observe(self) -> list[float]:
        """Return the observation without the zeros at its end, and update the distance to the goal."""
        positions, velocities = self.world.joint_states()
        place, orientation = self.world.get_base()
        velocity, spin = self.world.get_base_velocity()
        parts = [place, *[link[0] for link in self.world.get_links()]]
        count = len(parts) + (not self.repair_progress)  # the floor, which is at the origin
        x, y = sum([part[0] for part in parts]) / count, sum([part[1] for part in parts]) / count
        self._distance = math.hypot(GOAL - x, y)
        return [place[2], *orientation, *positions, *velocity, *spin, *velocities]


@functools.cache
def simulator() -> Any:
    """Import ``pybullet`` without its start-up message."""
    try:
        with _silence():
            return importlib.import_module("pybullet")
    except ImportError as error:
        raise DependencyNotInstalled('PyBullet is not installed: pip install "smrl[pybullet]"') from error


@functools.cache
def data_path() -> str:
    """Return the directory of the models that come with PyBullet."""
    return str(importlib.import_module("pybullet_data").getDataPath())


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard output to stdout and stderr by file descriptor, because C code prints."""
    with _redirection, contextlib.ExitStack() as undo:
        null = os.open(os.devnull, os.O_WRONLY)
        undo.callback(os.close, null)
        for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
            with contextlib.suppress(OSError, ValueError, AttributeError):  # a stream may be closed or missing
                stream.flush()
                kept = os.dup(descriptor)
                undo.callback(os.close, kept)
                undo.callback(os.dup2, kept, descriptor)  # runs before the close, because the last callback is first
                os.dup2(null, descriptor)
        yield


def register() -> None:
    """Register the ids that Gymnasium does not know yet; it warns if an id is registered twice."""
    for id, (name, kwargs) in TASKS.items():
        if id not in gymnasium.registry:
            gymnasium.register(id, f"{__name__}:{name}", max_episode_steps=1000, kwargs=kwargs)
