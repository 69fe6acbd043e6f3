"""`smrl play RUN`: watch a trained policy."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smrl.cli.common import out
from smrl.cli.evaluate import Evaluate, load_run
from smrl.cli.flags import parse
from smrl.errors import SmrlError
from smrl.training.play import play
from smrl.validation import Size


@dataclass(frozen=True)
class Play(Evaluate):
    """Watch the greedy policy of a run, in a window or as a video."""

    episodes: Size = 1
    """Episodes to play."""
    video: Path | None = None
    """File to write, ending in .mp4; without it, a window opens."""


def run(words: Sequence[str]) -> None:
    """Play and print the returns."""
    command = parse(words, "play RUN", Play)
    try:
        returns = play(load_run(command), command.video, command.episodes, best=command.best, env=command.env)
    except SmrlError:
        sys.unraisablehook = lambda _: None  # Gymnasium's unfinished viewers raise when they are deleted
        raise
    where = f"; the video is {command.video}" if command.video else ""
    out.print(f"return {', '.join(f'{value:,.1f}' for value in returns)}{where}", markup=False)
