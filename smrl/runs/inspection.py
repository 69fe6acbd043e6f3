"""What a run's folder holds, whether it is whole, and what code it names; nothing that the run names is imported."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smrl.algorithms import registry
from smrl.errors import SmrlError, require
from smrl.runs import manifests
from smrl.runs.atomic import links
from smrl.runs.config import CONFIG, read_config, upgraded
from smrl.runs.identity import ALWAYS_SHOWN, flat, identity, label, words
from smrl.runs.tables import TABLES, as_bytes
from smrl.runs.trust import named_code
from smrl.settings import Settings, names

# Of the settings that all algorithms have.
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Settings) if field.name != "hyper"}


@dataclass(frozen=True)
class Part:
    """The files of one kind."""

    name: str
    files: int
    size: int  # bytes on the disk
    damage: tuple[str, ...] = ()  # what is wrong, one for each file that is


@dataclass(frozen=True)
class Report:
    """What a run's folder says of itself; None where nothing readable says it."""

    path: Path
    config: dict[str, Any] | None  # of config.json or, where that is damaged, of the checkpoint
    different: dict[str, Any]  # the settings that are not the defaults
    code: dict[str, str]  # what would be imported besides smrl, by its part, as module:name
    step: int | None  # of the newest checkpoint that has a manifest
    parts: tuple[Part, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every file is there and as it was written."""
        return not any(part.damage for part in self.parts)

    def lines(self) -> list[str]:
        """The report for people, safe to print whatever the run's files hold."""
        made = ["".join(sign if sign.isprintable() else "�" for sign in line) for line in self._lines()]
        return [line.rstrip() for line in made]

    def _lines(self) -> Iterator[str]:
        yield str(self.path)
        if self.config:
            settings = flat(self.config["settings"])
            yield f"  run         {label(settings, [])}, {settings['env']}, seed {settings['seed']}"
            changed = ", ".join(f"{name} {words(value)}" for name, value in self.different.items())
            yield f"  settings    {changed or 'the defaults'}"
            done = "no checkpoint yet" if self.step is None else f"{self.step:,}"
            yield f"  steps       {done} of {settings['steps']:,}"
            yield f"  format      {self.config['format']}"
            yield f"  versions    {', '.join(f'{name} {number}' for name, number in self.config['versions'].items())}"
            yield f"  processor   {self.config['cpu'] or 'unknown'}, {self.config['threads']} thread(s)"
        code = ", ".join(f"the {part} {name}" for part, name in self.code.items())
        yield f"  imports     {code or 'nothing but smrl' if self.config else 'unknown'}"
        yield f"  state       {'whole' if self.is_whole else f'damaged; smrl doctor {self.path} --repair'}"
        for part in self.parts:
            size = f"{part.files:,} file{'' if part.files == 1 else 's'}, {_in_bytes(part.size)}"
            yield f"  {part.name:<17} {size:<20} {'; '.join(part.damage) or 'whole'}"


def inspect(path: Path) -> Report:
    """Look at a run's folder and check all of its files."""
    require(
        any((path / name).exists() for name in (CONFIG, manifests.FOLDER)),
        f"{path} is not a run: it has neither {CONFIG} nor a checkpoint; give the folder of a run.",
    )
    bodies = {place: _body(place) for place in manifests.places(path / manifests.FOLDER)}
    newest = next((body for body in reversed(bodies.values()) if not isinstance(body, str)), None)
    facts = newest["facts"] if newest else {}
    config, reason = _config(path, facts.get("config"))
    settings = config["settings"] if config else {}
    parts = [_part(CONFIG, [path / CONFIG], lambda file: reason), *_tables(path, facts.get("tables", {}))]
    return Report(
        path=path,
        config=config,
        different=_different(settings) if settings else {},
        code=named_code(settings) if settings else {},
        step=newest["step"] if newest else None,
        parts=(*parts, *_checkpoints(bodies), _rest(path)),
    )


def _body(place: Path) -> manifests.Body | str:
    """The manifest of a checkpoint, or what is wrong with it."""
    try:
        return manifests.read(place)
    except (SmrlError, *manifests.DAMAGE) as error:
        return f"{place.name}: {error}"


def _config(path: Path, spare: dict[str, Any] | None) -> tuple[dict[str, Any] | None, str | None]:
    """The config of config.json or else of the checkpoint, and what is wrong with the file."""
    try:
        return read_config(path), None
    except SmrlError as error:
        reason = str(error).partition(";")[0].removeprefix(f"{path / CONFIG} ")
    try:
        return (upgraded(spare, path / CONFIG) if spare else None), reason
    except SmrlError:
        return None, reason


def _different(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not the defaults; of an algorithm that is not smrl's own, all hyperparameters.

    Its defaults could only be known by importing it.
    """
    algorithm = settings["algorithm"]
    is_known = algorithm in registry.names()  # looking up another one would register it
    is_own = is_known and registry.find(algorithm).source == f"smrl.algorithms.{algorithm}:{algorithm}"
    usual = flat(names(algorithm)) if is_own else _DEFAULTS
    mine = {name: value for name, value in identity(settings).items() if name not in ALWAYS_SHOWN}
    return {name: value for name, value in mine.items() if name not in usual or value != usual[name]}


def _part(name: str, files: Iterable[Path], check: Callable[[Path], str | None]) -> Part:
    found = list(files)
    return Part(name, len(found), sum(map(_size, found)), tuple(filter(None, map(check, found))))


def _tables(path: Path, tables: Mapping[str, list[str]]) -> Iterator[Part]:
    def check(file: Path) -> str | None:
        try:
            is_whole = file.read_bytes().startswith(as_bytes(tables.get(file.name, [])))
        except OSError as error:
            return None if file.name not in tables else error.strerror
        return None if is_whole else "rows are not those that the checkpoint has"

    for file in (path / name for name in TABLES):
        if file.exists() or tables.get(file.name):
            yield _part(file.name, [file], check)


def _checkpoints(bodies: Mapping[Path, manifests.Body | str]) -> Iterator[Part]:
    """Manifests, arrays and rows of all checkpoints."""
    reasons = {place: body if isinstance(body, str) else None for place, body in bodies.items()}
    yield _part("manifests", (place / "manifest.json" for place in bodies), lambda file: reasons[file.parent])
    whole = {place: body for place, body in bodies.items() if not isinstance(body, str)}
    digests = {place / "arrays.npz": str(body["arrays"]) for place, body in whole.items()}
    yield _part("arrays", digests, lambda file: manifests.damage(file, digests[file]))
    rows = {file: digest for place, body in whole.items() for file, digest in manifests.row_files(place, body).items()}
    yield _part("replay memory", rows, lambda file: manifests.damage(file, rows[file]))


def _rest(path: Path) -> Part:
    """The whole folder; links in it are refused when the run is trained."""
    files = [Path(place, name) for place, _, found in os.walk(path) for name in found]
    damage = tuple(f"{link.relative_to(path)} is a link" for link in links(path))
    return Part("all together", len(files), sum(map(_size, files)), damage)


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:
        return 0


def _in_bytes(size: int) -> str:
    """A size for people.

    >>> _in_bytes(999), _in_bytes(12_345_678)
    ('999 B', '12.3 MB')
    """
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"
