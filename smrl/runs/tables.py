"""The tables of a run: CSV files whose first column is the step."""

import csv
import io
from pathlib import Path
from typing import Any

from smrl.runs.atomic import sync, write_atomically, writing

TABLES = ("evaluations.csv", "training.csv")


class CsvLog:
    """A CSV file with a fixed header whose first column is the step; ``lines`` is what it must hold."""

    def __init__(self, path: Path, columns: tuple[str, ...], continue_at: int) -> None:
        """Open the file, and drop the lines after the step that the run continues at."""
        self.path, self.columns = path, columns
        self.lines = [",".join(columns), *lines_until(path, continue_at)[1:]]
        self._rewrite()

    def write(self, row: dict[str, Any]) -> None:
        """Append a line; a column without a value stays empty."""
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([row.get(name, "") for name in self.columns])
        self.lines.append(line.getvalue())
        with writing(self.path), self.path.open("a") as file:
            file.write(f"{self.lines[-1]}\n")

    def restore(self) -> None:
        """Write the file anew if somebody has cut or deleted it."""
        if not self.path.is_file() or self.path.stat().st_size != len(as_bytes(self.lines)):
            self._rewrite()

    def sync(self) -> None:
        """Wait until the file is on the disk."""
        with writing(self.path):
            sync(self.path)

    def _rewrite(self) -> None:
        with writing(self.path):
            write_atomically(self.path, as_bytes(self.lines))


def as_bytes(lines: list[str]) -> bytes:
    """Lines as a file holds them."""
    return "".join(f"{line}\n" for line in lines).encode()


def lines_until(path: Path, step: int) -> list[str]:
    """The header of a table and its rows up to a step; nothing where there is no file."""
    if not path.exists():
        return []
    header, *rows = path.read_text(errors="replace").split("\n")[:-1] or [""]  # a kill may have cut the last line
    steps = [row.partition(",")[0] for row in rows]
    return [header, *(row for row, at in zip(rows, steps, strict=True) if at.isdigit() and int(at) <= step)]
