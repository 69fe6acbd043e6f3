"""Read the files of a run, which may be somebody else's: regular files only, below a size, and never through a link.

A link could lead to any file of the reader, a FIFO or a device never ends. Functions raise OSError for a file that is
not read, and ValueError for one that does not hold what it should; nothing is allocated for what it only claims.
"""

import errno
import io
import json
import math
import os
import re
import stat
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from smrl.errors import SmrlError
from smrl.plugins import in_words
from smrl.validation import parse_number

LARGEST_TEXT = 2**25  # bytes of config.json, a manifest or a table


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading."""
    # O_NONBLOCK opens a FIFO without waiting for a writer, so that it can be refused.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link", str(path)) from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path) -> bytes:
    """Return the content of a small file."""
    with open_regular(path) as file:
        content = file.read(LARGEST_TEXT + 1)
    if len(content) > LARGEST_TEXT:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST_TEXT:,} bytes", str(path))
    return content


def parse_json(content: bytes) -> Any:
    """Return what a JSON text holds."""
    try:
        text = content.decode()
        value = json.loads(text)
        if re.search(r"\\u[dD][89a-fA-F]", text):  # half of a pair of code units, which no file or terminal can hold
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not JSON") from error
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file that the user names; raise SmrlError if it cannot be read."""
    try:
        return tomllib.loads(read_bytes(Path(os.path.realpath(path))).decode(), parse_float=parse_number)
    except UnicodeDecodeError:
        raise SmrlError(f"{path} is not UTF-8 text; save it in this encoding.") from None
    except (ValueError, RecursionError) as error:  # of a number with 5,000 digits, of 5,000 brackets
        raise SmrlError(f"{path} cannot be read as TOML: {error}; correct it there.") from None
    except OSError as error:
        raise SmrlError(f"{path} cannot be read ({error.strerror}); correct its name.") from None


def load_arrays(path: Path, largest: int | None = None) -> dict[str, np.ndarray]:
    """Read what `smrl.runs.atomic.save_arrays` wrote: arrays of together at most ``largest`` bytes.

    By default that is the size of the file, so arrays that are compressed are refused.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size if largest is None else largest
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if sum(member.file_size for member in members) > size:
                    raise ValueError(f"its arrays have more than {size:,} bytes")
                return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}
        except OSError:
            raise
        except Exception as error:  # a damaged archive can raise nearly anything
            raise ValueError(f"{path.name} holds no arrays ({in_words(error)})") from error


def unreadable(folder: Path) -> list[Path]:
    """Return the folders and files below a folder that this user may not read; those of W&B do not count.

    They must not be taken for damaged, because damaged files are replaced or deleted.
    """
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


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as file:
        version = npy.read_magic(file)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read_header(file)
        if math.prod(shape) * dtype.itemsize != member.file_size - file.tell():
            raise ValueError(f"{member.filename} does not have the size of its array")
        file.seek(0)
        return npy.read_array(file, allow_pickle=False)
