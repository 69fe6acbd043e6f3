"""Find what a user may not read: it must not be taken for damaged, because damaged files are replaced or deleted."""

import os
from pathlib import Path

from smrl.errors import SmrlError


def unreadable(folder: Path) -> list[Path]:
    """Return the folders and files below a folder that this user may not read; those of W&B do not count."""
    errors: list[OSError] = []
    files: list[Path] = []
    as_effective_user = os.access in os.supports_effective_ids
    for place, folders, names in os.walk(folder, onerror=errors.append):
        paths = (Path(place, name) for name in names)
        files += [path for path in paths if not os.access(path, os.R_OK, effective_ids=as_effective_user)]
        if "wandb" in folders:
            folders.remove("wandb")
    return [*(Path(error.filename) for error in errors), *files]


def refusal(path: Path) -> SmrlError:
    """Return the error about a file or folder that cannot be read."""
    return SmrlError(f"{path} cannot be read (Permission denied); check its permissions.")
