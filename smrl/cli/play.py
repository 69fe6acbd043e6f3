"""`smrl play RUN`: watch a trained policy."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from smrl.cli.parsing import out, parse
from smrl.errors import SmrlError
from smrl.runs.run import load
from smrl.training.play import play


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


def run(words: Sequence[str]) -> None:
    """Parse, play, print the returns."""
    command: Play = parse(words, "play", Play)
    try:
        returns = play(load(command.run), command.video, command.episodes, best=command.best)
    except SmrlError:
        sys.unraisablehook = lambda _: None  # Gymnasium's unfinished viewers raise when they are thrown away at the end
        raise
    where = f"; the video is {command.video}" if command.video else ""
    out.print(f"return {', '.join(f'{value:,.1f}' for value in returns)}{where}")
