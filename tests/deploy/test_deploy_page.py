"""The commands and programs of docs/deploy.md."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from untrained_runs import SMALL, write_untrained

import smrl
from smrl.cli.main import main
from smrl.deploy.export import TARGETS

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
COMMANDS = re.findall(r"^((?:smrl|cc) .*)$", PAGE, re.MULTILINE)
SHORT = "--steps 30 --warmup 20 --eval-every 30 --eval-episodes 1 --batch-size 8 --actor-hidden 16 --critic-hidden 16"


def block(language: str, word: str) -> str:
    """Return the code block of a language with this word."""
    (found,) = (code for code in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if word in code)
    return str(found)


def train(command: str, place: Path) -> smrl.Run:
    """Train for a few steps and move the run to where it would be without the flags that make it short."""
    main([*shlex.split(command)[1:], *shlex.split(SHORT), "--quiet"])
    (made,) = Path.cwd().glob("runs/*/*/seed0")
    place.parent.mkdir()
    shutil.move(made, place)
    return smrl.load(place)


@pytest.mark.parametrize("is_trained", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_page(is_trained: bool, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training, *exports, compiling = COMMANDS
    assert len(exports) == 4
    place = Path(shlex.split(exports[0])[2])
    run = train(training, place) if is_trained else write_untrained(place, "sac", "Pendulum-v1", **SMALL)
    for command in exports:
        main(shlex.split(command)[1:])
        assert re.search(r"largest difference \d\.\de-\d\d on 1,000 observations \(30 from", capsys.readouterr().out)
    exec(block("python", "run.export"), {"run": run})
    assert f"numpy, policy of step {run.policy.step}; largest difference" in capsys.readouterr().out

    obs = [0.5, 0.8, -1.0]
    scope: dict[str, np.ndarray] = {}
    exec(block("python", "onnxruntime"), scope)
    np.testing.assert_allclose(scope["actions"], [run.best_policy(obs)], atol=1e-5)

    policy = block("python", "from policy import") + "print(action[0])"
    answer = subprocess.run(
        [sys.executable, "-c", policy], cwd="pendulum", capture_output=True, text=True, check=True, env={}
    )
    assert float(answer.stdout) == pytest.approx(run.policy(obs)[0], abs=1e-5)

    (in_tmp_path / "main.c").write_text(block("c", "int main"))
    subprocess.run(shlex.split(compiling), check=True)
    answer = subprocess.run(["./main"], capture_output=True, text=True, check=True)
    assert float(answer.stdout) == pytest.approx(run.policy(obs)[0], abs=1e-5)

    for name in ("pendulum", "pendulum-onnx", "pendulum-c"):
        contract = json.loads(Path(name, "contract.json").read_text())
        assert [key for key in contract if f"`{key}`" not in PAGE] == [], "the page names every key"
    assert re.findall(r"^\| `(\w+)` \| `policy", PAGE, re.MULTILINE) == list(TARGETS)
