"""MuJoCo's warnings, in separate processes because a handler is set once per process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

# A hinge whose model has a deprecated attribute, and which a step makes unstable on request.
PROGRAM = """
import sys
import gymnasium
import numpy as np
from broken_envs import Toy
from smrl.envs.make import make

XML = '''<mujoco><compiler settotalmass="10"/><worldbody><body><joint type="hinge"/><geom size="1"/></body></worldbody>
</mujoco>'''

class Hinge(Toy):
    def __init__(self, unstable=False):
        import mujoco

        super().__init__()
        self.mujoco, self.unstable = mujoco, unstable
        self.model = mujoco.MjModel.from_xml_string(XML)
        self.data = mujoco.MjData(self.model)

    def reset(self, *, seed=None, options=None):
        self.mujoco.mj_resetData(self.model, self.data)
        return super().reset(seed=seed)

    def step(self, action):
        if self.unstable:
            self.data.qvel[0] = 1e30
        self.mujoco.mj_step(self.model, self.data)
        return super().step(action)

gymnasium.register("Hinge-v0", entry_point=Hinge)

def episodes(env, count=3):
    environment = make(env)
    for seed in range(count):
        environment.reset(seed)
        for _ in range(3):
            environment.step(np.zeros(environment.spec.action.size, np.float32))
"""
UNSTABLE = "MuJoCo: Nan, Inf or huge value in QVEL at DOF 0. The simulation is unstable. Time = 0.0000."


def messages(code: str, folder: Path, *options: str) -> str:
    """Return what a program writes to standard error, and require that it creates no file."""
    done = subprocess.run(
        [sys.executable, *options, "-c", PROGRAM + code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert list(folder.iterdir()) == []
    return done.stderr


@pytest.mark.parametrize(
    "env",
    ["Hinge", "'Hinge-v0'", "'__main__:Hinge'", "lambda: gymnasium.make('HalfCheetah-v5')", "'HalfCheetah-v4'"],
)
def test_deprecated_models_write_no_file(env: str, tmp_path: Path) -> None:
    assert messages(f"episodes({env})", tmp_path) == ""


@pytest.mark.parametrize("env", ["lambda: Hinge(unstable=True)", "lambda: gymnasium.make('Hinge-v0', unstable=True)"])
def test_unstable_simulations_are_logged_once(env: str, tmp_path: Path) -> None:
    assert messages(f"episodes({env})", tmp_path, "-W", "error") == f"{UNSTABLE} (reported once per process)\n"


def test_deprecations_are_logged_as_information(tmp_path: Path) -> None:
    logged = messages("import logging\nlogging.basicConfig(level='INFO')\nepisodes(Hinge)\nepisodes(Hinge)", tmp_path)
    ours = [line for line in logged.splitlines() if "smrl" in line]  # PyOpenGL logs as well if MuJoCo uses EGL
    assert [line.count("MuJoCo: compiler attribute 'settotalmass' is deprecated") for line in ours] == [1], logged


def test_failing_log_handler_is_ignored(tmp_path: Path) -> None:
    code = """
import logging
class Failing(logging.Handler):
    def emit(self, record):
        raise ValueError
logging.getLogger().addHandler(Failing())
episodes(lambda: Hinge(unstable=True))
"""
    assert messages(code, tmp_path) == ""


def test_users_handler_is_kept(tmp_path: Path) -> None:
    code = """
import mujoco
mujoco.set_mju_user_warning(lambda message: print(message[:20], file=sys.stderr))
episodes(lambda: Hinge(unstable=True), count=2)
"""
    assert messages(code, tmp_path) == "compiler attribute '\nNan, Inf or huge val\nNan, Inf or huge val\n"


def test_dm_control_keeps_its_handler(tmp_path: Path) -> None:
    pytest.importorskip("dm_control", reason="needs the extra dmc")
    assert messages("episodes('HalfCheetah-v4')\nepisodes('dmc/cheetah-run')", tmp_path) == ""
    logged = messages("episodes('dmc/cheetah-run')\nepisodes(lambda: Hinge(unstable=True))", tmp_path)
    assert "The simulation is unstable" in logged
