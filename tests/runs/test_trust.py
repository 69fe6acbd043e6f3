"""A downloaded run executes none of its code without consent."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import smrl
from smrl import plugins
from smrl.errors import SmrlError
from smrl.runs.config import checksum
from smrl.runs.doctor import examine
from smrl.runs.paths import CONFIG
from smrl.runs.trust import custom_code
from smrl.settings import make_settings

SHORT: dict[str, Any] = {"steps": 40, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "quiet": True}
TRAP = "from pathlib import Path\nPath('executed').touch()\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smrl.train("ddpg", "Pendulum-v1", **SHORT, **SMALL, runs=tmp_path_factory.mktemp("trained")).path


@pytest.fixture
def downloaded(trained: Path, in_tmp_path: Path) -> smrl.Run:
    """Copy a run whose config names a module in the working directory."""
    folder = Path(shutil.copytree(trained, in_tmp_path / "run"))
    change_settings(folder, env="trap:Pendulum-v1")
    (in_tmp_path / "trap.py").write_text(TRAP)
    return smrl.load(folder)


def change_settings(folder: Path, **settings: str) -> None:
    config = json.loads((folder / CONFIG).read_text())
    config["settings"] |= settings
    (folder / CONFIG).write_text(json.dumps(config | {"checksum": checksum(config)}))


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
    with pytest.raises(SmrlError, match=r"the environment 'trap:Pendulum-v1', which would run now: .*--trust"):
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
    for part, name in (("reuse", "reuse rule"), ("algorithm", "algorithm")):
        change_settings(downloaded.path, **{part: "trap:thing"})
        with pytest.raises(SmrlError, match=f"the {name} 'trap:thing'"):
            smrl.load(downloaded.path)
    assert not Path("executed").exists()


def test_file_named_like_an_optional_dependency_is_not_executed(downloaded: smrl.Run) -> None:
    for name in ("pybullet_data", "pybullet_envs_gymnasium", "ale_py", "shimmy", "wandb"):
        Path(f"{name}.py").write_text(TRAP)
    script("evaluate", downloaded.path, "--episodes", "1", "--env", "Pendulum-v1")
    script("list")
    assert not Path("executed").exists()


@pytest.mark.parametrize(
    "env",
    [
        *("smrl.machine:os.abort", "smrl.validation:np.test", "smrl.envs.make:importlib.import_module"),
        *("antigravity:x\n", "trap:x\nPendulum-v1", "trap:Pendulum-v1", ":Pendulum-v1", "trap:", "trap::x"),
        *("Pendulum-v1\n", " Pendulum-v1", "Pendulum-v2", "ALE/trap:Pong-v5", "dmc/trap:x", "trap:dmc/cheetah-run"),
        *("smrl.paper.tabular:smrl/maze-v0", "__main__:f", "", "trap", "trap.x", "dmc/../trap", "x\x00:y"),
    ],
)
def test_only_known_ids_are_made_without_trust(downloaded: smrl.Run, env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((plugins, "import_module"), (gymnasium, "make")):
        monkeypatch.setattr(module, name, lambda name, *rest, **options: pytest.fail(f"{name} was opened"))
    change_settings(downloaded.path, env=env)
    with pytest.raises(SmrlError):
        smrl.load(downloaded.path).make_env()
    assert "imports     the environment" in "\n".join(examine(downloaded.path).lines())


@pytest.mark.parametrize(
    "env",
    [
        *("Pendulum-v1", "Hopper-v4", "dmc/cheetah-run", "dmc-pixels/walker-walk", "smrl/Catch-v0"),
        *("PongNoFrameskip-v4", "ALE/Pong-v5", "AntMuJoCoEnv-v0", "HopperBulletEnv-v0"),
        *("dmc/ball-in-cup-catch", "dm_control/cheetah-run-v0"),
    ],
)
def test_known_ids_and_schedules_need_no_trust(env: str) -> None:
    for algorithm, reuse in (("sac", "1"), ("drqv2", "10:300000,1")):
        assert not custom_code({"env": env, "algorithm": algorithm, "reuse": reuse})


def test_algorithm_that_was_looked_up_still_needs_trust() -> None:
    for algorithm in ("math:pi", "builtins:dict"):
        with pytest.raises(SmrlError):
            make_settings(algorithm, "Pendulum-v1")
        code = custom_code({"env": "Pendulum-v1", "algorithm": algorithm, "reuse": "math:pi"})
        assert code == {"algorithm": algorithm, "reuse rule": "math:pi"}
