"""`--pad-observations` through a whole run: networks, folder, evaluation, video, bias, continuing and comparing."""

import contextlib
import json
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

import smrl
from smrl import presets
from smrl.algorithms import registry
from smrl.cli.main import main
from smrl.envs.make import make
from smrl.errors import SmrlError
from smrl.presets import Preset, Row, resolve
from smrl.runs.identity import canonical
from smrl.settings import RunOptions, make_settings
from smrl.studies.launch import run_all
from smrl.studies.sweep import sweep

SHORT: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 20, "eval_episodes": 2, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "max_episode_steps": 15, "pad_observations": 4}


@pytest.mark.slow
def test_a_run_with_padding_is_trained_evaluated_and_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = smrl.train("sac", "Pendulum-v1", **SHORT, **SMALL, bias_every=60, runs=tmp_path, quiet=True)
    assert "padobservations4" in run.path.parent.name
    config = json.loads((run.path / "config.json").read_text())
    assert (config["spec"]["obs"]["shape"], config["settings"]["pad_observations"]) == ([7], 4)
    assert smrl.load(run.path).settings == run.settings
    last = float((run.path / "evaluations.csv").read_text().splitlines()[-1].split(",")[2])
    assert smrl.evaluate(run, 2).returns.mean() == pytest.approx(last, rel=1e-9)
    assert smrl.evaluate(run, 2, env="Pendulum-v1").returns.mean() == pytest.approx(last, rel=1e-9)
    main(["evaluate", str(run.path), "--episodes", "2"])
    assert f"return {last:,.2f} ± " in capsys.readouterr().out
    assert len(smrl.play(run, tmp_path / "play.mp4")) == 1
    obs, _ = run.make_env().reset(seed=0)
    assert obs.shape == (3,), "the policy pads"
    assert run.policy(obs).shape == run.best_policy(obs).shape == (1,)


def test_a_run_with_padding_is_continued(tmp_path: Path) -> None:
    whole = smrl.train("ddpg", "Pendulum-v1", **SHORT, **SMALL, runs=tmp_path / "whole")
    smrl.train("ddpg", "Pendulum-v1", **SHORT | SMALL | {"steps": 40}, runs=tmp_path / "parts")
    parts = smrl.train("ddpg", "Pendulum-v1", **SHORT, **SMALL, runs=tmp_path / "parts")
    assert (parts.path / "evaluations.csv").read_bytes() == (whole.path / "evaluations.csv").read_bytes()


def test_observations_of_a_function_are_padded(tmp_path: Path) -> None:
    run = smrl.train(
        "ddpg", lambda: gymnasium.make("Pendulum-v1"), env_name="mine", **SHORT, **SMALL, runs=tmp_path, quiet=True
    )
    assert run.policy.spec.obs.shape == (7,)


def test_padded_and_unpadded_runs_have_different_identities(tmp_path: Path) -> None:
    several = sweep("ddpg", "Pendulum-v1", seeds=1, **SHORT, **SMALL | {"pad_observations": [None, 4]})
    outcome = run_all(several, RunOptions(runs=tmp_path, quiet=True))
    assert not outcome.failures
    sizes = {json.loads(file.read_text())["spec"]["obs"]["shape"][0] for file in tmp_path.glob("*/*/*/config.json")}
    assert sizes == {3, 7}
    assert len({record.identity for record in outcome.records}) == 2


def test_no_padding_has_the_identity_of_runs_without_the_setting() -> None:
    new = make_settings("sac", "Ant-v4").to_json()
    old = {name: value for name, value in new.items() if name != "pad_observations"}
    assert canonical(old) == canonical(new) != canonical(make_settings("sac", "Ant-v4", pad_observations=84).to_json())
    with pytest.raises(SmrlError, match="pad_observations must be a whole number of at least 1 or None, not 0"):
        make_settings("sac", "Ant-v4", pad_observations=0)


def test_a_flag_overrides_the_padding_of_a_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("*", {"pad_observations": 84}, "Ant-v4")
    monkeypatch.setitem(presets.PRESETS, "padded", Preset("the paper's Ant", (row,)))
    found = [resolve("sac", env, "padded").pad_observations for env in ("Ant-v4", "Ant-v5", "Hopper-v4")]
    assert found == [84, None, None]
    assert resolve("sac", "Ant-v4", "padded", pad_observations=None).pad_observations is None


@pytest.mark.parametrize(("zeros", "inputs"), [(None, 27), (84, 111)])
def test_zeros_shrink_the_initial_weights_of_ants_actor(zeros: int | None, inputs: int) -> None:
    """To ±1/√inputs; of tens of thousands of uniform weights the largest is near the bound."""
    settings = make_settings("sac", "Ant-v4", pad_observations=zeros)
    with contextlib.closing(make(settings.env, **settings.env_options)) as env:
        state = registry.find("sac").make(settings.hyper, env.spec).init(jax.random.key(0))
    (first,) = (leaf for leaf in jax.tree.leaves(state.actor.params) if leaf.shape == (inputs, 256))
    assert np.abs(first).max() == pytest.approx(inputs**-0.5, rel=0.01)
