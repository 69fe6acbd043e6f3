"""`smrl export` on the command line."""

import json
from pathlib import Path

import pytest
from commands import refused_here
from untrained_runs import SMALL, write_untrained

from smrl.cli.main import main
from smrl.runs.checkpoint import checkpoints, read_manifest, write_manifest


@pytest.fixture
def run(in_tmp_path: Path) -> Path:
    return write_untrained(in_tmp_path / "run", "ddpg", "Pendulum-v1", **SMALL).path


def test_export(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", str(run)])
    assert capsys.readouterr().out.startswith("policy: numpy, policy of step 7; largest difference ")
    assert Path("policy", "policy.py").exists()
    main(["export", str(run), "--best", "--to", "c", "-o", "new/place"])
    assert capsys.readouterr().out.startswith("new/place: c, policy of step 3; largest difference ")
    assert json.loads(Path("new", "place", "contract.json").read_text())["best"] is True


def test_bad_input(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, and nothing is written or lost."""
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    Path("notes").mkdir()
    assert "did you mean safetensors?" in refused_here(capsys, "export", run, "--to", "safetensor")
    assert "not an earlier export: choose another" in refused_here(capsys, "export", run, "-o", "notes")
    assert "not an earlier export" in refused_here(capsys, "export", run, "-o", run)
    assert "cannot write" in refused_here(capsys, "export", run, "-o", run / "config.json" / "policy")
    assert "cannot write" in refused_here(capsys, "export", run, "-o", "/proc/policy")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in Path().iterdir()) == ["notes", "run"]


def test_a_run_without_a_best_policy(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (saved,) = checkpoints(run / "checkpoint")
    manifest = read_manifest(saved)
    manifest["facts"]["best"] = None
    write_manifest(saved, manifest)
    assert "has kept no best policy; use the newest one" in refused_here(capsys, "export", run, "--best")
