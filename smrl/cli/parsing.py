"""Words to a dataclass, for every command, and the console that answers are printed on."""

import contextlib
import io
import itertools
import re
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from smrl.errors import SmrlError

# Where there is no terminal, lines are as long as they are, and tables are not squeezed into 80 columns.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 120)


def parse(words: Sequence[str], name: str, kind: type[Any]) -> Any:
    """Read flags into a dataclass; what cannot be read is said in one sentence."""
    import tyro  # not above: `smrl list` without a flag needs no parser, and answers faster without it

    flat = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(kind, args=words, prog=f"smrl {name}", config=flat)
    except SystemExit as stop:
        if stop.code == 0:  # help was asked for, and printed
            raise
        raise SmrlError(f"{_in_one_line(complaint.getvalue())}; smrl {name} --help lists the flags.") from None


def _in_one_line(box: str) -> str:
    """The parser's complaint without its frame: what is wrong and, where it names any, the flags that are meant."""
    lines = (line.strip("╭╮╰╯│─|+- ") for line in box.splitlines()[1:])
    wrong = " ".join(itertools.takewhile(bool, itertools.dropwhile(lambda line: not line, lines)))
    meant = re.findall(r"^\W+(--[a-z][\w-]*)", box, re.MULTILINE) if "Perhaps you meant" in box else []
    return f"{wrong}; perhaps you meant {' or '.join(meant)}" if meant else wrong
