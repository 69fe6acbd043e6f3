"""`smrl watch RUNS…`: the report page in a browser, while runs are trained."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from smrl.cli.common import out
from smrl.cli.flags import parse
from smrl.errors import require
from smrl.report.watch import ReportServer
from smrl.validation import validate

Port = Annotated[int, Meta(ge=0, le=65535, description="a port from 0 to 65535")]


@dataclass(frozen=True)
class Command:
    """Show the report page in a browser, with live updates; Ctrl-C ends it."""

    runs: tuple[Path, ...]
    """Folders of runs, or folders with runs in them, such as runs/Hopper-v4."""
    port: Port = 0
    """Port to listen on at 127.0.0.1; 0 is a free one."""

    def __post_init__(self) -> None:
        validate(self)


def run(words: Sequence[str]) -> None:
    """Print the address and serve until Ctrl-C."""
    command = parse(words, "watch RUNS…", Command)
    for folder in command.runs:
        require(folder.is_dir(), f"{folder} is not a folder; give a folder with runs in it.")
    with contextlib.suppress(KeyboardInterrupt), ReportServer(command.runs, command.port) as server:
        out.print(f"open {server.url} in a browser; Ctrl-C ends it.", markup=False)
        sys.stdout.flush()
        server.serve_forever()
