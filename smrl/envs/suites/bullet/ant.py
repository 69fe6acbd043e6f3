"""Ant: a torso on four legs that moves freely."""

import math
from typing import Any

import numpy as np

from smrl.envs.suites.bullet.camera import View
from smrl.envs.suites.bullet.locomotion import LocomotionEnv, Robot
from smrl.envs.suites.bullet.world import TIME_STEP

ANT = Robot(model="ant", power=2.5, coefficients=(100,) * 8, view=View(height=0.4, distance=4.0, yaw=30, pitch=-25))
OBS_LENGTH = 111  # the last 84 are zeros, in place of the contact forces of the MuJoCo task
HEIGHT, JOINTS = 0, slice(5, 13)  # indices of the torso's height and of the joints in an observation
GOAL = 1000.0  # distance along x, in metres
LOWEST = 0.26  # height of the torso below which the ant has fallen
AT_LIMIT = 0.99  # a joint counts as at its limit beyond this share of its range, from the centre
LIMIT_COST = 0.1  # per joint at its limit


class AntEnv(LocomotionEnv):
    """Walk to a far goal along x: the reward is progress, ±1 for being alive or not, and a cost per joint at its limit.

    Observations are the torso's height and orientation (x, y, z, w), the joint positions, the torso's velocity and
    angular velocity, the joint velocities, and zeros.

    ``repair_alive`` compares the torso's height alone with the threshold; the original adds the initial height to it,
    so that an ant hardly ever counts as fallen. ``repair_progress`` measures progress by the mean position of the ant's
    parts; the original includes the floor, which never moves, so that progress is scaled by 21/22.
    """

    def __init__(
        self, repair_alive: bool = False, repair_progress: bool = False, render_mode: str | None = None
    ) -> None:
        super().__init__(ANT, OBS_LENGTH, render_mode)
        self.repair_alive = repair_alive
        self.repair_progress = repair_progress
        self._distance = self._raised = 0.0

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Apply torques for 0.0165 seconds."""
        self._act(action)
        before, values = self._distance, self._observe()
        progress = (before - self._distance) / TIME_STEP
        at_limit = sum(
            [not low <= value <= high for value, (low, high) in zip(values[JOINTS], self._free, strict=True)]
        )
        is_alive = values[HEIGHT] + self._raised > LOWEST
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
        """The observation without the zeros at its end; also updates the distance to the goal."""
        positions, velocities = self.world.joint_states()
        place, orientation, velocity, spin = self.world.base_state()
        parts = [place, *self.world.link_positions()]
        count = len(parts) + (not self.repair_progress)  # the floor is at the origin
        x, y = sum([part[0] for part in parts]) / count, sum([part[1] for part in parts]) / count
        self._distance = math.hypot(GOAL - x, y)
        return [place[2], *orientation, *positions, *velocity, *spin, *velocities]

    def _padded(self, values: list[float]) -> np.ndarray:
        obs = np.zeros(OBS_LENGTH, np.float32)
        obs[: len(values)] = values
        return obs
