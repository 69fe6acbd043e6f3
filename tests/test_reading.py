"""Files of somebody else's run: links, FIFOs, devices and files that claim to be huge are refused at once."""

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy
from written_runs import write_run

from smrl import reading
from smrl.errors import SmrlError
from smrl.reading import load_arrays, parse_json, read_bytes
from smrl.report.report import make_report
from smrl.runs.atomic import save_arrays
from smrl.runs.checkpoint import MANIFEST, read_manifest
from smrl.runs.doctor import examine
from smrl.runs.paths import CHECKPOINT, CONFIG, EVALUATIONS, TRAINING, RunDirectory
from smrl.runs.records import read_run


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def link_to_a_copy(file: Path) -> None:
    copy = file.rename(file.with_name("copy"))
    file.symlink_to(copy)


def link_to_zeros(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def sparse(file: Path) -> None:
    os.truncate(file, 2**40)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("harm", [fifo, link_to_a_copy, link_to_zeros, sparse, folder])
@pytest.mark.parametrize("name", [CONFIG, EVALUATIONS, TRAINING])
def test_only_small_regular_files_are_read(harm: Callable[[Path], None], name: str, tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", [(1000, 1.0)], seconds=1.0)
    (path / CHECKPOINT).mkdir()
    assert examine(path).is_intact
    harm(path / name)
    assert not examine(path).is_intact
    if name == TRAINING:
        assert np.isnan(make_report([tmp_path]).runs[0].hours).all(), "a report without hours is better than none"
    else:
        with pytest.raises(SmrlError, match=r"a link|not a regular file|more than 33,554,432 bytes"):
            RunDirectory(path).read_config() if name == CONFIG else read_run(path)
        with pytest.raises(SmrlError, match="no run can be reported on"):
            make_report([tmp_path])


def test_manifest_is_read_as_other_files(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).symlink_to("/dev/zero")
    with pytest.raises(OSError, match="it is a link"):
        read_manifest(tmp_path)


def test_run_reached_through_a_link_is_read(tmp_path: Path) -> None:
    path = write_run(tmp_path / "elsewhere" / "run", [(1000, 1.0)])
    (tmp_path / "runs").symlink_to(path.parent)
    (tmp_path / "mine").symlink_to(path)
    for place in (tmp_path / "runs" / "run", tmp_path / "mine"):
        assert read_run(place).steps.tolist() == [1000]


def test_table_of_too_many_rows_is_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", [(1000, 1.0)])
    (path / EVALUATIONS).write_text("step,episodes,mean\n" + "1,1,1\n" * 300_000)
    with pytest.raises(SmrlError, match="it has more than 200,000 rows"):
        read_run(path)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "1" * 5000, '"\\ud800"', '{"\\udfff": 1}', '"\xff"'])
def test_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it is not JSON"):
        parse_json(text.encode("latin-1"))
    assert parse_json(b'"\\ud83d\\ude00"') == "\U0001f600"


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return content.getvalue()


def array_bytes(shape: tuple[int, ...], data: bytes, dtype: Any = "<f4") -> bytes:
    header = io.BytesIO()
    npy.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    return header.getvalue() + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        array_bytes((3,), bytes(12)),
        archive({"x.npy": array_bytes((10**12,), bytes(12))}),
        archive({"x.npy": array_bytes((2,), bytes(12))}),
        archive({"x.npy": array_bytes((-1,), bytes(12))}),
        archive({"x.npy": array_bytes((2**22,), bytes(2**24))}, zipfile.ZIP_DEFLATED),
        archive({"x.npy": array_bytes((3,), bytes(24), "|O")}),
        archive({"x.txt": b"text"}),
        archive({"x.npy": b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535}),
        archive({"x.npy": b"\x93NUMPY\x09\x00"}),
    ],
)
def test_archives_that_claim_something_else_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "arrays.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"arrays.npz holds no arrays"):
        load_arrays(tmp_path / "arrays.npz")


def test_arrays_are_read_as_they_were_saved(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "['b'][0]": np.array(True), "c": np.zeros((0, 3), int)}
    save_arrays(tmp_path / "arrays.npz", arrays)
    for name, array in load_arrays(tmp_path / "arrays.npz").items():
        assert array.dtype == arrays[name].dtype
        assert array.flags.writeable
        np.testing.assert_array_equal(array, arrays[name])


def test_reader_refuses_files_above_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST_TEXT", 10)
    (tmp_path / "file").write_bytes(bytes(10))
    assert read_bytes(tmp_path / "file") == bytes(10)
    (tmp_path / "file").write_bytes(bytes(11))
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_bytes(tmp_path / "file")
