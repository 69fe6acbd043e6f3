"""Exports in programs that know nothing of smrl: a C and a C++ program, onnxruntime, and a Python with NumPy only."""

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from untrained_runs import IMAGES, SMALL, write_untrained

import smrl
from smrl.types import ArraySpec, Continuous, Discrete, Spec

SPECS = {
    "sac": (Spec(ArraySpec((5,)), Continuous(3, (-2.0, 0.0, -30.0), (2.0, 1.0, 10.0))), SMALL),
    "darc": (Spec(ArraySpec((5,)), Continuous(3)), SMALL),
    "dqn": (Spec(ArraySpec((5,)), Discrete(4, -7)), {"hidden": (16,), "activation": "gelu"}),
}
PROGRAM = """\
#include <stdio.h>
#include "policy.h"
int main(void) {
  float observation[SMRL_OBSERVATION_SIZE], action[SMRL_ACTION_SIZE];
  for (;;) {
    for (int i = 0; i < SMRL_OBSERVATION_SIZE; ++i)
      if (scanf("%f", &observation[i]) != 1) return 0;
    if (smrl_policy(observation, action) != 0) { printf("not finite\\n"); continue; }
    for (int i = 0; i < SMRL_ACTION_SIZE; ++i) printf("%.9g ", (double)action[i]);
    printf("\\n");
  }
}
"""
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
COMPILERS = {"c": ("cc", "-std=c99", "-xc"), "c++": ("c++", "-std=c++11", "-xc++")}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, smrl.Run]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: write_untrained(folder / name, name, "mine", spec, **hyper) for name, (spec, hyper) in SPECS.items()}


def examples(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    found: list[dict[str, Any]] = json.loads((folder / "contract.json").read_text())["examples"]
    return np.array([one["observation"] for one in found]), np.array([one["action"] for one in found])


@pytest.mark.parametrize("language", COMPILERS)
@pytest.mark.parametrize("name", SPECS)
def test_a_compiled_program(language: str, name: str, runs: dict[str, smrl.Run], tmp_path: Path) -> None:
    runs[name].export(tmp_path / "policy", to="c")
    (tmp_path / "program.txt").write_text(PROGRAM)
    (tmp_path / "other.txt").write_text('#include "policy.h"\n')  # a second file that does not call the policy
    files = [str(tmp_path / file) for file in ("program.txt", "other.txt")]
    command = [*COMPILERS[language], *STRICT, "-I", str(tmp_path / "policy"), *files, "-o", str(tmp_path / "program")]
    subprocess.run([*command, "-lm"], check=True)
    obs, actions = examples(tmp_path / "policy")
    lines = [" ".join(map(repr, row)) for row in obs.tolist()]
    text = "\n".join([*lines, "0 0 nan 0 0", "0 inf 0 0 0", lines[0]])
    answer = subprocess.run([str(tmp_path / "program")], input=text, capture_output=True, text=True, check=True)
    *answered, not_a_number, infinite, again = answer.stdout.splitlines()
    assert (not_a_number, infinite) == ("not finite", "not finite")
    assert again == answered[0]
    result = np.array([[float(word) for word in line.split()] for line in answered])
    np.testing.assert_allclose(result, actions.reshape(10, -1), rtol=1e-4, atol=1e-6)


def test_the_header_allocates_nothing(runs: dict[str, smrl.Run], tmp_path: Path) -> None:
    """It includes math.h alone, has no state that can change, and calls only functions of math.h."""
    runs["darc"].export(tmp_path / "policy", to="c")
    source = (tmp_path / "policy" / "policy.h").read_text()
    assert [line for line in source.splitlines() if line.startswith("#include")] == ["#include <math.h>"]
    (tmp_path / "use.c").write_text(
        '#include "policy.h"\nint use(const float *o, float *a) { return smrl_policy(o, a); }'
    )
    subprocess.run(["cc", "-std=c99", "-O2", "-c", "use.c", "-I", "policy", "-o", "use.o"], cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "use.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    kinds = [tuple(line.split()[-2:]) for line in symbols.splitlines()]
    assert {name for kind, name in kinds if kind == "U"} <= {"tanhf", "expf", "sqrtf", "memcpy", "memset"}
    assert {kind for kind, _ in kinds} <= {"U", "T", "t", "r"}, "no data that can be written"


@pytest.mark.parametrize("name", SPECS)
def test_onnxruntime(name: str, runs: dict[str, smrl.Run], tmp_path: Path) -> None:
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    runs[name].export(tmp_path / "policy", to="onnx")
    model = onnx.load(tmp_path / "policy" / "policy.onnx")
    contract = json.loads((tmp_path / "policy" / "contract.json").read_text())
    assert [opset.version for opset in model.opset_import] == [contract["opset"]] == [17]
    session = runtime.InferenceSession(tmp_path / "policy" / "policy.onnx", providers=["CPUExecutionProvider"])
    (given,), (returned,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.type, given.shape) == ("observation", "tensor(float)", ["batch", 5])
    kind = "tensor(int64)" if name == "dqn" else "tensor(float)"
    assert (returned.name, returned.type) == ("action", kind)
    assert returned.shape == ["batch", *contract["action"]["shape"]]
    obs, actions = examples(tmp_path / "policy")
    for count in (1, 3, 10):
        (result,) = session.run(None, {"observation": obs[:count].astype(np.float32)})
        np.testing.assert_allclose(result, actions[:count], rtol=1e-4, atol=1e-6)


def test_safetensors(runs: dict[str, smrl.Run], tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    runs["sac"].export(tmp_path / "policy", to="safetensors")
    with safetensors.safe_open(tmp_path / "policy" / "policy.safetensors", "numpy") as file:
        metadata = {name: json.loads(value) for name, value in file.metadata().items()}
        shapes = {name: file.get_tensor(name).shape for name in file.keys()}  # noqa: SIM118
    assert metadata["settings"] == json.loads(json.dumps(runs["sac"].settings.to_json()))
    assert metadata["layers"][0] == {"layer": "dense", "weights": "0.weights", "bias": "0.bias"}
    assert (shapes["0.weights"], shapes["4.weights"]) == ((5, 16), (12, 3)), "without the head of the deviations"


SCRIPT = """\
import importlib.util, json, sys
sys.path.insert(0, "{folder}")
from policy import Policy
assert not any(importlib.util.find_spec(name) for name in ("jax", "smrl", "gymnasium", "msgspec", "onnx"))
policy = Policy.load("{folder}")
examples = json.load(open("{folder}/contract.json"))["examples"]
import numpy as np
dtype = "{dtype}"
one = [policy(np.array(example["observation"], dtype)).tolist() for example in examples]
assert one == [policy(np.array([example["observation"]], dtype))[0].tolist() for example in examples]
print(json.dumps([one, [example["action"] for example in examples]]))
"""


@pytest.fixture(scope="module")
def numpy_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment whose only package is NumPy."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for package in Path(np.__file__).parents[1].glob("numpy*"):  # the package, its libraries and its metadata
        (packages / package.name).symlink_to(package)
    return folder / "bin" / "python"


@pytest.mark.parametrize("name", ["sac", "drqv2"])
def test_a_python_without_jax(name: str, numpy_only: Path, runs: dict[str, smrl.Run], tmp_path: Path) -> None:
    image = Spec(ArraySpec((12, 10, 6), "uint8", 2), SPECS["sac"][0].action)
    hyper = IMAGES | SMALL | {"features": 8}
    run = runs["sac"] if name == "sac" else write_untrained(tmp_path / "run", name, "mine", image, **hyper)
    run.export(tmp_path / "policy")
    script = SCRIPT.format(folder=tmp_path / "policy", dtype=run.policy.spec.obs.dtype)
    # -I ignores PYTHONPATH and the working directory, from which smrl could be imported.
    answer = subprocess.run([str(numpy_only), "-I", "-c", script], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    result, wanted = json.loads(answer.stdout)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-6)
    assert Path(sys.prefix) not in numpy_only.parents
