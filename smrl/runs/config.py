"""Check config.json, which records everything needed to repeat a run.

It holds the settings, the spec of the environment, the source of a custom environment, the number of threads, and facts
about the platform. The checksum covers what the numbers of the run depend on: settings, spec and threads.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smrl.errors import SmrlError

FORMAT = 4

# The fields of config.json, and of its parts, that are used without asking whether they are there.
_CONFIG = {
    **{"format": int, "settings": dict, "spec": dict, "env_source": str | None, "threads": int, "checksum": str},
    **{"versions": dict, "switches": dict, "cpu": str, "backend": str, "machine": str, "git_commit": str | None},
}
_SETTINGS = {"algorithm": str, "env": str, "reuse": str, "seed": int, "steps": int, "hyper": dict}
_SPEC = {"obs": dict, "action": dict}


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


def read_text(file: Path) -> str:
    """Return the text of a file of a run."""
    folder = file.parent
    try:
        return file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        what = f"is not a run: it has no {file.name}" if folder.exists() else "does not exist"
        raise SmrlError(f"{folder} {what}; give the folder of a run.") from None
    except OSError as error:
        raise SmrlError(f"{file} cannot be read ({error.strerror}); check its permissions.") from None
    except UnicodeDecodeError:
        raise Damaged(file, "it is not text") from None


def check_config(config: Any, file: Path) -> dict[str, Any]:
    """Return a config if it is complete and unchanged; ``file`` is named in error messages."""
    if not isinstance(config, dict):
        raise Damaged(file, "it holds no settings")
    if isinstance(config.get("format"), int) and config["format"] != FORMAT:
        raise other_version(file)
    for part, fields in ((None, _CONFIG), ("settings", _SETTINGS), ("spec", _SPEC)):
        values = config[part] if part else config
        for name, kind in fields.items():
            if name not in values:
                raise Damaged(file, f"it lacks {name!r}")
            if not isinstance(values[name], kind):
                raise Damaged(file, f"its {name} cannot be {values[name]!r}")
    if config["checksum"] != checksum(config):
        raise Damaged(file, "its settings, spec or threads are not those that were written")
    return config


def checksum(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what the numbers of a run depend on."""
    decisive = [config[name] for name in ("settings", "spec", "threads")]
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
