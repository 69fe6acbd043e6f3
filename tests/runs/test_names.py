"""What folders of runs are called, and that how a run is evaluated changes neither its identity nor its training."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_runs import make_config, write_run

import smrl
from smrl.presets import resolve
from smrl.runs.paths import RunDirectory
from smrl.runs.records import read_run
from smrl.settings import RunOptions

SHORT: dict[str, Any] = {
    **{"warmup": 20, "batch_size": 4, "reuse": 2, "eval_episodes": 1},
    **{"actor_hidden": (4,), "critic_hidden": (4,), "quiet": True},
}


def label(algorithm: str, env: str, name: str | None = None, **values: Any) -> str:
    options = RunOptions(runs=Path("nowhere"), name=name)
    return RunDirectory.of(resolve(algorithm, env, **values), options).path.parent.name


@pytest.mark.parametrize(
    ("algorithm", "env", "values", "name"),
    [
        ("dqn", "CartPole-v1", {"steps": 1500}, "dqn-reuse10"),
        ("dqn", "ALE/Breakout-v5", {"steps": 400_000}, "dqn-reuse2"),  # ε falls over a tenth of the run
        ("dqn", "CartPole-v1", {"batch_size": 64}, "dqn-reuse10-batch64"),  # that of other small tasks
        ("redq", "Hopper-v4", {}, "redq-reuse5"),
        ("darc", "HopperMuJoCoEnv-v0", {}, "darc-reuse10"),
        ("drqv2", "dmc-pixels/walker-walk", {"eval_every": 2000}, "drqv2-reuse5"),
        ("sac", "dmc/cheetah-run", {"eval_episodes": 1, "reuse": 1}, "sac-reuse1"),
        ("sac", "Hopper-v4", {"preset": "utd"}, "sac-reuse1-fresh10"),
        ("sac", "Hopper-v4", {"tau": 0.01, "learning_rate": 1e-3}, "sac-reuse10-lr0.001-tau0.01"),
        ("sac", "Pendulum-v1", {"real_time": True}, "sac-reuse10-realtime"),
        ("sac", "Pendulum-v1", {"real_time": True, "eval_every": 50}, "sac-reuse10-evalevery50-realtime"),
    ],
)
def test_label_is_what_differs_from_the_preset(algorithm: str, env: str, values: dict[str, Any], name: str) -> None:
    assert label(algorithm, env, **values) == name
    assert label(algorithm, env, "mine", **values) == f"{name}-mine"


@pytest.mark.parametrize("name", ["", "a/b", "..\\x", "two words", "w" * 25, "é", 3])
def test_name_must_be_a_word(name: Any) -> None:
    with pytest.raises(smrl.SmrlError, match="name must be a word of at most 24 letters"):
        RunOptions(name=name)


def parameters(run: smrl.Run) -> dict[str, np.ndarray]:
    """Return all arrays of the newest checkpoint except those of the best policy, which evaluations choose."""
    with np.load(max(run.path.glob("checkpoint/*/arrays.npz"))) as arrays:
        return {name: array for name, array in arrays.items() if "best" not in name}


def test_run_continues_with_other_evaluations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is learned and measured is the same to the last bit; only the moments of evaluations are others.

    Nor does a name make another run of it.
    """
    usual: dict[str, Any] = {**SHORT, "normalise_observations": True, "env": "Pendulum-v1"}
    whole = smrl.train("ddpg", steps=120, eval_every=20, runs=tmp_path / "whole", **usual)
    first = smrl.train("ddpg", steps=60, eval_every=20, runs=tmp_path / "parts", name="first", **usual)
    parts = smrl.train(
        "ddpg", steps=120, eval_every=30, runs=tmp_path / "parts", name="other", **usual | {"quiet": False}
    )
    assert parts.path == first.path
    assert first.path.parent.name.startswith("ddpg-reuse2-warmup20-batch4-")
    assert "-first" in first.path.parent.name
    assert "these settings have their run already, without the name other" in "".join(capsys.readouterr())
    assert json.loads((parts.path / "config.json").read_text())["settings"]["eval_every"] == 30
    expected, found = parameters(whole), parameters(parts)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    rows, mine = ((run.path / "evaluations.csv").read_text().splitlines() for run in (whole, parts))
    assert [int(row.partition(",")[0]) for row in mine[1:]] == [20, 40, 60, 90, 120]
    assert set(mine) - set(rows) == {mine[4]}  # that of step 90


def test_record_knows_that_the_number_of_episodes_changed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [(1000, 1.0), (2000, 2.0)])
    assert read_run(run).episodes == 10
    (run / "evaluations.csv").write_text("step,episodes,mean\n1000,10,1.0\n2000,3,2.0\n")
    assert read_run(run).episodes is None


def test_runs_of_before_are_found_under_their_names(tmp_path: Path) -> None:
    """Two runs that differ in their evaluations had two folders; each is found by its own, and a third finds one."""
    places = {}
    for every in (10, 15):
        place = tmp_path / "Pendulum-v1" / f"sac-reuse10-evalevery{every}" / "seed0"
        place.mkdir(parents=True)
        settings = resolve("sac", "Pendulum-v1", eval_every=every)
        (place / "config.json").write_text(json.dumps(make_config(settings.to_json())))
        places[every] = place
    for every, place in {**places, 20: places[10]}.items():
        settings = resolve("sac", "Pendulum-v1", eval_every=every, steps=9_999)
        assert RunDirectory.of(settings, RunOptions(runs=tmp_path)).path == place
