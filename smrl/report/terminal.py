"""Tables in terminals of any width. Imports nothing but Rich, because all commands print tables."""

import textwrap

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table
from rich.text import Text


class WholeWords(Table):
    """A table that breaks lines only between words; where it would be too wide, each row becomes a paragraph."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the table, or its rows one after the other."""
        for column in self.columns:
            column.min_width = max(map(cell_len, _unbroken(column)), default=0)
        if self._extra_width + sum(self._narrowest(column) for column in self.columns) <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        if self.title:
            yield Text(f"{self.title}", "bold")
        names = [" ".join(str(column.header).split()) for column in self.columns]
        for row in zip(*(column.cells for column in self.columns), strict=True):
            first, *others = (str(cell) for cell in row)
            items = [f"{name} {text}" for name, text in zip(names[1:], others, strict=True) if text]
            yield Text(first.strip(), "bold")
            for line in textwrap.wrap("; ".join(items), max(20, options.max_width - 2), break_on_hyphens=False):
                yield Text(f"  {line}")
        if self.caption:
            yield Text(f"\n{self.caption}")

    def _narrowest(self, column: Column) -> int:
        _, right, _, left = self.padding
        return (column.min_width or 0) + left + right


def _unbroken(column: Column) -> list[str]:
    """Return the parts of a column's texts that stay in one line."""
    texts = [str(text) for text in (column.header, *column.cells)]
    lines = [line for text in texts for line in text.split("\n")]
    return lines if column.no_wrap else [word for line in lines for word in line.split()]
