"""`smrl export RUN --to folder`: a small folder that acts without smrl and is a run for smrl, but for its memory."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import refused_here
from untrained_runs import SMALL, write_untrained

import smrl
from smrl.cli.main import main
from smrl.runs import doctor

OBS = [0.5, 0.8, -1.0]
ROWS = "step,episodes,mean,sd,min,max\n5,2,-900.0,1.0,-901.0,-899.0\n7,2,-1100.0,1.0,-1101.0,-1099.0\n"


@pytest.fixture
def run(in_tmp_path: Path) -> smrl.Run:
    """A run of step 7 of Pendulum in the folder that its settings give it."""
    made = write_untrained(in_tmp_path / "new", "ddpg", "Pendulum-v1", **SMALL, tau=0.02, steps=20, warmup=5)
    place = in_tmp_path / "runs" / "Pendulum-v1" / "ddpg" / "seed0"
    place.parent.mkdir(parents=True)
    shutil.move(made.path, place)
    (place / "evaluations.csv").write_text(ROWS)
    return smrl.load(place)


def test_a_shared_folder(run: smrl.Run, capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", str(run.path), "--to", "folder", "-o", "shared"])
    assert "largest difference" in capsys.readouterr().out
    names = sorted(str(path.relative_to("shared")) for path in Path("shared").rglob("*") if path.is_file())
    saved = "checkpoint/000000000007"
    assert names == [
        *("README.md", f"{saved}/arrays.npz", f"{saved}/manifest.json", "config.json", "contract.json", "curve.png"),
        *("evaluations.csv", "policy.npz", "policy.py"),
    ]
    card = Path("shared/README.md").read_text()
    assert card.startswith(
        '---\nlibrary_name: smrl\ntags: ["reinforcement-learning", "smrl", "ddpg", "Pendulum-v1"]\n---\n'
    )
    for line in (
        "## DDPG on Pendulum-v1",
        "| tau | 0.02 |",
        "| best return | −900 (step 5) |",
        "![learning curve](curve.png)",
    ):
        assert line in card
    loaded = smrl.load("shared")
    np.testing.assert_array_equal(loaded.policy(OBS), run.policy(OBS))
    np.testing.assert_array_equal(loaded.best_policy(OBS), run.best_policy(OBS))
    assert loaded.record.returns.tolist() == [-900, -1100]
    shutil.move("shared", "moved")
    code = f"from policy import Policy; print(Policy.load('.')({OBS})[0])"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd="moved", capture_output=True, text=True, check=True, env={}
    )
    assert float(answer.stdout) == pytest.approx(run.policy(OBS)[0], abs=1e-5)

    main(["export", "moved", "--to", "folder", "--best", "-o", "again"])  # a shared run is a run
    assert json.loads(Path("again/contract.json").read_text())["step"] == 3
    assert "of the best evaluation, of step 3" in Path("again/README.md").read_text()
    main(["export", "moved", "--to", "folder", "-o", "again"])
    assert json.loads(Path("again/contract.json").read_text())["step"] == 7
    run.export("by-python", to="folder", best=True)
    np.testing.assert_array_equal(smrl.load("by-python").policy(OBS), run.policy(OBS))
    assert "of the best evaluation, of step 3" in Path("by-python/README.md").read_text()
    with pytest.raises(smrl.SmrlError, match=r"no target 'foldr' among .*, folder; did you mean folder\?"):
        run.export("by-python", to="foldr")
    assert "not an earlier export" in refused_here(capsys, "export", "moved", "--to", "folder", "-o", run.path)
    (run.path / "evaluations.csv").unlink()
    assert "holds no evaluation yet" in refused_here(capsys, "export", run.path, "--to", "folder", "-o", "third")
    assert not Path("third").exists()


def test_a_run_without_its_replay_memory(run: smrl.Run, capsys: pytest.CaptureFixture[str]) -> None:
    before = doctor.examine(run.path)
    assert before.is_intact
    assert before.has_memory
    (rows,) = (run.path / "checkpoint" / "replay").iterdir()
    tail = run.path / "checkpoint" / "000000000007" / "tail.npz"
    rows.unlink()
    assert not doctor.examine(run.path).is_intact  # a part is missing: that is damage
    tail.unlink()
    found = doctor.examine(run.path)
    assert found.is_intact
    assert not found.has_memory
    assert "  state       intact, without its replay memory: it can act, but not be continued" in found.lines()
    assert "replay memory  " not in "\n".join(found.lines())
    main(["evaluate", str(run.path), "--episodes", "1"])
    assert "return" in capsys.readouterr().out
    settings = [
        "--actor-hidden",
        "16,12",
        "--critic-hidden",
        "16,12",
        "--tau",
        "0.02",
        "--steps",
        "20",
        "--warmup",
        "5",
    ]
    message = refused_here(capsys, "train", "ddpg", "Pendulum-v1", *settings, "--quiet")
    assert "is a run without its replay memory: it can act, but not be continued. Start a new run" in message
    assert doctor.examine(run.path).is_intact
