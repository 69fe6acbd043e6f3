"""Watch a policy in a window, or record a video."""

import contextlib
import importlib.util
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from smrl.envs.make import Raw
from smrl.errors import SmrlError, require
from smrl.randomness import Purpose, environment_seed
from smrl.runs.atomic import writing
from smrl.training.run import Run, make_environment, require_run
from smrl.validation import Size, convert

SCREENLESS = {"MUJOCO_GL": "egl", "SDL_VIDEODRIVER": "dummy"}  # how MuJoCo and pygame draw without a screen
# Words in the errors of renderers whose graphics libraries are missing.
GRAPHICS = re.compile("egl|glget|libgl|opengl|osmesa|glfw|mujoco_gl", re.IGNORECASE)
ADVICE = (
    "off-screen rendering needs a system library: apt-get install libegl1 libgl1, "
    "or apt-get install libosmesa6 and set MUJOCO_GL=osmesa"
)


def play(
    run: Run,
    video: Path | None = None,
    episodes: int = 1,
    best: bool = False,
    env: str | Callable[..., Raw] | None = None,
) -> list[float]:
    """Show episodes of a run's greedy policy in a window, or record them as a video; return their returns.

    With ``best`` it is the policy of the best evaluation instead of the newest one. ``env`` is needed only if a
    function made the run's environment.

    >>> play(load("runs/Hopper-v4/sac-reuse10/seed0"), Path("hopper.mp4"))        # doctest: +SKIP
    """
    run, episodes = require_run(run), convert("episodes", episodes, Size)
    video = convert("video", video, Path | None)
    if video is None:
        screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        require(bool(screen), "there is no screen to play on; write a file with --video play.mp4.")
    else:
        require(video.suffix == ".mp4", f"a video is a file that ends in .mp4, not {video.name}.")
        is_installed = all(importlib.util.find_spec(package) for package in ("imageio", "av"))
        require(is_installed, 'recording a video needs an extra that is not installed: pip install "smrl[video]"')
    policy = run.best_policy if convert("best", best, bool) else run.policy
    returns = []
    with (
        _advice(),
        _screenless() if video else contextlib.nullcontext(),
        contextlib.closing(make_environment(run, env, "rgb_array" if video else "human")) as environment,
    ):
        fps = environment.env.metadata.get("render_fps", 30)
        with _recording(video, int(fps)) as record:
            for episode in range(episodes):
                obs = environment.reset(environment_seed(run.settings.seed, Purpose.EVALUATE, episode))
                total, over = 0.0, False
                while not over:
                    if video:
                        picture = np.asarray(environment.render())
                        require(picture.ndim == 3, f"{environment.name} does not render pictures to record.")
                        record(picture)
                    obs, reward, terminated, truncated = environment.step(policy.act(obs[None])[0])
                    total, over = total + reward, terminated or truncated
                returns.append(total)
    return returns


@contextlib.contextmanager
def _screenless() -> Iterator[None]:
    """Let environments draw without a screen, unless the user has chosen how; they look when they draw first."""
    added = {name: value for name, value in SCREENLESS.items() if not os.environ.get(name)}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextlib.contextmanager
def _advice() -> Iterator[None]:
    """If graphics libraries are missing, add to the error which packages have them."""
    try:
        yield
    except SmrlError as error:
        if GRAPHICS.search(str(error)):
            raise SmrlError(f"{str(error).removesuffix('.')}; {ADVICE}.") from error
        raise


@contextlib.contextmanager
def _recording(video: Path | None, fps: int) -> Iterator[Callable[[Any], None]]:
    """Provide a function that takes the pictures one by one, so that a long video needs no memory.

    The video is written to a temporary file, which is renamed when it is complete.
    """
    if video is None:
        yield lambda picture: None
        return
    import imageio.v3 as iio  # of an extra

    temporary = video.with_name(f".{video.stem}.new.mp4")
    with writing(video, "or write to another place"):
        video.parent.mkdir(parents=True, exist_ok=True)
        try:
            with iio.imopen(temporary, "w", plugin="pyav") as file:
                file.init_video_stream("libx264", fps=fps)
                yield file.write_frame
            os.replace(temporary, video)
        finally:
            temporary.unlink(missing_ok=True)
