"""Runs with held-out episodes and with `--reuse auto`."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killing import outcome
from specs import DISCRETE, FROM_IMAGES

import smrl
from smrl.algorithms import registry
from smrl.errors import SmrlError
from smrl.memory.replay import Replay, is_held_out
from smrl.runs import checkpoint
from smrl.settings import make_settings
from smrl.training.agent import Agent, refuse_probing
from smrl.training.memory_budget import replay_of
from smrl.types import ArraySpec, Continuous, Discrete, Spec

SHORT: dict[str, Any] = {
    **{"warmup": 60, "max_episode_steps": 12, "eval_every": 50, "eval_episodes": 1, "batch_size": 8, "quiet": True},
    **{"actor_hidden": (8, 8), "critic_hidden": (8, 8), "checkpoint_seconds": 1e9, "envs": 2, "n_step": 2},
}
ENV = "Pendulum-v1"
AUTO: dict[str, Any] = {"reuse": "auto_rules:quick", "normalise_rewards": True}


def train(runs: Path, steps: int, **settings: Any) -> smrl.Run:
    return smrl.train("sac", ENV, runs=runs, steps=steps, **SHORT | settings)


def rows_of(run: smrl.Run) -> Replay:
    spec = Spec.from_json(run.config["spec"])
    replay = replay_of(run.settings, spec, run.path, print)
    assert checkpoint.load(run.path / "checkpoint", print, replay)
    return replay


@pytest.fixture(scope="module")
def auto(tmp_path_factory: pytest.TempPathFactory) -> smrl.Run:
    return train(tmp_path_factory.mktemp("auto"), 200, diagnostics=True, **AUTO)


def test_a_run_continues_bit_for_bit_and_diagnostics_change_nothing(auto: smrl.Run, tmp_path: Path) -> None:
    train(tmp_path, 130, **AUTO)  # ends within an episode, and between two changes of M
    train(tmp_path, 200, **AUTO)
    assert outcome(ENV, tmp_path) == outcome(ENV, auto.path.parents[2])


def test_diagnostics_are_recorded(auto: smrl.Run) -> None:
    with (auto.path / "training.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    norms = {f"{network}_{kind}_norm" for network in ("actor", "critic") for kind in ("weight", "gradient")}
    units, values = {"dormant_actor", "dormant_critic", "critic_rank"}, {"q_mean", "q_over_return", "td_error_ratio"}
    assert np.isfinite([float(last[name]) for name in norms | units | values]).all()


def test_m_is_recorded_and_changes(auto: smrl.Run) -> None:
    with (auto.path / "training.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = [float(row["reuse"]) for row in rows]
    assert len(set(found)) > 1
    learned = np.diff([60, *(int(row["step"]) for row in rows)])
    assert float(rows[-1]["updates"]) == pytest.approx(np.dot(found, learned))


def test_held_out_rows_are_those_of_the_collected_episodes(auto: smrl.Run) -> None:
    """Every environment plays episodes of 12 steps; two begin at a time, with consecutive numbers."""
    expected = [is_held_out(2 * (row // 24) + row % 2) for row in range(200)]
    assert any(expected)
    np.testing.assert_array_equal(rows_of(auto).rows(0, 200)["held_out"], expected)


@pytest.mark.slow
def test_hold_out_without_a_rule(tmp_path: Path) -> None:
    plain = train(tmp_path, 100, reuse=1)
    train(tmp_path, 80, reuse=1, hold_out=True)
    held_out = train(tmp_path, 100, reuse=1, hold_out=True)
    again = train(tmp_path / "once", 100, reuse=1, hold_out=True)
    assert plain.path != held_out.path
    assert "held_out" not in rows_of(plain).rows(0, 100)
    assert outcome(ENV, again.path.parents[2])[0] == (held_out.path / "evaluations.csv").read_bytes()


def test_an_algorithm_without_a_critic_loss_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SmrlError, match="the update reports no 'critic_loss'"):
        smrl.train("auto_rules:silent", ENV, reuse="auto", runs=tmp_path, steps=100, warmup=50, quiet=True)
    assert not list(tmp_path.rglob("config.json"))


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.names())
def test_every_algorithm_of_smrl_reports_what_the_rule_needs(name: str) -> None:
    kind = registry.find(name)
    obs = ArraySpec((84, 84, 9), "uint8", 3) if name in FROM_IMAGES else ArraySpec((3,))
    spec = Spec(obs, Discrete(3) if name in DISCRETE else Continuous(2))
    refuse_probing(kind.make(kind.config(), spec), smrl.Auto(), spec)


def test_gamma_of_the_run_is_that_of_the_rule() -> None:
    settings = make_settings("sac", ENV, reuse="auto", gamma=0.9)
    spec = Spec.from_json({"obs": {"shape": [3], "dtype": "float32"}, "action": {"size": 1}})
    assert Agent(settings, spec)._rule == smrl.Auto(gamma=0.9)
