"""Files that the user may not read: one message, and they are not taken for damaged ones, which would be deleted."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import refused_here

from smrl.cli.main import main
from smrl.reading import unreadable

NOBODY = 65534
SMALL = ("--actor-hidden", "8", "--critic-hidden", "8", "--batch-size", "8", "--reuse", "1", "--quiet")
TRAIN = ("train", "ddpg", "Pendulum-v1", "--warmup", "20", "--eval-every", "20", "--eval-episodes", "1", *SMALL)


@contextmanager
def as_another_user() -> Iterator[None]:
    """Nobody's rights instead of those of root, who may read everything; other users cannot change theirs."""
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
        yield
    finally:
        if is_root:
            os.seteuid(0)
            os.setegid(0)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that all users can reach, unlike those of pytest, with a run that has two checkpoints."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        for steps in ("60", "80"):
            main([*TRAIN, "--steps", steps, "--runs", f"{name}/original"])
        (run,) = Path(name).glob("original/*/*/seed0")
        main(["doctor", str(run)])  # imports what root may read and another user may not
        main(["report", str(run), "-o", f"{name}/report.csv"])
        yield Path(name)


@pytest.fixture
def run(folder: Path) -> Iterator[Path]:
    """A copy of the run that belongs to the other user."""
    runs = folder / "runs"
    shutil.copytree(folder / "original", runs)
    if os.geteuid() == 0:
        for path in (folder, runs, *runs.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    (found,) = runs.glob("*/*/seed0")
    yield found
    for path in (found.parent, *found.parent.rglob("*"), *found.rglob("*")):
        path.chmod(0o700)
    shutil.rmtree(runs)


def message(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return the error with which a command of the other user is refused."""
    with as_another_user():
        return refused_here(capsys, *words)


NEWEST = "checkpoint/000000000080"
HIDDEN = (
    *(".", "config.json", "evaluations.csv", "checkpoint", "checkpoint/replay", NEWEST),
    *(f"{NEWEST}/{name}" for name in ("arrays.npz", "manifest.json", "tail.npz")),
)


@pytest.mark.parametrize("name", HIDDEN)
def test_training_and_repair_refuse_what_they_cannot_read(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is deleted: with its permissions back, the run is as it was."""
    path = run / name
    mode = path.stat().st_mode
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    path.chmod(0)
    for words in ([*TRAIN, "--steps", 100, "--runs", run.parents[2]], ["doctor", run, "--repair"]):
        errors = message(capsys, *words)
        assert str(path) in errors
        assert "Permission denied" in errors
    path.chmod(mode)
    assert not unreadable(run)
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("name", [".", "config.json", "checkpoint"])
def test_commands_that_only_read(name: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / name).chmod(0)
    assert "Permission denied" in message(capsys, "evaluate", run, "--episodes", 1)


def test_a_run_without_readable_checkpoints(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arrays in run.rglob("arrays.npz"):
        arrays.chmod(0)
    assert "arrays.npz cannot be read (Permission denied)" in message(capsys, "evaluate", run)


def test_a_report_names_runs_that_it_cannot_read(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run, run.with_name("seed1"))
    run.chmod(0)
    (run.with_name("seed1") / "checkpoint").chmod(0)
    with as_another_user():
        main(["report", str(run.parent), "-o", str(run.parents[2] / "report.csv")])
    assert capsys.readouterr().err == f"smrl: {run} cannot be read (Permission denied); check its permissions.\n"


def test_unreadable(run: Path) -> None:
    (run / "training.csv").chmod(0)
    (run / "tensorboard").chmod(0)
    with as_another_user():
        assert set(unreadable(run)) == {run / "training.csv", run / "tensorboard"}
