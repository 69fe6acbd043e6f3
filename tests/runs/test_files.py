"""Writing files so that they are on the disk."""

import os
from pathlib import Path

import pytest

from smrl.runs.atomic import sync


def test_a_folder_need_not_be_synced_where_it_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where a file must be opened for writing to be synced."""
    opened: list[Path] = []

    def windows_open(path: Path, flags: int) -> int:
        if path.is_dir() or not flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        opened.append(path)
        return real_open(path, flags)

    real_open = os.open
    monkeypatch.setattr(os, "open", windows_open)
    monkeypatch.delattr(os, "O_DIRECTORY")
    (tmp_path / "file").write_text("content")
    for path in (tmp_path, tmp_path / "file"):
        sync(path)
    assert opened == [tmp_path / "file"]
