"""`make results` with programs in the place of smrl and Python that end as these might."""

import shutil
import subprocess
from pathlib import Path

import pytest

WRITE = "mkdir -p build && echo page > build/report.html"
MAKEFILE = Path(__file__).parents[1] / "Makefile"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize(
    ("code", "writes", "fails"),
    [
        pytest.param(0, True, False, id="all within their bands"),
        pytest.param(1, True, False, id="a run below its band"),
        pytest.param(1, False, True, id="a crash"),
        pytest.param(2, True, True, id="a run that cannot be read"),
    ],
)
def test_results_fail_for_errors_and_not_for_verdicts(code: int, writes: bool, fails: bool, tmp_path: Path) -> None:
    for name, last in (("smrl", f"exit {code}"), ("python", "echo the figures are drawn")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("\n".join(["#!/bin/sh", WRITE if writes else "", last, ""]))
        program.chmod(0o755)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "report.html").write_text("old\n")
    command = ["make", "-f", str(MAKEFILE), "results", f"BIN={tmp_path / 'bin'}", "-o", ".venv/package"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (answer.returncode != 0) is fails, answer.stderr
    assert ("the figures are drawn" in answer.stdout.splitlines()) is not fails
    assert (tmp_path / "results" / "report.html").read_text() == ("old\n" if fails else "page\n")
