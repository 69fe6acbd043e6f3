"""Watch a policy: in a window, or as a video file."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np

from smrl.envs.environment import EnvironmentFault
from smrl.errors import SmrlError, require
from smrl.files import writing
from smrl.randomness import Purpose, environment_seed
from smrl.run import Run


def play(run: Run, video: Path | None, episodes: int) -> list[float]:
    """Show greedy episodes of a run; answer their returns."""
    if video is None:
        screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        require(bool(screen), "there is no screen to play on; write a file with --video play.mp4.")
    else:
        require(video.suffix == ".mp4", f"a video is a file that ends in .mp4, not {video.name}.")
        os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo reads it when it makes a renderer; egl needs no screen
    env = run.experiment.make_env("rgb_array" if video else "human")
    returns = []
    try:
        with _film(video, env.env.metadata.get("render_fps", 30)) as show:
            for episode in range(episodes):
                obs = env.reset(environment_seed(run.experiment.seed, Purpose.EVALUATE, episode))
                total, over = 0.0, False
                while not over:
                    show(env.render() if video else None)
                    obs, reward, terminated, truncated = env.step(run.policy.normalised(obs[None])[0])
                    total, over = total + reward, terminated or truncated
                returns.append(total)
    except EnvironmentFault as fault:
        raise SmrlError(f"{fault}; off-screen rendering needs the system's libegl1 and libgl1.") from fault
    finally:
        env.close()
    return returns


@contextlib.contextmanager
def _film(video: Path | None, fps: float) -> Iterator[Callable[[Any], None]]:
    """A function that takes the pictures one by one, so that a long film needs no memory."""
    if video is None:
        yield lambda picture: None
        return
    with writing(video, "or write to another place"):
        video.parent.mkdir(parents=True, exist_ok=True)
        with iio.imopen(video, "w", plugin="pyav") as file:
            file.init_video_stream("libx264", fps=int(fps))

            def show(picture: Any) -> None:
                frame = np.asarray(picture)
                require(frame.ndim == 3, "this environment does not render pictures, so there is nothing to film.")
                file.write_frame(frame)

            yield show
