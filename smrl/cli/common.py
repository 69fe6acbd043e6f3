"""What all commands share: the argument parser, the console, tables, and the exit after failed runs. Imports no JAX."""

import argparse
import itertools
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from rich import box
from rich.console import Console
from rich.text import Text

from smrl.errors import SmrlError, nearest
from smrl.report.terminal import WholeWords

# Without a terminal, long lines are not wrapped and tables are not squeezed into 80 columns.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 160)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line with advice; only flags that were given have values."""

    def __init__(self, usage: str, description: str) -> None:
        super().__init__(
            prog=" ".join(["smrl", *itertools.takewhile(str.islower, usage.split())]),
            usage=f"smrl {usage} [flags]",
            description=description,
            formatter_class=_Formatter,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        self._negative_number_matcher = re.compile(r"-\.?\d")  # argparse's own takes -1e-2 for a flag

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the values of what was given, by name; print the help and exit if that was asked for."""
        values, unknown = self.parse_known_args([self._without_alias(word) for word in words])
        for flag in (word.partition("=")[0] for word in unknown if word.startswith("-")):
            advice = nearest(flag, self._option_string_actions) or f"; see {self.prog} --help."
            raise SmrlError(f"{self.prog} has no flag {flag}{advice}")
        if unknown:
            advice = "only flags with … in their help take several values, as those of smrl compare do"
            self.error(f"unexpected argument '{unknown[0]}': {advice}")
        return vars(values)

    def _without_alias(self, word: str) -> str:
        """Return a word with the name of smrl if it is a flag that other libraries name differently."""
        flag, equals, value = word.partition("=")
        if not flag.startswith("--") or flag in self._option_string_actions:
            return word
        from smrl.settings import ALIASES  # slow to import

        meant = ALIASES.get(flag[2:].replace("-", "_"))
        return f"--{meant.replace('_', '-')}{equals}{value}" if meant else word

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print with the usage."""
        raise SmrlError(f"{message}; see {self.prog} --help.")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Show flags with several values as ``--flag VALUE …``, and never break a line within a flag."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs in ("+", "*") and isinstance(action.metavar, str):
            return f"{action.metavar} …"
        return super()._format_args(action, default_metavar)


def print_table(rows: Iterable[Sequence[str]], *columns: str, title: str = "") -> None:
    """Print a table of texts whose first column is bold, and an empty line; without column names it has no header."""
    table = WholeWords(*columns, box=box.SIMPLE_HEAD if columns else None, show_header=bool(columns), show_edge=False)
    table.title, table.title_style, table.title_justify = Text(title) if title else None, "bold", "left"
    for first, *others in rows:
        table.add_row(Text(first, "bold"), *map(Text, others))
    out.print(table)
    out.print()


def exit_if_failed(failures: Mapping[str, str]) -> None:
    """Print why runs failed, by their titles, and exit with code 2 if any did."""
    for title, message in failures.items():
        print(f"smrl: {title} failed: {message}", file=sys.stderr)
    if failures:
        sys.exit(2)
