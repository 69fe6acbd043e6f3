import importlib.util
import re
import subprocess
import sys
from typing import Any

import pytest

from smrl.envs.catalogue import FAMILIES, families, ids
from smrl.envs.make import make
from smrl.errors import SmrlError
from smrl.types import Continuous

HEAVY = ("ale_py", "dm_control", "gymnasium", "jax", "mujoco", "numpy", "pybullet")


@pytest.mark.parametrize("family", FAMILIES)
def test_descriptions_name_existing_ids(family: str) -> None:
    if not FAMILIES[family].is_installed:
        pytest.skip("is an extra")
    found = ids(family)
    assert len(set(found)) == len(found)
    named = {name for name in re.findall(r"[\w/-]+-\w+", families()[family]) if "DOMAIN" not in name}
    assert set(FAMILIES[family].tasks) <= named <= set(found)


def test_every_gym_mujoco_task_is_described() -> None:
    words = set(re.findall(r"[A-Z]\w+", families()["Gym MuJoCo"]))
    tasks = {f"{word}-v{version}" for word in words for version in (4, 5)}
    assert sorted(tasks - {"Pusher-v4"}) == ids("Gym MuJoCo")  # Gymnasium has a Pusher-v4 that it refuses to make


@pytest.mark.parametrize("family", ["Gym MuJoCo", "classic control", "PyBullet"])
def test_listed_tasks_can_be_made(family: str) -> None:
    for id in ids(family)[:4] + list(FAMILIES[family].tasks):
        environment = make(id)
        assert isinstance(environment.spec.action, Continuous) or family == "classic control"
        environment.close()


def test_descriptions_import_no_environments() -> None:
    code = "import sys\nfrom smrl.envs.catalogue import families\nfamilies()\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(done.stdout.split())


def test_missing_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    missing = ("dm_control", "pybullet", "ale_py")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in missing else there(name))
    told: dict[str, Any] = {name: re.findall(r"; needs (.*)", text) for name, text in families().items()}
    assert {name: need for name, need in told.items() if need} == {
        "PyBullet": ["smrl[pybullet]"],
        "DeepMind Control": ["smrl[dmc]"],
        "DeepMind Control in images": ["smrl[dmc]"],
        "Atari": ["smrl[atari]"],
    }
    assert ids("PyBullet") == ids("DeepMind Control") == ids("Atari") == []


def test_unknown_family() -> None:
    assert ids("your own") == []
    with pytest.raises(SmrlError, match=r"no family of environments 'Pybulet'; did you mean PyBullet\?"):
        ids("Pybulet")
