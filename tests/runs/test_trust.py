"""A downloaded run executes none of its code without consent."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smrl
from smrl.errors import SmrlError
from smrl.runs.config import checksum, named_code
from smrl.runs.paths import CONFIG

SHORT: dict[str, Any] = {"steps": 40, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "quiet": True}
TRAP = "from pathlib import Path\nPath('executed').touch()\n"


@pytest.fixture
def downloaded(in_tmp_path: Path) -> smrl.Run:
    """Train a run and make its config name a module in the working directory."""
    trained = smrl.train("ddpg", "Pendulum-v1", **SHORT, **SMALL, runs=in_tmp_path / "runs")
    file = trained.path / CONFIG
    config = json.loads(file.read_text())
    config["settings"]["env"] = "trap:Pendulum-v1"
    file.write_text(json.dumps(config | {"checksum": checksum(config)}))
    (in_tmp_path / "trap.py").write_text(TRAP)
    return smrl.load(trained.path)


def script(*words: object) -> tuple[int, str]:
    """Run the console script, which does not have the working directory on its path."""
    command = [str(Path(sys.executable).with_name("smrl")), *map(str, words)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return answer.returncode, answer.stdout + answer.stderr


def test_policy_needs_no_trust(downloaded: smrl.Run) -> None:
    assert downloaded.policy(np.zeros(3)).shape == (1,)
    assert not Path("executed").exists()


def test_environment_that_names_a_module_needs_trust(downloaded: smrl.Run) -> None:
    with pytest.raises(SmrlError, match=r"the environment trap:Pendulum-v1, which would run now: .*--trust"):
        smrl.evaluate(downloaded, 1)
    code, messages = script("evaluate", downloaded.path)
    assert code == 2
    assert "custom code" in messages
    assert "trap:Pendulum-v1" in messages
    assert not Path("executed").exists()
    code, messages = script("evaluate", downloaded.path, "--episodes", "1", "--env", "Pendulum-v1")
    assert code == 0, messages
    assert not Path("executed").exists(), "another id was typed"
    code, messages = script("evaluate", downloaded.path, "--episodes", "1", "--trust")
    assert code == 0, messages
    assert Path("executed").exists()


def test_algorithms_and_rules_need_trust(downloaded: smrl.Run) -> None:
    file = downloaded.path / CONFIG
    config = json.loads(file.read_text())
    for part, name in (("algorithm", "algorithm"), ("reuse", "reuse rule")):
        changed = config | {"settings": config["settings"] | {part: "trap:thing"}}
        file.write_text(json.dumps(changed | {"checksum": checksum(changed)}))
        with pytest.raises(SmrlError, match=f"the {name} trap:thing"):
            smrl.load(downloaded.path)
    assert not Path("executed").exists()


def test_file_named_like_an_optional_dependency_is_not_executed(downloaded: smrl.Run) -> None:
    for name in ("pybullet_data", "pybullet_envs_gymnasium", "ale_py", "shimmy", "wandb"):
        Path(f"{name}.py").write_text(TRAP)
    script("evaluate", downloaded.path, "--episodes", "1", "--env", "Pendulum-v1")
    script("list")
    assert not Path("executed").exists()


def test_named_code_ignores_ids_and_schedules() -> None:
    plain = {"env": "dmc/cheetah-run", "algorithm": "sac", "reuse": "10:300000,1"}
    assert not named_code(plain)
    assert not named_code(plain | {"env": "smrl.paper.tabular:smrl/maze-v0"}), "smrl itself is trusted"
    named = named_code({"env": "a.b:Arm-v0", "algorithm": "c:cem", "reuse": "d:rule"})
    assert named == {"environment": "a.b:Arm-v0", "algorithm": "c:cem", "reuse rule": "d:rule"}
