"""Watch a policy: in a window, or as a video file."""

import os
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np

from smrl import envs
from smrl.envs.environment import EnvironmentFault
from smrl.errors import SmrlError
from smrl.randomness import Purpose, environment_seed
from smrl.run import Run

GRAPHICS_HINT = "off-screen rendering needs the system's libegl1, libgl1 and libosmesa6"


def play(run: Run, video: Path | None, episodes: int) -> list[float]:
    """Show greedy episodes of a run; answer their returns."""
    if video is None and not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        raise SmrlError("there is no screen to play on; write a file with --video play.mp4.")
    if video is not None:
        os.environ.setdefault("MUJOCO_GL", "egl")  # read when MuJoCo's renderer is made; works without a screen
    env = envs.make(run.experiment.env, render_mode="rgb_array" if video else "human")
    frames: list[np.ndarray] = []
    returns: list[float] = []
    try:
        for episode in range(episodes):
            obs = env.reset(environment_seed(run.experiment.seed, Purpose.EVALUATE, episode))
            total, over = 0.0, False
            while not over:
                if video:
                    frames.append(_frame(env.render()))
                obs, reward, terminated, truncated = env.step(run.policy.normalised(obs[None])[0])
                total, over = total + reward, terminated or truncated
            returns.append(total)
    except EnvironmentFault as fault:
        raise SmrlError(f"{fault}; {GRAPHICS_HINT}.") from fault
    finally:
        env.close()
    if video:
        _write(video, frames, int(env.env.metadata.get("render_fps", 30)))
    return returns


def _frame(picture: Any) -> np.ndarray:
    frame = np.asarray(picture)
    if frame.ndim != 3 or frame.shape[2] != 3:
        raise SmrlError("this environment does not render pictures, so there is nothing to film.")
    return frame


def _write(video: Path, frames: list[np.ndarray], fps: int) -> None:
    try:
        video.parent.mkdir(parents=True, exist_ok=True)
        iio.imwrite(video, np.stack(frames), fps=fps)
    except (OSError, ValueError, TypeError) as error:
        raise SmrlError(f"cannot write {video}: {error}; name a file that ends in .mp4 or .gif.") from error
