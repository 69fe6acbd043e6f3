"""Train on your own environment and watch the policy. Takes about a minute.

Run: python examples/environment.py. On the command line, in the folder examples:

    smrl check-env environment:Reach
    smrl train sac environment:Reach --steps 1500 --warmup 300 --eval-every 300
    smrl play runs/environment-Reach/*/seed0 --trust --video reach.mp4

A point is pushed to a target that is somewhere else in every episode. `render_mode` is all that `smrl play` needs.
"""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

import smrl

PIXELS = 96


class Reach(gymnasium.Env[np.ndarray, np.ndarray]):
    """Push a point to a target in the square [−1, 1]²; the reward is minus the distance."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012  # as in Gymnasium
    observation_space = Box(-1.0, 1.0, (4,))  # position, target
    action_space = Box(-1.0, 1.0, (2,))  # velocity

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.position, self.target = np.zeros(2), np.zeros(2)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, Any]:
        """Draw a position and a target; all randomness comes from np_random, so that a seed repeats an episode."""
        super().reset(seed=seed)
        self.position, self.target = self.np_random.uniform(-1, 1, (2, 2))
        self.steps = 0
        return self.observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, Any]:
        """Move, and be truncated (not terminated) after 50 steps: time running out is no property of the task."""
        self.position = np.clip(self.position + 0.1 * action, -1, 1)
        self.steps += 1
        distance = float(np.linalg.norm(self.position - self.target))
        return self.observe(), -distance, False, self.steps == 50, {"is_success": distance < 0.1}

    def observe(self) -> np.ndarray:
        """Return position and target."""
        return np.concatenate([self.position, self.target]).astype(np.float32)

    def render(self) -> Any:
        """Draw the target in red and the point in white."""
        image = np.zeros((PIXELS, PIXELS, 3), np.uint8)
        for place, colour in ((self.target, (220, 60, 60)), (self.position, (255, 255, 255))):
            row, column = ((place[::-1] + 1) / 2 * (PIXELS - 9)).astype(int)
            image[row : row + 8, column : column + 8] = colour
        return image


def main(steps: int = 1_500) -> smrl.Run:
    """Train SAC, evaluate it and write a video."""
    run = smrl.train("sac", Reach, reuse=10, steps=steps, warmup=300, eval_every=300)
    print(f"mean returns of the evaluations: {run.record.returns.round(1)}")
    smrl.play(run, video=Path("reach.mp4"), env=Reach)
    return run


if __name__ == "__main__":
    main()
