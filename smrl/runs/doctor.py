"""Verify the files of a run, and make a damaged run usable again. Nothing that the run names is imported."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.filesize import decimal

from smrl.algorithms import registry
from smrl.errors import SmrlError, printable, require
from smrl.memory.replay import Rows
from smrl.plugins import in_words
from smrl.reading import load_arrays, read_bytes
from smrl.runs import checkpoint
from smrl.runs.atomic import discard, foreign_files, save_arrays, sync, write_atomically, writing
from smrl.runs.checkpoint import ARRAYS, MANIFEST, REPLAY, Manifest, find_damage
from smrl.runs.config import Damaged, check_config
from smrl.runs.identity import ALWAYS_SHOWN, flat, title, words
from smrl.runs.paths import CHECKPOINT, CONFIG, DATA, EVALUATIONS, TRAINING, RunDirectory
from smrl.runs.records import as_bytes, begins_with, lines_until
from smrl.runs.trust import custom_code
from smrl.settings import Settings, names


@dataclass(frozen=True)
class Part:
    """The files of one kind."""

    name: str
    files: int
    size: int  # bytes on disk
    damage: tuple[str, ...]  # what is wrong, for each damaged file


@dataclass(frozen=True)
class Examination:
    """What is known about a run's folder."""

    path: Path
    config: dict[str, Any] | None  # from config.json or, if that is damaged, from the checkpoint; None without both
    step: int | None  # of the newest checkpoint that has a manifest
    parts: tuple[Part, ...]
    has_memory: bool = True  # False for a run that was shared without its replay memory

    @property
    def is_intact(self) -> bool:
        """Return whether every file is there and as it was written."""
        return not any(part.damage for part in self.parts)

    def lines(self) -> list[str]:
        """Return the lines to print, without control characters that a file of the run may hold."""
        made = [printable(line) for line in self._lines()]
        return [line.rstrip() for line in made]

    def _lines(self) -> Iterator[str]:
        yield str(self.path)
        code = "unknown"
        if self.config:
            settings = self.config["settings"]
            yield f"  run         {title(settings)}"
            changed = ", ".join(f"{name} {words(value)}" for name, value in non_defaults(settings).items())
            yield f"  settings    {changed or 'the defaults'}"
            done = "no checkpoint yet" if self.step is None else f"{self.step:,}"
            yield f"  steps       {done} of {settings['steps']:,}"
            yield f"  format      {self.config['format']}"
            yield f"  versions    {', '.join(f'{name} {number}' for name, number in self.config['versions'].items())}"
            yield f"  processor   {self.config['cpu']}, {_count(self.config['threads'], 'thread')}"
            code = ", ".join(f"the {part} {name}" for part, name in custom_code(settings).items()) or "nothing but smrl"
        yield f"  imports     {code}"
        advice = f"damaged; smrl doctor {self.path} --repair restores what it can"
        state = "intact" if self.has_memory else "intact, without its replay memory: it can act, but not be continued"
        yield f"  state       {state if self.is_intact else advice}"
        for part in self.parts:
            size = f"{_count(part.files, 'file')}, {decimal(part.size)}"
            yield f"  {part.name:<17} {size:<20} {'; '.join(part.damage) or 'intact'}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def examine(path: Path) -> Examination:
    """Read a run's folder and check all of its files."""
    run = _existing_run(path)
    intact: dict[Path, Manifest] = {}
    manifests: dict[Path, str | None] = {}
    for found in checkpoint.checkpoints(run.checkpoint):
        manifests[found / MANIFEST] = None
        try:
            intact[found] = checkpoint.read_manifest(found)
        except (SmrlError, *checkpoint.DAMAGE) as error:
            manifests[found / MANIFEST] = f"{found.name}: {error}"
    newest = next(reversed(intact.values()), None)
    facts = newest["facts"] if newest else {}
    config, problem = run.find_config()
    config_damage = str(problem).partition(";")[0].removeprefix(f"{run.config} ") if problem else None
    arrays = {found / ARRAYS: manifest["arrays"] for found, manifest in intact.items()}
    rows = {file: digest for item in intact.items() for file, digest in checkpoint.row_files(*item).items()}
    everything = dict.fromkeys(Path(folder, name) for folder, _, files in os.walk(path) for name in files)
    foreign = {file: f"{file.relative_to(path)} is {kind}" for file, kind in foreign_files(path).items()}
    if not run.checkpoint.exists() and recorded_steps(run):
        manifests[run.checkpoint] = f"{CHECKPOINT} is missing"
    has_memory = not checkpoint.is_without_rows(run.checkpoint)
    parts = (
        _part(CONFIG, {run.config: config_damage}),
        *_table_parts(path, facts.get("tables", {})),
        _part("manifests", manifests),
        _part("arrays", {file: find_damage({file: digest}) for file, digest in arrays.items()}),
        *(_input_parts(path, config) if has_memory else ()),
        *([_part("replay memory", {file: find_damage({file: digest}) for file, digest in rows.items()})] * has_memory),
        _part("all together", everything | foreign),
    )
    return Examination(path, config, newest["step"] if newest else None, parts, has_memory)


def repair(path: Path) -> list[str]:
    """Restore config.json and the tables, and drop damaged rows of the replay memory; return what was done."""
    run, messages = _existing_run(path), list[str]()
    with run.locked():
        config = restore_files(path, messages.append) or {}
        for name, digest in config.get("inputs", {}).items():
            if name == DATA and (reason := find_damage({path / name: digest})):
                raise SmrlError(
                    f"the data that {path} learns from cannot be repaired ({reason}): restore {path / name} from a "
                    f"copy, or move {path} out of the runs folder to train it again."
                )
        return [*messages, _restore_replay(run)]


def restore_files(path: Path, notify: Callable[[str], None]) -> dict[str, Any] | None:
    """Restore config.json and the tables of a run from its newest manifest if they are damaged, without any loss.

    Return the config, or None for a run that has not begun. The caller holds the run's lock.
    """
    run = RunDirectory(path)
    steps = recorded_steps(run)
    if steps and not run.checkpoint.exists():
        raise SmrlError(
            f"{run.checkpoint} is missing, but {path} has made {steps:,} steps, which would be trained again from the "
            f"start: restore the folder from a copy, or move {path} out of the runs folder to train it again."
        )
    manifest = checkpoint.newest_manifest(run.checkpoint)
    facts = manifest["facts"] if manifest else {}
    with writing(path):
        config = _restore_config(run, facts.get("config"), notify)
        _restore_tables(path, facts.get("tables", {}), notify)
    return config


def recorded_steps(run: RunDirectory) -> int:
    """Return the last step in the tables of a run that can be read; 0 without any."""
    steps = [0]
    for file in (run.evaluations, run.training):
        with contextlib.suppress(SmrlError):
            steps += [int(row.partition(",")[0]) for row in lines_until(file, 10**12)[1:]]
    return max(steps)


def _existing_run(path: Path) -> RunDirectory:
    require(
        any((path / name).exists() for name in (CONFIG, CHECKPOINT)),
        f"{path} is not a run: it has neither {CONFIG} nor a checkpoint; give the folder of a run.",
    )
    return RunDirectory(path)


def non_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from the defaults; of a custom algorithm, all hyperparameters.

    The defaults of a custom algorithm could only be found by importing it.
    """
    algorithm = settings["algorithm"]
    if algorithm in registry.names() and registry.find(algorithm).source == f"smrl.algorithms.{algorithm}:{algorithm}":
        defaults = flat(names(algorithm))
    else:
        defaults = {field.name: field.default for field in dataclasses.fields(Settings)}
    mine = {name: value for name, value in flat(settings).items() if name not in (*ALWAYS_SHOWN, "seed", "steps")}
    return {name: value for name, value in mine.items() if name not in defaults or value != defaults[name]}


def _table_parts(path: Path, tables: Mapping[str, list[str]]) -> Iterator[Part]:
    for file in (path / EVALUATIONS, path / TRAINING):
        if file.exists() or tables.get(file.name):
            damage = None
            try:
                if not begins_with(read_bytes(file), tables.get(file.name, [])):
                    damage = "rows are not those in the checkpoint"
            except OSError as error:
                damage = error.strerror
            yield _part(file.name, {file: damage})


def _input_parts(path: Path, config: Mapping[str, Any] | None) -> Iterator[Part]:
    inputs = {path / name: digest for name, digest in (config or {}).get("inputs", {}).items()}
    if inputs:
        yield _part("inputs", {file: find_damage({file: digest}) for file, digest in inputs.items()})


def _part(name: str, damage: Mapping[Path, str | None]) -> Part:
    sizes = [file.lstat().st_size for file in damage if os.path.lexists(file)]
    return Part(name, len(damage), sum(sizes), tuple(filter(None, damage.values())))


def _restore_config(run: RunDirectory, spare: Any, notify: Callable[[str], None]) -> dict[str, Any] | None:
    state = "missing"
    if run.config.exists():
        try:
            return run.read_config()
        except Damaged:
            if spare is None:
                raise
            state = "damaged"
    elif spare is None:
        return None
    config = check_config(spare, run.config)
    write_atomically(run.config, json.dumps(config, indent=2).encode())
    notify(f"{run.config} was {state}; it is rebuilt from the checkpoint.")
    return config


def _restore_tables(path: Path, tables: Mapping[str, list[str]], notify: Callable[[str], None]) -> None:
    """Restore the tables whose rows up to the checkpoint have changed; later rows of such a table are lost."""
    for file in (path / name for name in (EVALUATIONS, TRAINING) if name in tables):
        content = as_bytes(tables[file.name])
        if not begins_with(_content(file), tables[file.name]):
            write_atomically(file, content)
            rows = max(0, len(tables[file.name]) - 1)
            notify(f"{file} was damaged or missing; its {rows} rows are restored from the checkpoint.")


def _content(file: Path) -> bytes:
    try:
        return read_bytes(file)
    except OSError:
        return b""


def _restore_replay(run: RunDirectory) -> str:
    """Make the newest checkpoint with intact arrays usable without its damaged rows; return what was done."""
    folder, paths = run.checkpoint, checkpoint.checkpoints(run.checkpoint)
    if not paths:
        return f"{run.path} has no checkpoint yet; the same command trains it from the start."
    usable = [path for path in reversed(paths) if checkpoint.has_intact_arrays(path)]
    if not usable:
        raise SmrlError(
            f"no checkpoint in {folder} can be repaired because their arrays are damaged: restore the files from a "
            f"copy, or move {run.path} out of the runs folder to train it again."
        )
    for path in usable:
        if find_damage(checkpoint.row_files(path, checkpoint.read_manifest(path))) is None:
            return f"checkpoint {path} is intact; the run continues from it bit for bit."
    path, settings = usable[0], flat(run.read_config()["settings"])
    manifest = checkpoint.read_manifest(path)
    files = checkpoint.row_files(path, manifest)
    try:
        envs = settings["envs"]
        added = max((checkpoint.shard_bounds(name)[1] for name in manifest["replay"]), default=0)
        added += 0 if manifest["tail"] is None else envs
        oldest = max(0, added - settings["capacity"])
        parts = [load_arrays(file) for file, digest in files.items() if find_damage({file: digest}) is None]
        kept = without_gaps(parts, envs, oldest, added) if parts else {"reward": np.zeros(0)}
    except (LookupError, TypeError, *checkpoint.DAMAGE) as error:  # intact files that hold something else
        raise SmrlError(f"the replay memory in {folder} is not that of this run ({in_words(error)}).") from error
    count, replay = len(kept["reward"]), dict[str, str]()
    with writing(folder):
        (folder / REPLAY).mkdir(exist_ok=True)
        if count:
            name = f"kept-{0:012d}-{count:012d}.npz"
            replay[name] = save_arrays(folder / REPLAY / name, kept)
            sync(folder / REPLAY)
        checkpoint.write_manifest(path, manifest | {"replay": replay, "tail": None})
        for other in paths:  # all are damaged, and their rows are numbered differently from now on
            if other != path:
                discard(other)
    return (
        f"{added - oldest - count:,} of the {added - oldest:,} transitions in the replay memory are lost; the run "
        f"continues from step {manifest['step']:,} without them, so its numbers will differ from those of an "
        "undisturbed run."
    )


def without_gaps(parts: list[Rows], envs: int, oldest: int, added: int) -> Rows:
    """Return what is left of the rows from oldest to added, renumbered from 0, for `Replay.restore`.

    The rows of all environments at one step are kept or dropped together, so that row i still belongs to environment
    i % envs. A row before a gap becomes the last of its episode, and is kept only if what was observed after it is
    known.
    """
    numbers = np.concatenate([part["start"] + np.arange(len(part["reward"])) for part in parts])
    fields = parts[0].keys() - {"start", "successor_rows", "successors"}
    rows = {name: np.concatenate([part[name] for part in parts]) for name in sorted(fields)}
    stored: dict[int, np.ndarray] = {}  # row → its successor, for rows whose successor is not the next row's
    for part in parts:
        stored |= zip(part["successor_rows"].tolist(), part["successors"], strict=True)
    place = {row: index for index, row in enumerate(numbers.tolist())}
    following = np.array([place.get(row + envs, -1) for row in numbers.tolist()], int)
    is_usable = (numbers >= oldest) & (np.isin(numbers, list(stored)) | (following >= 0))
    groups, group = np.unique(numbers // envs, return_inverse=True)
    kept = (np.bincount(group, is_usable, len(groups)) == envs)[group]
    before_gap = kept & ~rows["last"] & (numbers + envs < added) & ~((following >= 0) & kept[following])
    rows["last"] |= before_gap
    apart = np.flatnonzero((rows["last"] | (numbers + envs >= added))[kept])
    old = np.flatnonzero(kept)[apart].tolist()
    successors = [stored.get(int(numbers[index]), rows["obs"][following[index]]) for index in old]
    return {name: values[kept] for name, values in rows.items()} | {
        "start": np.array(0),
        "successor_rows": apart,
        "successors": np.array(successors, rows["obs"].dtype).reshape(-1, *rows["obs"].shape[1:]),
    }
