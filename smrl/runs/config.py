"""Check config.json, which records everything needed to repeat a run.

It holds the settings, the spec of the environment, the source of a custom environment, the number of threads, facts
about the platform, and the checksums of the files with data or networks that the run started from. Its own checksum
covers what the numbers of the run depend on: settings, spec, threads and these files.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
from msgspec import Meta

from smrl.errors import SmrlError
from smrl.reading import read_bytes
from smrl.validation import Count, Few, Seed

FORMAT = 4
MAX_ROWS = 200_000  # of a table; a run makes at most 50,000 evaluations

Text = Annotated[str, Meta(max_length=10_000)]
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Scalar = Integer | float | Text | bool | None
Value = Scalar | list[Scalar | list[Scalar]] | dict[Text, Scalar | list[Scalar]]


class _Settings(TypedDict):
    """The settings that are used without asking whether they are there; `smrl.settings` validates all of them."""

    algorithm: Text
    env: Text
    reuse: Text
    seed: Seed
    steps: Count
    hyper: dict[Text, Value]


class _Spec(TypedDict):
    """The parts of a spec, which `smrl.types.Spec.from_json` validates."""

    obs: dict[str, Any]
    action: dict[str, Any]


class _Config(TypedDict):
    """The content of config.json."""

    format: int
    settings: _Settings
    spec: _Spec
    env_source: Text | None
    threads: Few
    checksum: Text
    versions: dict[Text, Text | None]
    switches: dict[Text, Text | None]
    cpu: Text
    backend: Text
    machine: Text
    git_commit: Text | None
    inputs: NotRequired[dict[Literal["data.npz", "start.npz"], Text]]


class Damaged(SmrlError):
    """A file of a run cannot be used; the message never advises to delete what was trained."""

    def __init__(self, file: Path, reason: str) -> None:
        run = file.parent
        super().__init__(
            f"{file} is damaged: {reason}; smrl doctor {run} --repair restores it from the run's checkpoint; if there "
            f"is none, move {run} out of the runs folder to train it again."
        )


def other_version(what: Path | str) -> SmrlError:
    """Return the error for a file in a format that this version of smrl does not read."""
    return SmrlError(
        f"{what} was written by another version of smrl; use that version, or move the run away to train it again."
    )


def read_file(file: Path) -> bytes:
    """Return the content of a small file of a run."""
    folder = file.parent
    try:
        return read_bytes(file)
    except (FileNotFoundError, NotADirectoryError):
        what = f"is not a run: it has no {file.name}" if folder.exists() else "does not exist"
        raise SmrlError(f"{folder} {what}; give the folder of a run.") from None
    except OSError as error:
        raise SmrlError(f"{file} cannot be read: {error.strerror}.") from None


def read_rows(file: Path) -> list[str]:
    """Return the lines of a table of a run, without a last one that a kill has cut."""
    content = read_file(file).rpartition(b"\n")[0]
    if content.count(b"\n") > MAX_ROWS:
        raise Damaged(file, f"it has more than {MAX_ROWS:,} rows")
    return content.decode(errors="replace").split("\n")


def check_config(config: Any, file: Path) -> dict[str, Any]:
    """Return a config if it is complete and unchanged; ``file`` is named in error messages."""
    if not isinstance(config, dict):
        raise Damaged(file, "it holds no settings")
    if isinstance(config.get("format"), int) and config["format"] != FORMAT:
        raise other_version(file)
    try:
        msgspec.convert(config, _Config)
        rest = {name: value for name, value in config["settings"].items() if name != "hyper"}
        msgspec.convert(rest, dict[Text, Value])
    except msgspec.ValidationError as error:
        raise Damaged(file, str(error)) from None
    if config["checksum"] != checksum(config):
        raise Damaged(file, "its settings, spec, threads or inputs are not those that were written")
    return config


def checksum(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what the numbers of a run depend on."""
    decisive = [
        config[name] for name in ("settings", "spec", "threads", "inputs") if name != "inputs" or name in config
    ]
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
