"""`smrl play RUN`: watch a trained policy."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smrl import plugins, runtime
from smrl.cli.common import out
from smrl.cli.flags import parse
from smrl.errors import SmrlError
from smrl.training.play import play
from smrl.training.run import load
from smrl.validation import Count


@dataclass(frozen=True)
class Play:
    """Watch the greedy policy of a run, in a window or as a video."""

    run: Path
    """Folder of the run, such as runs/Hopper-v4/sac-reuse10/seed0."""
    video: Path | None = None
    """File to write, ending in .mp4; without it, a window opens."""
    episodes: Count = 1
    """Episodes to play."""
    best: bool = False
    """Use the policy of the run's best evaluation instead of the newest one."""
    env: str | None = None
    """Environment to use, as in smrl train; by default that of the run."""
    trust: bool = False
    """Import and execute the modules that the run's settings name, also from the working directory."""


def run(words: Sequence[str]) -> None:
    """Play and print the returns."""
    command = parse(words, "play RUN", Play)
    try:
        if command.trust or command.env:
            plugins.use_working_directory()
        trained = load(command.run, command.trust)
        runtime.start(trained.threads)  # so that the episodes of the run's evaluations come out the same
        returns = play(trained, command.video, command.episodes, best=command.best, env=command.env)
    except SmrlError:
        sys.unraisablehook = lambda _: None  # Gymnasium's unfinished viewers raise when they are deleted
        raise
    where = f"; the video is {command.video}" if command.video else ""
    out.print(f"return {', '.join(f'{value:,.1f}' for value in returns)}{where}", markup=False)
