"""`smrl play RUN`: watch a trained policy."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from smrl import plugins, runtime
from smrl.cli.parsing import out, parse
from smrl.errors import SmrlError
from smrl.training.play import play
from smrl.training.run import load


@dataclass(frozen=True)
class Play:
    """Watch the greedy policy of a run, in a window or as a video."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, such as runs/Hopper-v4/sac-reuse10/seed0."""
    video: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """File to write, ending in .mp4; without it, a window opens."""
    episodes: int = 1
    """Episodes to play."""
    best: bool = False
    """Take the policy of the run's best evaluation in place of the newest one."""
    env: Annotated[str | None, tyro.conf.arg(metavar="ENVIRONMENT", help_behavior_hint="")] = None
    """Environment to use, as with smrl train; by default that of the run."""
    trust: bool = False
    """Import the modules that the run's settings name, from the working directory too: their code is executed."""


def run(words: Sequence[str]) -> None:
    """Parse, play, print the returns."""
    command: Play = parse(words, "play", Play)
    try:
        if command.trust or command.env:
            plugins.use_working_directory()
        trained = load(command.run, command.trust)
        runtime.start(trained.threads)  # so that the episodes of the run's evaluations come out the same
        returns = play(trained, command.video, command.episodes, best=command.best, env=command.env)
    except SmrlError:
        sys.unraisablehook = lambda _: None  # Gymnasium's unfinished viewers raise when they are thrown away at the end
        raise
    where = f"; the video is {command.video}" if command.video else ""
    out.print(f"return {', '.join(f'{value:,.1f}' for value in returns)}{where}", markup=False)
