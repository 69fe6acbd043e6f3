"""The tables of a run: what is written stays, whatever happens to the file meanwhile."""

from pathlib import Path

import pytest

from smrl.runs.tables import CsvLog, lines_until


def test_rows_after_the_step_and_cut_rows_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    log = CsvLog(path, ("step", "a", "b"), continue_at=0)
    for step in (10, 20, 30):
        log.write({"step": step, "a": 'with "quotes", and more'})
    whole = path.read_bytes()
    with path.open("a") as file:
        file.write("40,cut")
    again = CsvLog(path, ("step", "a", "b"), continue_at=20)
    assert path.read_bytes() == whole[: whole.index(b"30,")]
    again.write({"step": 30, "a": 'with "quotes", and more'})
    assert path.read_bytes() == whole
    assert again.lines == log.lines == lines_until(path, 30)


@pytest.mark.parametrize("content", [b"", b"step\n", None])
def test_a_file_that_was_cut_or_deleted_is_written_anew(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "table.csv"
    log = CsvLog(path, ("step", "a"), continue_at=0)
    log.write({"step": 10, "a": 1.5})
    whole = path.read_bytes()
    path.unlink() if content is None else path.write_bytes(content)
    log.restore()
    assert path.read_bytes() == whole == b"step,a\n10,1.5\n"


def test_no_file_has_no_lines(tmp_path: Path) -> None:
    assert lines_until(tmp_path / "nowhere", 10) == []
    (tmp_path / "empty").write_text("")
    assert lines_until(tmp_path / "empty", 10) == [""]
