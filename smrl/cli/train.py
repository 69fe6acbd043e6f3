"""`smrl train ALGORITHM ENVIRONMENT`: train an algorithm, or resume its run."""

from collections.abc import Sequence

from smrl.api import train_on
from smrl.cli.common import Parser, out
from smrl.cli.flags import add_flags, add_settings, leading_names
from smrl.settings import RunOptions
from smrl.training.progress import Board

ABOUT = "Train an algorithm, or resume its run; a finished run is left alone."


def run(words: Sequence[str]) -> None:
    """Train and print where the run is."""
    algorithm, env, *_ = [*leading_names(words), "", ""]
    parser = Parser("train ALGORITHM ENVIRONMENT", ABOUT)
    add_settings(parser, words, [algorithm] if algorithm else [], env)
    add_flags(parser, "run options", {"": RunOptions}, {})
    values = parser.read(words)
    trained = train_on(Board, **values)
    if not values.get("quiet"):
        out.print(f"the run is in {trained.path}", markup=False)
