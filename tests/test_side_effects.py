"""Library calls leave the host process as it was: environment variables, allocator and JAX's configuration."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smrl

SCRIPT = """
import ctypes, json, os, sys

mallopt_calls = []
lookup = ctypes.CDLL.__getattr__

def noted(library, name):
    if name == "mallopt":
        mallopt_calls.append(name)
    return lookup(library, name)

ctypes.CDLL.__getattr__ = noted
changes = {}

def look():
    jax = sys.modules.get("jax")
    return {
        "environment": dict(os.environ),
        "malloc": len(mallopt_calls),
        "jax": {name: str(value) for name, value in jax.config.values.items()} if jax else {},
    }

def watch(name, call):
    before = look()
    result = call()
    after = look()
    changes[name] = [part for part in before if before[part] != after[part]]
    return result

def import_smrl():
    import smrl
    return smrl

smrl = watch("import", import_smrl)
assert "jax" not in sys.modules
import jax, jax.numpy as jnp
import optax, flax  # whatever these do to JAX's configuration is theirs
path, video = sys.argv[1:3]
run = watch("load", lambda: smrl.load(path))
watch("policy", lambda: run.policy([0.0, 0.0, 0.0]))
watch("best_policy", lambda: run.best_policy([0.0, 0.0, 0.0]))
watch("evaluate", lambda: smrl.evaluate(run, 1))
watch("play", lambda: smrl.play(run, video))
watch("export", lambda: [run.export(video + to, to) for to in ("numpy", "onnx", "c", "safetensors")])
learn = watch("reuse", lambda: smrl.reuse(lambda state, batch, key: (state + batch, {}), times=3))
watch("learn", lambda: learn(jnp.zeros(2), jnp.ones(2), jax.random.key(0)))
print(json.dumps(changes))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> smrl.Run:
    settings: dict[str, Any] = {"steps": 40, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "batch_size": 8}
    runs = tmp_path_factory.mktemp("runs")
    return smrl.train("ddpg", "Pendulum-v1", reuse=1, runs=runs, quiet=True, **settings)


def changes(*arguments: object) -> dict[str, list[str]]:
    """Return which parts of a fresh process each call changed."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "MUJOCO_", "SMRL_TH"))}
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    ended = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def test_library_calls_change_nothing_in_the_host_process(run: smrl.Run, tmp_path: Path) -> None:
    found = changes(run.path, tmp_path / "play.mp4")
    calls = ("import", "load", "policy", "best_policy", "evaluate", "play", "export", "reuse", "learn")
    assert found == {call: [] for call in calls}
