"""The tables of a run, which are CSV files whose first column is the step, and the record of a run read from them."""

import csv
import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smrl.errors import SmrlError, require
from smrl.runs.atomic import sync, write_atomically, writing
from smrl.runs.config import Damaged, read_rows
from smrl.runs.identity import canonical, flat
from smrl.runs.paths import EVALUATIONS, RunDirectory, find_files

MAX_DIGITS = 12  # of a step
NEWEST = "newest"  # the column with mean returns of the newest policy, where evaluations are of its average
Table = dict[str, NDArray[Any]]  # columns of equal length by name


class CsvLog:
    """A CSV file whose first column is the step; ``lines`` is what it must hold.

    Columns may be added. They come last and are empty in the rows before.
    """

    def __init__(self, path: Path, columns: Sequence[str], continue_at: int) -> None:
        """Open the file, and drop the lines after the step at which the run continues."""
        header, *rows = lines_until(path, continue_at) or [""]
        self.path, self.columns = path, header.split(",") if rows else ["step"]
        self.lines = [header, *rows] if rows else ["step"]
        self._add_columns(columns)
        self._rewrite()

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a line; a column without a value stays empty, and names that are new become columns."""
        if any(name not in self.columns for name in row):
            self._add_columns(row)
            self._rewrite()
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([row.get(name, "") for name in self.columns])
        self.lines.append(line.getvalue())
        with writing(self.path), self.path.open("a") as file:
            file.write(f"{self.lines[-1]}\n")

    def restore(self) -> None:
        """Write the file again if it was truncated or deleted."""
        if not self.path.is_file() or self.path.stat().st_size != len(as_bytes(self.lines)):
            self._rewrite()

    def sync(self) -> None:
        """Wait until the file is on the disk; may be called from another thread."""
        with writing(self.path):
            sync(self.path)

    def _add_columns(self, names: Iterable[str]) -> None:
        added = [name for name in names if name not in self.columns]
        self.columns = [*self.columns, *added]
        self.lines = [",".join(self.columns), *(line + "," * len(added) for line in self.lines[1:])]

    def _rewrite(self) -> None:
        with writing(self.path):
            write_atomically(self.path, as_bytes(self.lines))


def as_bytes(lines: Sequence[str]) -> bytes:
    """Return lines as a file holds them."""
    return "".join(f"{line}\n" for line in lines).encode()


def begins_with(content: bytes, lines: Sequence[str]) -> bool:
    """Return whether a table begins with these lines; columns that were added since are empty in them."""
    if not lines:
        return True
    header = content.partition(b"\n")[0].decode(errors="replace")
    added = header[len(lines[0]) :].count(",") if header.startswith(f"{lines[0]},") else 0
    return content.startswith(as_bytes([header if added else lines[0], *(row + "," * added for row in lines[1:])]))


def lines_until(path: Path, step: int) -> list[str]:
    """Return the header of a table and its rows up to a step; nothing if there is no file."""
    if not path.exists():
        return []
    header, *rows = read_rows(path)
    steps = [row.partition(",")[0] for row in rows]
    is_kept = [at.isdecimal() and len(at) <= MAX_DIGITS and int(at) <= step for at in steps]
    return [header, *itertools.compress(rows, is_kept)]


@dataclass(frozen=True, eq=False)
class Record:
    """One run: its settings, and the mean return of every evaluation.

    A real-time run without evaluations has the mean returns of its training episodes instead.
    """

    path: Path
    settings: dict[str, Any]  # by name, the hyperparameters among them
    steps: NDArray[np.int64]  # strictly increasing, at least one
    returns: NDArray[np.float64]
    episodes: int | None  # per evaluation, None if they differ; 0 where the returns are those of training episodes
    newest: NDArray[np.float64] | None = None  # returns of the newest policy, where the others are of its average

    @property
    def env(self) -> str:
        return str(self.settings["env"])

    @property
    def algorithm(self) -> str:
        return str(self.settings["algorithm"])

    @property
    def reuse(self) -> str:
        """Return the reuse rule: "10", or a schedule such as "10:300000,1"."""
        return str(self.settings["reuse"])

    @property
    def seed(self) -> int:
        return int(self.settings["seed"])

    @property
    def budget(self) -> int:
        """Return the number of environment steps that the run is to make."""
        return int(self.settings["steps"])

    @property
    def identity(self) -> str:
        """Return a text that is equal for runs that differ only in seed, steps and evaluations."""
        return canonical(self.settings)

    def until(self, step: int) -> "Record":
        """Truncate the record at a step, which must not be before its first evaluation."""
        kept, settings = self.steps <= step, self.settings | {"steps": min(step, self.budget)}
        newest = None if self.newest is None else self.newest[kept]
        return replace(self, settings=settings, steps=self.steps[kept], returns=self.returns[kept], newest=newest)

    def variants(self) -> list["Record"]:
        """Return the record, and that of the same run without an averaged policy: averaging changes no training."""
        if self.newest is None:
            return [self]
        plain = replace(self, settings=self.settings | {"average_policy": None}, returns=self.newest, newest=None)
        return [self, plain]


def read_run(path: Path) -> Record:
    """Read the record of a run that has at least one evaluation, or one return if it makes no evaluations."""
    record = _read(path)
    if record is None:
        raise SmrlError(f"{path / EVALUATIONS} holds no evaluation yet; wait for the first one of the run.")
    return record


def read_runs(folder: Path) -> list[Record]:
    """Read the records of all runs in a folder and below it, except runs without an evaluation."""
    require(folder.is_dir(), f"{folder} is not a folder; give a folder with runs in it.")
    paths = [file.parent for file in find_files(folder, EVALUATIONS) if RunDirectory(file.parent).config.exists()]
    return [record for record in map(_read, paths) if record is not None]


def _read(path: Path) -> Record | None:
    run = RunDirectory(path)
    settings = flat(run.read_config()["settings"])
    is_evaluated = settings.get("eval_episodes") != 0
    file, name = (run.evaluations, "mean") if is_evaluated else (run.training, "episode_return")
    if not file.exists():
        return None
    try:
        rows = [row for row in csv.DictReader(read_rows(file)) if is_evaluated or row[name]]
        if not rows:
            return None
        steps = np.array([int(row["step"]) for row in rows], np.int64)
        returns = np.array([float(row[name]) for row in rows], np.float64)
        counts = {int(row["episodes"]) for row in rows} if is_evaluated else {0}
        has_newest = all(row.get(NEWEST) for row in rows)
        newest = np.array([float(row[NEWEST]) for row in rows], np.float64) if has_newest else None
    except (csv.Error, KeyError, TypeError, ValueError, OverflowError):
        columns = "step, episodes and mean" if is_evaluated else f"step and {name}"
        raise Damaged(file, f"its columns {columns} must hold numbers") from None
    if (np.diff(steps) <= 0).any():
        raise Damaged(file, "its steps do not increase")
    return Record(path, settings, steps, returns, counts.pop() if len(counts) == 1 else None, newest)


def read_table(path: Path) -> Table:
    """Read a table of a run as arrays by column: whole numbers for steps, NaN for empty cells; empty without a file."""
    if not path.exists():
        return {}
    try:
        header, *rows = csv.reader(read_rows(path))
        cells = {name: [row[index] if index < len(row) else "" for row in rows] for index, name in enumerate(header)}
        steps = np.array([int(cell) for cell in cells["step"]], np.int64)
        columns = {name: np.array([float(cell or "nan") for cell in column]) for name, column in cells.items()}
    except (csv.Error, KeyError, ValueError, OverflowError):
        raise Damaged(path, "its columns must hold numbers") from None
    return columns | {"step": steps}
