"""`Run.export`: what it writes, what it compares, and what it refuses."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from untrained_runs import IMAGES, SMALL, write_untrained

import smrl
from smrl.algorithms import registry
from smrl.deploy import numpy_policy, onnx_model
from smrl.deploy.description import Description
from smrl.deploy.export import FILES, TARGETS, TOLERANCE, Target, compare
from smrl.errors import SmrlError
from smrl.layers import Argmax, Dense
from smrl.runs import checkpoint
from smrl.runs.config import checksum
from smrl.types import Algorithm, ArraySpec, Continuous, Discrete, Entry, Spec

DICT = Spec(
    ArraySpec((9,)),
    Continuous(2, (-1.0, 0.0), (3.0, 0.5)),
    (Entry(("arm", "angle"), (2, 2)), Entry(("arm", "speed"), ()), Entry(("1",), (1,))),  # and three zeros
)
AXES = Spec(ArraySpec((6,)), Continuous(1), (Entry((), (2, 3)),))
CATCH = IMAGES | SMALL | {"features": 8}


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory: pytest.TempPathFactory) -> smrl.Run:
    return write_untrained(tmp_path_factory.mktemp("runs") / "a" / "sac" / "seed0", "sac", "Pendulum-v1", **SMALL)


def contract_of(folder: Path) -> dict[str, Any]:
    contract = json.loads((folder / "contract.json").read_text())
    assert isinstance(contract, dict)
    return contract


def loaded(folder: Path) -> Callable[[Any], Any]:
    scope: dict[str, Any] = {}
    exec((folder / "policy.py").read_text(), scope)
    policy: Callable[[Any], Any] = scope["Policy"].load(folder)
    return policy


def check_examples(folder: Path, act: Callable[[np.ndarray], Any]) -> None:
    """Compare a policy with the examples of its contract, one by one and as a batch."""
    contract = contract_of(folder)
    dtypes = contract["observation"]["dtype"], contract["action"]["dtype"]
    obs, actions = (
        np.array([example[part] for example in contract["examples"]], dtype)
        for part, dtype in zip(("observation", "action"), dtypes, strict=True)
    )
    assert obs.shape == (10, *contract["observation"]["shape"])
    assert actions.shape == (10, *contract["action"]["shape"])
    for result, wanted in (*zip(map(act, obs), actions, strict=True), (act(obs), actions)):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-6)
        assert np.shape(result) == wanted.shape
        assert result.dtype == wanted.dtype


def test_a_contract_describes_the_policy(pendulum: smrl.Run, tmp_path: Path) -> None:
    done = pendulum.export(tmp_path / "policy")
    contract = contract_of(tmp_path / "policy")
    assert {path.name for path in (tmp_path / "policy").iterdir()} == {"contract.json", "policy.npz", "policy.py"}
    assert list(tmp_path.iterdir()) == [tmp_path / "policy"], "nothing else is left"
    assert contract["observation"] == {
        "name": "observation",
        "shape": [3],
        "dtype": "float32",
        "low": [-1, -1, -8],
        "high": [1, 1, 8],
    }
    assert contract["action"] == {"name": "action", "shape": [1], "dtype": "float32", "low": [-2], "high": [2]}
    assert contract["control_period"] == {"seconds": 0.05, "source": "dt"}
    assert (contract["run"], contract["environment"], contract["algorithm"]) == ("a/sac/seed0", "Pendulum-v1", "sac")
    assert (contract["step"], contract["best"], contract["format"], contract["target"]) == (7, False, 1, "numpy")
    assert contract["smrl"] == smrl.__version__
    assert contract["checked"]["largest_difference"] == done.difference <= TOLERANCE
    assert (done.observations, done.from_replay) == (1_000, 30)
    assert f"largest difference {done.difference:.1e} on 1,000 observations (30 from the replay memory)" in str(done)
    check_examples(tmp_path / "policy", loaded(tmp_path / "policy"))
    stored = [np.load(file)["obs"] for file in pendulum.path.glob("checkpoint/**/*.npz") if file.name != "arrays.npz"]
    rows = {row.tobytes() for part in stored for row in part}
    assert {np.float32(example["observation"]).tobytes() for example in contract["examples"]} <= rows


def test_the_best_policy_is_another(pendulum: smrl.Run, tmp_path: Path) -> None:
    pendulum.export(tmp_path / "newest")
    done = pendulum.export(str(tmp_path / "best"), best=True)
    newest, best = contract_of(tmp_path / "newest"), contract_of(tmp_path / "best")
    assert (best["step"], best["best"], done.step) == (3, True, 3)
    assert newest["digest"] != best["digest"]
    obs = np.array([0.1, 0.2, 0.3], np.float32)
    np.testing.assert_allclose(loaded(tmp_path / "best")(obs), pendulum.best_policy(obs), atol=1e-5)
    assert abs(loaded(tmp_path / "best")(obs) - pendulum.policy(obs)) > 1e-3


def test_an_export_is_the_same_each_time(pendulum: smrl.Run, tmp_path: Path) -> None:
    for name in ("first", "second"):
        pendulum.export(tmp_path / name, to="c")
    for file in ("contract.json", "policy.h"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


RUNS: dict[str, tuple[str, str, Spec | None, dict[str, Any]]] = {
    "entries, padding and bounds": ("ddpg", "mine", DICT, SMALL),
    "several axes": ("ddpg", "mine", AXES, SMALL),
    "discrete from 5": ("dqn", "mine", Spec(ArraySpec((3,)), Discrete(4, 5)), {"hidden": (16,)}),
    "padding": ("ddpg", "Pendulum-v1", None, SMALL | {"pad_observations": 4, "action_repeat": 3}),
    "images": ("drqv2", "smrl/CatchContinuous-v0", None, CATCH),
    "a stack of frames": ("dqn", "mine", Spec(ArraySpec((12, 10, 6), "uint8", 2), Discrete(3)), IMAGES),
}


@pytest.mark.parametrize("case", RUNS)
def test_exports_take_what_the_environment_returns(case: str, tmp_path: Path) -> None:
    algorithm, env, spec, settings = RUNS[case]
    run = write_untrained(tmp_path / "run", algorithm, env, spec, **settings)
    done = run.export(tmp_path / "numpy")
    assert done.from_replay == (30 if case != "a stack of frames" else 28), "pairs of frames within two files"
    check_examples(tmp_path / "numpy", loaded(tmp_path / "numpy"))
    run.export(tmp_path / "onnx", to="onnx")
    act, _ = onnx_model.load(tmp_path / "onnx", Description((), run.policy.spec, {}))
    shape = contract_of(tmp_path / "onnx")["observation"]["shape"]
    check_examples(tmp_path / "onnx", lambda obs: act(obs) if obs.ndim > len(shape) else act(obs[None])[0])


def test_normalisation_is_inside(tmp_path: Path) -> None:
    settings = SMALL | {"pad_observations": 2, "normalise_observations": True}
    run = write_untrained(tmp_path / "run", "sac", "Pendulum-v1", **settings)
    for target in TARGETS:
        run.export(tmp_path / target, to=target, best=target == "c")
        layers = contract_of(tmp_path / target)["layers"]
        assert [layer["layer"] for layer in layers[:3]] == ["pad", "normalise", "dense"]
        assert layers[1]["limit"] == 10
    obs = np.array([1.0, -2.0, 3.0], np.float32)
    np.testing.assert_allclose(loaded(tmp_path / "numpy")(obs), run.policy(obs), atol=1e-5)


def test_the_entries_of_a_dictionary_are_joined_in_order(tmp_path: Path) -> None:
    run = write_untrained(tmp_path / "run", "ddpg", "mine", DICT, **SMALL)
    run.export(tmp_path / "policy")
    observation = contract_of(tmp_path / "policy")["observation"]
    assert observation["shape"] == [6]
    assert [(entry["name"], entry["shape"]) for entry in observation["entries"]] == [
        ("arm.angle", [2, 2]),
        ("arm.speed", []),
        ("1", [1]),
    ]
    assert (observation["low"], contract_of(tmp_path / "policy")["control_period"]) == (None, None), "it is not known"
    own = {"arm": {"angle": np.array([[1.0, 2.0], [3.0, 4.0]]), "speed": np.array(5.0)}, "1": np.array([6.0])}
    np.testing.assert_allclose(loaded(tmp_path / "policy")([1, 2, 3, 4, 5, 6]), run.policy(own), atol=1e-5)


def test_images_have_their_layout_in_the_contract(tmp_path: Path) -> None:
    run = write_untrained(tmp_path / "run", *RUNS["a stack of frames"][:2], RUNS["a stack of frames"][2], **IMAGES)
    run.export(tmp_path / "policy")
    contract = contract_of(tmp_path / "policy")
    assert contract["observation"] == {
        "name": "observation",
        "shape": [12, 10, 6],
        "dtype": "uint8",
        "layout": "height, width, channels",
        "stack": 2,
        "stack_order": "oldest frame first",
        "low": 0,
        "high": 255,
    }
    assert contract["action"] == {"name": "action", "shape": [], "dtype": "int64", "first": 0, "last": 2}
    with pytest.raises(ValueError, match="takes images of uint8, not float64"):
        loaded(tmp_path / "policy")(np.zeros((12, 10, 6)))


def test_the_control_period_counts_repeated_actions(tmp_path: Path) -> None:
    run = write_untrained(tmp_path / "run", "ddpg", "Pendulum-v1", action_repeat=3, **SMALL)
    run.export(tmp_path / "policy")
    contract = contract_of(tmp_path / "policy")
    assert contract["control_period"]["seconds"] == pytest.approx(0.15)
    assert contract["action_repeat"] == 3
    run = write_untrained(tmp_path / "cart", "dqn", "CartPole-v1", action_repeat=2, hidden=(8,))
    run.export(tmp_path / "cart policy")
    assert contract_of(tmp_path / "cart policy")["control_period"] == {"seconds": 0.04, "source": "render_fps"}
    assert contract_of(tmp_path / "cart policy")["observation"]["low"][1] is None, "CartPole's speed has no bound"


def test_the_numpy_policy_refuses_what_is_no_observation(pendulum: smrl.Run, tmp_path: Path) -> None:
    pendulum.export(tmp_path / "policy")
    policy = loaded(tmp_path / "policy")
    for obs, message in (
        ([0.0, 0.0], r"shape \(3,\), not \(2,\)"),
        (np.zeros((2, 2, 3)), r"shape \(3,\), not \(2, 2, 3\)"),
        ([0.0, np.nan, 0.0], "not finite"),
        ([0.0, np.inf, 0.0], "not finite"),
    ):
        with pytest.raises(ValueError, match=message):
            policy(obs)


def test_policy_py_holds_only_its_own_layers(pendulum: smrl.Run, tmp_path: Path) -> None:
    pendulum.export(tmp_path / "policy")
    source = (tmp_path / "policy" / "policy.py").read_text()
    assert '"dense"' in source
    assert not any(word in source for word in ("convolution", "gelu", "actor", "sliding_window_view"))
    assert sum(bool(line.strip()) for line in source.splitlines()) < 60


# Verification


def wrong(by: float) -> Target:
    """Return the target numpy with an error."""

    def load(folder: Path, description: Description) -> tuple[Callable[[np.ndarray], Any], str]:
        act, checked_by = numpy_policy.load(folder, description)
        return lambda obs: act(obs) + np.float32(by), checked_by

    return Target((), numpy_policy.write, load)


def test_a_wrong_export_is_not_kept(pendulum: smrl.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pendulum.export(tmp_path / "policy")
    before = {path.name: path.read_bytes() for path in (tmp_path / "policy").iterdir()}
    monkeypatch.setitem(TARGETS, "numpy", wrong(by=1e-4))  # half of that as in [-1, 1]
    for place in (tmp_path / "policy", tmp_path / "new" / "deep" / "policy"):
        with pytest.raises(SmrlError, match=r"by [45]\.\de-05, more than 1e-05, so it was not kept .* another target"):
            pendulum.export(place)
    assert {path.name: path.read_bytes() for path in (tmp_path / "policy").iterdir()} == before
    assert list(tmp_path.iterdir()) == [tmp_path / "policy"]


def test_differences_are_relative_to_the_bounds() -> None:
    spec = Spec(ArraySpec((1,)), Continuous(2, (-1000.0, -1.0), (1000.0, 1.0)))
    description = Description((), spec, {})
    obs, zeros = np.zeros((4, 1), np.float32), np.zeros((4, 2), np.float32)
    for off, wanted in (([0.01, 0], 1e-5), ([0, 0.01], 1e-2)):
        difference, ties = compare(description, obs, zeros, zeros + np.array(off, np.float32))
        assert difference == pytest.approx(wanted)
        assert ties == 0
    assert compare(description, obs, zeros, zeros * np.float32(np.nan))[0] == np.inf


@pytest.mark.parametrize(("gap", "scale", "tied"), [(5e-6, 1, True), (2e-5, 1, False), (2e-5, 100, True)])
def test_a_tie_of_discrete_actions_is_no_difference(gap: float, scale: float, tied: bool) -> None:
    layers = (Dense(np.array([[1, 1, -1]], np.float32), np.array([scale, scale + gap, 0], np.float32)), Argmax())
    description = Description(layers, Spec(ArraySpec((1,)), Discrete(3)), {})
    obs = np.zeros((2, 1), np.float32)
    compared = compare(description, obs, np.array([1, 1]), np.array([1, 0]))
    assert compared == ((0.0, 1) if tied else (1.0, 0))


def test_rounding_is_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large weights make more of the last bits than the tolerance."""
    spec = Spec(ArraySpec((60,)), Continuous(4, (-2.0,) * 4, (2.0,) * 4))
    run = write_untrained(tmp_path / "run", "ddpg", "mine", spec, factor=4.0, actor_hidden=(128, 128))
    done = run.export(tmp_path / "policy")
    assert done.rounding is not None
    assert TOLERANCE < done.difference < 4 * done.rounding < 1e-3
    assert f"where float32 itself is off by {done.rounding:.1e}" in str(done)
    monkeypatch.setitem(TARGETS, "numpy", wrong(by=0.01))
    with pytest.raises(SmrlError, match="it was not kept"):
        run.export(tmp_path / "policy")


def test_without_onnxruntime_the_reference_evaluator_checks(
    pendulum: smrl.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert pendulum.export(tmp_path / "policy", to="onnx").checked_by == "ONNX's reference evaluator"


def test_without_a_compiler_the_layers_are_checked(
    pendulum: smrl.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = pendulum.export(tmp_path / "policy", to="c")
    assert done.checked_by == "its layers in NumPy, because there is no C compiler"
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(SmrlError, match="the C compiler no-such-compiler cannot be started"):
        pendulum.export(tmp_path / "policy", to="c")


def test_damaged_rows_are_not_used(tmp_path: Path) -> None:
    run = write_untrained(tmp_path / "run", "ddpg", "Pendulum-v1", **SMALL)
    (shard,) = (run.path / "checkpoint" / "replay").iterdir()
    shard.write_bytes(b"no rows")
    assert run.export(tmp_path / "policy").from_replay == 1, "that of the tail"
    shutil.rmtree(run.path / "checkpoint" / "replay")
    assert run.export(tmp_path / "policy").from_replay == 1


# Custom algorithms


@dataclass(frozen=True)
class Config:
    """Hyperparameters of an algorithm without any."""


def linear(network: Callable[[Any], Any] | None) -> Callable[[Config, Spec], Algorithm[Any]]:
    """Return an algorithm whose policy is W · obs, with its description."""

    def make(config: Config, spec: Spec) -> Algorithm[Any]:
        def exploit(params: Any, obs: Any) -> Any:
            return jnp.asarray(obs) @ params

        def unused(*_: Any) -> Any:
            raise NotImplementedError

        return Algorithm(lambda key: jnp.ones((3, 1)) / 20, unused, unused, exploit, network=network)

    make.__annotations__ = {"config": Config, "spec": Spec}
    return make


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (None, r"linear does not describe its policy.*give its Algorithm a function network.*docs/extend\.md"),
        (lambda params: [lambda x: x @ params], r"must return layers of smrl\.layers"),
        (lambda params: [], r"must return layers of smrl\.layers"),
        (lambda params: 3, r"does not describe a policy \(TypeError"),
        (lambda params: [Dense(params.T, np.zeros(1, np.float32))], r"does not describe a policy \(ValueError: matmul"),
        (
            lambda params: [Dense(1.01 * params, np.zeros(1, np.float32))],
            "network of the algorithm linear describes another policy: correct it",
        ),
        (lambda params: [Dense(params, np.zeros(1, np.float32))], None),
    ],
)
def test_custom_algorithms(
    network: Callable[[Any], Any] | None, message: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    smrl.register("linear", linear(network))
    run = write_untrained(tmp_path / "run", "linear", "mine", Spec(ArraySpec((3,)), Continuous(1)))
    for target in ("numpy", "c"):
        if message is None:
            run.export(tmp_path / "policy", to=target)
        else:
            with pytest.raises(SmrlError, match=message):
                run.export(tmp_path / "policy", to=target)
            assert not (tmp_path / "policy").exists()


# Refusals


def test_refusals(pendulum: smrl.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SmrlError, match=r"no target 'nunpy' among numpy, .*, folder; did you mean numpy\?"):
        pendulum.export(tmp_path / "policy", to="nunpy")
    with pytest.raises(SmrlError, match="to must be a text"):
        pendulum.export(tmp_path / "policy", to=3)  # type: ignore[arg-type]
    for module, target in (("onnx", "onnx"), ("safetensors.numpy", "safetensors")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(SmrlError, match=r'pip install "smrl\[export\]"'):
                pendulum.export(tmp_path / "policy", to=target)
    assert not list(tmp_path.iterdir())


def test_only_an_earlier_export_is_replaced(pendulum: smrl.Run, tmp_path: Path) -> None:
    pendulum.export(tmp_path / "policy")
    pendulum.export(tmp_path / "policy", to="onnx")
    assert {path.name for path in (tmp_path / "policy").iterdir()} == {"contract.json", "policy.onnx"}
    (tmp_path / "policy" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "policy")
    (tmp_path / "broken link").symlink_to(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    for name in ("policy", "file", "link", "broken link", "empty"):
        with pytest.raises(SmrlError, match="exists and is not an earlier export: choose another folder"):
            pendulum.export(tmp_path / name)
    with pytest.raises(SmrlError, match="exists and is not an earlier export"):
        pendulum.export(pendulum.path)
    assert (tmp_path / "policy" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "mine"
    assert {"policy.py", "policy.h", "__pycache__"} <= FILES


def test_an_unwritable_place(pendulum: smrl.Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(SmrlError, match=r"cannot write .*policy: .*; make room or export to another folder"):
        pendulum.export(tmp_path / "file" / "policy")
    assert (tmp_path / "file").read_text() == "kept"


def test_a_run_without_a_policy(tmp_path: Path) -> None:
    run = write_untrained(tmp_path / "run", "ddpg", "Pendulum-v1", **SMALL)
    saved = checkpoint.load(run.path / "checkpoint", print)
    assert saved is not None
    shutil.rmtree(run.path / "checkpoint")
    with pytest.raises(SmrlError, match="has no checkpoint yet; train it first"):
        smrl.load(run.path).export(tmp_path / "policy")


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    run = write_untrained(tmp_path / "run", "ddpg", "Pendulum-v1", factor=float("nan"), **SMALL)
    with pytest.raises(SmrlError, match=r"not finite numbers \(0\.weights\): the training has diverged"):
        run.export(tmp_path / "policy")
    huge = write_untrained(tmp_path / "huge", "ddpg", "Pendulum-v1", factor=1e30, **SMALL)
    with pytest.raises(SmrlError, match=r"actions that are not finite .* has diverged"):
        huge.export(tmp_path / "policy")
    assert not (tmp_path / "policy").exists()


def test_a_custom_environment_is_not_made_without_trust(tmp_path: Path) -> None:
    """Nothing that a run names is imported to export it; the bounds are then not known."""
    write_untrained(tmp_path / "run", "ddpg", "Pendulum-v1", **SMALL)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["settings"]["env"] = "no_such_module:Arm-v0"
    config["checksum"] = checksum({name: value for name, value in config.items() if name != "checksum"})
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    smrl.load(tmp_path / "run").export(tmp_path / "policy")
    assert contract_of(tmp_path / "policy")["observation"]["low"] is None
