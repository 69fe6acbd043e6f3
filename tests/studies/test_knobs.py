"""The knobs of the paper's studies: what each does to a run, and what the run records of it."""

import csv
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from specs import CONTINUOUS, vectors

import smrl
from smrl.algorithms import registry
from smrl.cli.main import main
from smrl.errors import SmrlError
from smrl.presets import PRESETS, resolve
from smrl.runs import checkpoint
from smrl.runs.paths import RunDirectory
from smrl.smr.loop import AgentState, learner
from smrl.smr.rules import rule_of
from smrl.types import Transition

SHORT: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "batch_size": 8}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,)}


def train(algorithm: str, runs: Path, **settings: Any) -> smrl.Run:
    return smrl.train(algorithm, "Pendulum-v1", **SHORT | SMALL | settings, runs=runs, quiet=True)


def arrays(run: smrl.Run) -> dict[str, np.ndarray]:
    saved = checkpoint.load(RunDirectory(run.path).checkpoint, print)
    assert saved is not None
    return saved.arrays


def adam_steps(run: smrl.Run, network: str) -> int:
    (count,) = (
        v for name, v in arrays(run).items() if name.startswith(f"['algorithm'].{network}.") and ".count" in name
    )
    return int(count)


def rows(file: Path) -> list[dict[str, str]]:
    with file.open() as lines:
        return list(csv.DictReader(lines))


def updates_of_a_step(name: str, reuse: int, fresh_batches: int) -> Any:
    """The state after one environment step's learning."""
    entry = registry.find(name)
    few: dict[str, Any] = {"critics": 2} if name == "redq" else {}  # ten would take twenty times as long to compile
    algorithm = entry.make(entry.config(**SMALL, **few), vectors(3, 1))
    count, size = algorithm.rounds * fresh_batches, 4
    shapes = ((3,), (1,), (), (), (3,))
    batches = Transition(*(np.ones((count, size, *shape), np.float32) for shape in shapes))
    learn = jax.jit(learner(algorithm, rule_of(reuse), fresh_batches))
    start = AgentState(jax.jit(algorithm.init)(jax.random.key(0)), (), jnp.int32(0), jnp.int32(0))
    return learn(start, batches, 1, 1, jax.random.key(1))[0].algorithm


@pytest.mark.slow
def test_redq_makes_100_updates_of_critics_and_5_of_its_actor() -> None:
    settings = resolve("redq", "Hopper-v4")
    assert (settings.reuse, settings.fresh_batches) == ("5", 20)
    state = updates_of_a_step("redq", 5, 20)
    counts = {part: int(optax.tree.get(getattr(state, part).optimiser, "count")) for part in state._fields[:3]}
    assert counts == {"critics": 100, "actor": 5, "log_alpha": 5}


@pytest.mark.parametrize("fresh_batches", [1, 3])
def test_darc_updates_each_pair_as_often_as_the_other(fresh_batches: int) -> None:
    state = updates_of_a_step("darc", 10, fresh_batches)
    for part in (state.actors, state.critics):
        assert optax.tree.get(part.optimiser, "count").tolist() == [10 * fresh_batches] * 2


def test_fresh_batches_and_reuse_multiply_and_are_recorded(tmp_path: Path) -> None:
    run = train("sac", tmp_path, reuse="3:40,2", fresh_batches=4)
    assert run.path.parent.name.startswith("sac-reuse3until40then2-")
    assert "-fresh4-" in run.path.parent.name
    assert adam_steps(run, "critics") == 4 * (3 * 20 + 2 * 20)
    first, second = rows(run.path / "training.csv")
    assert (first["step"], first["fresh_batch_updates"], first["same_batch_updates"]) == ("40", "4", "8.0")
    assert (second["step"], second["fresh_batch_updates"], second["same_batch_updates"]) == ("60", "4", "4.0")
    assert (first["updates"], second["updates"]) == ("240", "400")
    assert float(first["uses_per_transition"]) == 4 * 3 * 20 * 8 / 40
    assert float(second["uses_per_transition"]) == 4 * (3 * 20 + 2 * 20) * 8 / 60


@pytest.mark.slow
def test_a_reset_keeps_the_memory_and_nothing_else(tmp_path: Path) -> None:
    run = train("td3", tmp_path, reuse=1, reset_every=25)  # learning from step 20 on, new agents at 25 and 50
    assert run.path.parent.name.startswith("td3-reuse1-")
    assert "-reset25-" in run.path.parent.name
    assert adam_steps(run, "critics") == 10
    assert adam_steps(run, "actor") == 5  # of the delayed steps among those ten
    unmoved = train("td3", tmp_path / "unmoved", reuse=1, reset_every=60, learning_rate=1e-30, tau=1e-30)
    reset = train("td3", tmp_path / "reset", reuse=1, reset_every=59, learning_rate=1e-30, tau=1e-30)
    one, other = arrays(unmoved), arrays(reset)
    kernels = [name for name in one if "kernel" in name and "optimiser" not in name]
    assert kernels
    assert all(not np.array_equal(one[name], other[name]) for name in kernels), "all networks are new, targets too"
    assert adam_steps(unmoved, "critics") == 40, "a run's end is never a new agent"


def test_learning_rates(tmp_path: Path) -> None:
    """Adam's first step is the learning rate itself, so the factor is seen in what one update changes."""

    def changes(**hyper: Any) -> np.ndarray:
        config = registry.find("sac").config(**SMALL, **hyper)
        return np.array([config.optimiser(network).learning_rate for network in ("actor", "critic", "temperature")])

    np.testing.assert_allclose(changes(), 3e-4)
    np.testing.assert_allclose(changes(learning_rate_factor=10.0), 3e-3)
    np.testing.assert_allclose(changes(learning_rate=1e-3, critic_learning_rate=2e-3), [1e-3, 2e-3, 1e-3])
    run = train("sac", tmp_path, steps=21, reuse=1, preset="lr", eval_every=21)
    assert run.settings.hyper.learning_rate_factor == 10
    assert abs(arrays(run)["['algorithm'].log_alpha.params"]) == pytest.approx(3e-3, rel=1e-4)


def test_the_policy_acts_in_the_warm_up_where_asked(tmp_path: Path) -> None:
    """TQC draws no uniform action; before anything is learned, actions are those of its first policy."""
    runs = [
        train("tqc", tmp_path / actions, reuse=1, critics=2, atoms=3, dropped=1, warmup_actions=actions)
        for actions in ("policy", "uniform")
    ]
    assert [adam_steps(run, "critics") for run in runs] == [40, 40]
    first, second = (arrays(run)["episode0.actions"] for run in runs)
    assert np.abs(first[:20] - second[:20]).max() > 0.1
    tqc = resolve("tqc", "Hopper-v4")
    assert (tqc.warmup, tqc.warmup_actions) == (256, "policy")


# ν, dropped atoms and target entropy of the paper and of the authors' repositories
BY_TASK: dict[str, tuple[float, int, float | None]] = {
    "Hopper-v4": (0.15, 5, -1),
    "HalfCheetah-v5": (0.1, 0, -3),
    "Walker2d-v4": (0.1, 2, -3),
    "Ant-v4": (0.25, 2, -4),
    "my_module:Ant-v4": (0.25, 2, -4),
    "AntMuJoCoEnv-v0": (0.2, 2, -4),
    "Walker2DMuJoCoEnv-v0": (0.15, 2, -3),
    "AntMaze-v3": (0.1, 2, None),
    "Pendulum-v1": (0.1, 2, None),
}


@pytest.mark.parametrize("env", BY_TASK)
def test_presets_by_task(env: str) -> None:
    nu, dropped, target_entropy = BY_TASK[env]
    assert resolve("darc", env).hyper.nu == nu
    assert resolve("darc", env, nu=0.4).hyper.nu == 0.4
    assert resolve("tqc", env).hyper.dropped == dropped
    assert resolve("redq", env).hyper.target_entropy == target_entropy
    assert resolve("redq", env, "droq").hyper.target_entropy == target_entropy


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_used(name: str) -> None:
    for algorithm in {row.algorithm for row in PRESETS[name].rows} - {"*"}:
        resolve(algorithm, "Hopper-v4", name)


def test_a_preset_is_for_its_algorithms() -> None:
    with pytest.raises(SmrlError, match="is not for tqc"):
        resolve("tqc", "Hopper-v4", "utd")


def test_presets_are_listed_and_recorded(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "--presets"])
    listed = capsys.readouterr().out
    assert "reuse 5, fresh_batches 20" in listed
    assert "target_entropy -4" in listed
    assert "dm[c_]*/walker*" in listed
    words = ["--steps", "30", "--warmup", "20", "--eval-every", "10", "--eval-episodes", "1", "--batch-size", "4"]
    small = ["--actor-hidden", "8", "--critic-hidden", "8", "--reuse", "1", "--quiet"]
    main(["train", "redq", "Hopper-v4", *words, *small, "--utd", "2", "--critics", "3"])
    (path,) = in_tmp_path.glob("runs/Hopper-v4/redq-reuse1-*/seed0")
    settings = smrl.load(path).settings
    assert (settings.hyper.target_entropy, settings.hyper.critics, settings.fresh_batches) == (-1, 3, 2)


@pytest.mark.parametrize(
    "name", [name if name == "sac" else pytest.param(name, marks=pytest.mark.slow) for name in CONTINUOUS]
)
def test_every_algorithm_takes_every_knob(name: str, tmp_path: Path) -> None:
    knobs: dict[str, Any] = {"fresh_batches": 2, "reset_every": 30, "layer_norm": True, "dropout": 0.1, "n_step": 3}
    knobs |= {"learning_rate_factor": 2.0, "bias_every": 60, "eval_every": 30}
    few: dict[str, Any] = {"tqc": {"critics": 2, "atoms": 3}, "redq": {"critics": 2}}
    run = train(name, tmp_path, reuse="2:30,1", **knobs, **few.get(name, {}))
    assert run.path.parent.name.startswith(f"{name}-reuse2until30then1-")
    before, after = rows(run.path / "evaluations.csv")
    assert (before["bias"], before["bias_sd"]) == ("", "")
    assert np.isfinite([float(after["bias"]), float(after["bias_sd"])]).all()
