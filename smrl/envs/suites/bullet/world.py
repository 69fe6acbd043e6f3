"""PyBullet's simulation of the ground, one robot on it, and its joints."""

import contextlib
import functools
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled, Error

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

_redirection = threading.Lock()  # two threads that redirect at once would restore each other's files


@dataclass(frozen=True)
class View:
    """Camera position relative to the torso, which it follows at a constant height."""

    height: float
    distance: float
    yaw: float = 0.0
    pitch: float = -12.0


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

    def place(self, positions: Sequence[float]) -> None:
        """Put the joints at these positions, at rest."""
        for joint, position in zip(self.joints, positions, strict=True):
            self.bullet.resetJointState(ROBOT, joint, position, 0, physicsClientId=self.client)

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

    def base_state(self) -> tuple[Sequence[float], ...]:
        """Return position, orientation (x, y, z, w), velocity and angular velocity of the robot's base."""
        return (*self._get_base(), *self._get_base_velocity())

    def link_positions(self) -> list[Sequence[float]]:
        """Return the centres of mass of all links without the base."""
        return [state[0] for state in self._get_links()]

    def picture(self, view: View) -> np.ndarray:
        """Render an image, uint8 (height, width, 3), in software that needs neither a screen nor a GPU."""
        bullet = self.bullet
        x, y, _ = self.torso_position()
        target, angles = (x, y, view.height), (view.yaw, view.pitch)
        image = bullet.getCameraImage(
            WIDTH,
            HEIGHT,
            bullet.computeViewMatrixFromYawPitchRoll(target, view.distance, *angles, roll=0, upAxisIndex=2),
            bullet.computeProjectionMatrixFOV(FIELD_OF_VIEW, WIDTH / HEIGHT, NEAR, FAR),
            lightDirection=LIGHT,
            shadow=0,
            renderer=bullet.ER_TINY_RENDERER,
            physicsClientId=self.client,
        )[2]
        return np.array(image, np.uint8).reshape(HEIGHT, WIDTH, 4)[..., :3].copy()

    def load(self) -> None:
        """Load the world again."""
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
        self._find_joints()
        bullet.setJointMotorControlArray(  # disables the motors that PyBullet adds to joints by default
            ROBOT,
            self.joints,
            bullet.POSITION_CONTROL,
            positionGains=[MOTOR_GAIN] * len(self.joints),
            velocityGains=[MOTOR_GAIN] * len(self.joints),
            forces=[0.0] * len(self.joints),
            physicsClientId=client,
        )
        for link in range(BASE, self._links_number):
            bullet.changeVisualShape(ROBOT, link, rgbaColor=ROBOT_COLOUR, physicsClientId=client)
            if self._links is not None:
                bullet.changeDynamics(ROBOT, link, **self._links, physicsClientId=client)

    def _find_joints(self) -> None:
        """Look up the joints and prepare the calls that every step makes."""
        bullet, client = self.bullet, self.client
        self._links_number = bullet.getNumJoints(ROBOT, physicsClientId=client)
        # A link has the number of its joint; every movable joint leads to a massless link.
        infos = [bullet.getJointInfo(ROBOT, joint, physicsClientId=client) for joint in range(self._links_number)]
        movable = [info for info in infos if not info[1].startswith(b"jointfix")]
        self.joints = [info[0] for info in movable]
        self.powered = [info[0] for info in movable if not info[1].startswith(b"ignore")]  # others place the torso
        self.limits = [(info[8], info[9]) for info in movable]
        self._torso = next((info[0] for info in infos if info[12] == b"torso"), BASE)

        def call(name: str, *arguments: Any) -> Callable[..., Any]:
            return functools.partial(getattr(bullet, name), *arguments, physicsClientId=client)

        self._simulate = call("stepSimulation")
        self._set_torques = call("setJointMotorControlArray", ROBOT, self.powered, bullet.TORQUE_CONTROL)
        self._get_joints = call("getJointStates", ROBOT, self.joints)
        self._get_links = call("getLinkStates", ROBOT, list(range(self._links_number)))
        self._get_base = call("getBasePositionAndOrientation", ROBOT)
        self._get_base_velocity = call("getBaseVelocity", ROBOT)
        self._get_torso = self._get_base if self._torso == BASE else call("getLinkState", ROBOT, self._torso)


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
