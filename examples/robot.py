"""Train a 50 Hz pendulum in real time: pause, resume, and export the policy. Takes about a minute.

Run: python examples/robot.py

The pendulum is simulated, but its clock is real: it swings on while nobody acts, as a device would. docs/robots.md
explains every part.
"""

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

import smrl

PERIOD = 1 / 50  # seconds per step
EPISODE_STEPS = 150
MAX_SPEED, MAX_TORQUE = 8.0, 2.0
SUBSTEP = 0.002  # seconds of the simulated physics


class Robot(gymnasium.Env[np.ndarray, np.ndarray]):
    """A pendulum with a motor. Its state advances by the time that has really passed."""

    metadata = {"real_time": True, "control_period": PERIOD, "render_modes": []}  # noqa: RUF012  # as in Gymnasium
    observation_space = Box(np.array([-1, -1, -MAX_SPEED], np.float32), np.array([1, 1, MAX_SPEED], np.float32))
    action_space = Box(-MAX_TORQUE, MAX_TORQUE, (1,))

    def __init__(self, render_mode: str | None = None) -> None:
        self.angle = self.speed = self.torque = 0.0
        self.steps = 0
        self.now = self.due = self.acted_at = time.perf_counter()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, Any]:
        """Bring the pendulum to a start. A person may do that by hand: nothing else happens until this returns."""
        super().reset(seed=seed)
        self.angle, self.speed = self.np_random.uniform([-np.pi, -1.0], [np.pi, 1.0])
        self.torque, self.steps = 0.0, 0
        self.now = self.due = time.perf_counter()
        return self.sensors(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, Any]:
        """Send an action, wait for the end of the period, and read the sensors."""
        self.swing_until_now()  # under the torque of before: a late action has consequences
        self.torque = float(np.clip(action[0], -MAX_TORQUE, MAX_TORQUE))
        self.acted_at = time.perf_counter()
        self.due = max(self.due + PERIOD, self.acted_at)  # after a late step, the clock starts again
        time.sleep(self.due - self.acted_at)
        self.swing_until_now()
        self.steps += 1
        cost = self.angle**2 + 0.1 * self.speed**2 + 0.001 * self.torque**2
        is_truncated = self.steps == EPISODE_STEPS
        if is_truncated:
            self.torque = 0.0  # it may now be left alone until the next reset
        return self.sensors(), -cost, False, is_truncated, {}

    def close(self) -> None:
        """Leave the device in a safe state; smrl calls this whatever happens, except after kill -9."""
        self.torque = 0.0

    def swing_until_now(self) -> None:
        """Advance the physics to the present moment."""
        now = time.perf_counter()
        if now - self.acted_at > 2 * PERIOD:
            self.torque = 0.0  # the watchdog: without new actions the motor stops
        for _ in range(min(round((now - self.now) / SUBSTEP), 1_000)):
            self.speed += SUBSTEP * (15.0 * np.sin(self.angle) + 3.0 * self.torque)
            self.speed = float(np.clip(self.speed, -MAX_SPEED, MAX_SPEED))
            self.angle = (self.angle + SUBSTEP * self.speed + np.pi) % (2 * np.pi) - np.pi
        self.now = now

    def sensors(self) -> np.ndarray:
        """Return the cosine and sine of the angle, and the angular speed."""
        return np.array([np.cos(self.angle), np.sin(self.angle), self.speed], np.float32)


def pause_after(steps: int) -> Any:
    """Return a callback that pauses a run, as Ctrl-C does."""
    return lambda status: status.step == steps


def main(steps: int = 1_500, pause: int = 600) -> smrl.Run:
    """Train, pause, resume and export."""
    settings: Any = {"real_time": True, "steps": steps, "warmup": 300, "reuse": "realtime"}
    settings |= {"eval_every": 150, "greedy_every": 4}
    smrl.train("sac", Robot, on_step=pause_after(pause), **settings)
    print(f"paused after {pause} steps; the same call goes on with a new episode")
    run = smrl.train("sac", Robot, **settings)
    print(f"greedy episodes: {run.record.returns.round(1)}")
    run.export("robot-policy", to="numpy")
    return run


if __name__ == "__main__":
    main()
