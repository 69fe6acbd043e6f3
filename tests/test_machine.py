"""The cache directory: programs are loaded from it, so that no other user may write to it."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from smrl import machine


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file or folder belong to another user."""
    if os.getuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)


@pytest.fixture(autouse=True)
def _temporary_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir(mode=0o755)


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """XDG_CACHE_HOME, which does not exist yet."""
    folder = tmp_path / "home" / "some" / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def assert_is_temporary(problem: str) -> None:
    with pytest.warns(UserWarning, match=f"{problem}.*; smrl compiles into a temporary folder") as warned:
        folder = machine.cache_directory()
    assert len(warned) == 1
    assert folder.parent.name == "temporary"
    assert mode(folder) == 0o700
    assert machine.cache_directory() == folder, "with one message"


def test_cache_directory_is_private_whatever_the_umask(parent: Path) -> None:
    before = os.umask(0)
    try:
        folder = machine.cache_directory()
    finally:
        os.umask(before)
    assert folder == parent / "smrl"
    assert [mode(part) for part in (folder, parent, parent.parent)] == [0o700] * 3


def test_cache_directory_without_a_home(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert machine.cache_directory() == parent / "smrl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert_is_temporary("Could not determine home directory")


def test_readable_cache_directory_is_closed(parent: Path) -> None:
    (parent / "smrl").mkdir(parents=True)
    (parent / "smrl").chmod(0o755)
    assert mode(machine.cache_directory()) == 0o700


@pytest.mark.parametrize("part", ["smrl", ".", ".."])
@pytest.mark.parametrize("bits", [0o777, 0o775])
def test_cache_directory_that_others_can_write_to_is_not_used(part: str, bits: int, parent: Path) -> None:
    (parent / "smrl").mkdir(parents=True)
    (parent / part).resolve().chmod(bits)
    assert_is_temporary(r"can be written to by other users \(chmod go-w")


@pytest.mark.parametrize("part", ["smrl", "."])
def test_cache_directory_of_another_user_is_not_used(part: str, parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (parent / "smrl").mkdir(parents=True)
    give_away(parent / part, monkeypatch)
    assert_is_temporary("belongs to another user")


def test_link_to_a_folder_that_others_can_write_to_is_not_used(parent: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "open").mkdir()
    (tmp_path / "home" / "open").chmod(0o777)
    parent.parent.mkdir()
    parent.symlink_to(tmp_path / "home" / "open")
    assert_is_temporary("open can be written to")


def test_unwritable_cache_directory(parent: Path) -> None:
    parent.parent.mkdir()
    parent.write_text("not a folder")
    assert_is_temporary("Not a directory")


def test_folders_that_others_cannot_enter_or_that_are_sticky(tmp_path: Path) -> None:
    closed = tmp_path / "home" / "closed"
    (closed / "open").mkdir(parents=True)
    (closed / "open").chmod(0o777)
    closed.chmod(0o700)
    assert machine.exposure(closed / "open") is None
    closed.chmod(0o711)
    assert machine.exposure(closed / "open") is not None
    (closed / "open" / "own").mkdir()
    (closed / "open").chmod(0o1777)
    assert machine.exposure(closed / "open" / "own") is None


def test_foreign_file_in_a_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "home" / "file"
    file.touch()
    assert machine.exposure(file) is None
    give_away(file, monkeypatch)
    assert "belongs to another user" in (machine.exposure(file) or "")
