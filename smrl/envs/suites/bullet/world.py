"""A simulated world: the ground, one robot on it, and its joints."""

import functools
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gymnasium.error import Error

from smrl.envs.suites.bullet.simulator import data_path, simulator

TIME_STEP = 0.0165  # seconds of one step of the environment, which is one call of the simulator
SUBSTEPS, SOLVER_ITERATIONS = 4, 5
GRAVITY, CONTACT_ERP = -9.8, 0.9
GAIN = 0.1  # of the joint motors, whose force is zero
GROUND, ROBOT = 0, 1  # the bodies, numbered in the order of loading
BASE = -1  # PyBullet's link number of a body's base
COLOUR = (0.95, 0.55, 0.25, 1.0)  # of the robot, because PyBullet does not read the model's colours


@dataclass(frozen=True)
class Surface:
    """Friction and restitution of a body."""

    lateral: float = 0.8
    spinning: float = 0.0
    rolling: float = 0.0
    restitution: float = 0.5


class World:
    """A physics client of its own, with the ground and a robot.

    Two things make episodes repeat bit for bit. Contacts are solved in the order of the bodies' numbers
    (``deterministicOverlappingPairs``): by default their order depends on memory addresses, so that not even two
    freshly loaded worlds agree. And every episode loads its world anew: PyBullet can restore a saved state, but keeps
    the previous contacts, so that an episode would depend on the one before. `make bench` measures the cost of loading.
    """

    def __init__(self, model: str, ground: Surface, links: Surface | None = None) -> None:
        self.bullet = simulator()
        self.client: int = self.bullet.connect(self.bullet.DIRECT)
        if self.client < 0:
            raise Error("PyBullet has no client left for another environment: close those that are not needed")
        self.close = weakref.finalize(self, _disconnect, self.bullet, self.client)
        self._model = os.path.join(data_path(), "mjcf", f"{model}.xml")
        self._ground, self._links = ground, links
        self.load()

    def place(self, positions: Sequence[float]) -> None:
        """Put the joints at these positions with the velocity 0."""
        for joint, position in zip(self.joints, positions, strict=True):
            self.bullet.resetJointState(ROBOT, joint, position, 0, physicsClientId=self.client)

    def step(self, torques: list[float]) -> None:
        """Simulate one time step with these torques at the powered joints."""
        self._set_torques(forces=torques)
        self._simulate()

    def joint_states(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Positions and velocities of the joints."""
        positions, velocities, _, _ = zip(*self._get_joints(), strict=True)
        return positions, velocities

    def torso_position(self) -> Sequence[float]:
        """The torso's centre of mass."""
        return self._get_torso()[0]  # after a step, a link's position is one substep older than its joint's

    def base_state(self) -> tuple[Sequence[float], ...]:
        """Position, orientation (x, y, z, w), velocity and angular velocity of the robot's base."""
        return (*self._get_base(), *self._get_base_velocity())

    def link_positions(self) -> list[Sequence[float]]:
        """The centres of mass of all links, without the base."""
        return [state[0] for state in self._get_links()]

    def load(self) -> None:
        """Load the world anew."""
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
        self._set_surface(GROUND, BASE, self._ground)
        flags = bullet.URDF_USE_SELF_COLLISION | bullet.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        bullet.loadMJCF(self._model, flags=flags, physicsClientId=client)
        self._name_joints()
        self._switch_off_motors()
        for link in range(BASE, self._links_number):
            bullet.changeVisualShape(ROBOT, link, rgbaColor=COLOUR, physicsClientId=client)
            if self._links is not None:
                self._set_surface(ROBOT, link, self._links)

    def _name_joints(self) -> None:
        """Look up the joints, and prepare the calls that every step makes."""
        bullet, client = self.bullet, self.client
        self._links_number = bullet.getNumJoints(ROBOT, physicsClientId=client)
        # A link has the number of its joint; every movable joint leads to a massless link.
        infos = [bullet.getJointInfo(ROBOT, joint, physicsClientId=client) for joint in range(self._links_number)]
        movable = [info for info in infos if not info[1].startswith(b"jointfix")]
        self.joints = [info[0] for info in movable]
        self.powered = [info[0] for info in movable if not info[1].startswith(b"ignore")]  # the rest place the torso
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

    def _switch_off_motors(self) -> None:
        """Disable the motors that PyBullet adds to joints by default."""
        count = len(self.joints)
        self.bullet.setJointMotorControlArray(
            ROBOT,
            self.joints,
            self.bullet.POSITION_CONTROL,
            positionGains=[GAIN] * count,
            velocityGains=[GAIN] * count,
            forces=[0.0] * count,
            physicsClientId=self.client,
        )

    def _set_surface(self, body: int, link: int, surface: Surface) -> None:
        self.bullet.changeDynamics(
            body,
            link,
            lateralFriction=surface.lateral,
            spinningFriction=surface.spinning,
            rollingFriction=surface.rolling,
            restitution=surface.restitution,
            physicsClientId=self.client,
        )


def _disconnect(bullet: Any, client: int) -> None:
    bullet.disconnect(physicsClientId=client)
