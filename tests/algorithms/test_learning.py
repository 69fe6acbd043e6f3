"""Every algorithm must learn a small real task: Pendulum-v1 in 2,500 steps, of which 500 are random."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from specs import CONTINUOUS

import smrl

SOLVED, HOPELESS = -300, -500  # a random policy returns about -1,200; the best possible is about -150
SEEDS = (0, 1, 2)
SMALL: dict[str, Any] = {"actor_hidden": (64, 64), "critic_hidden": (64, 64)}
FEWER: dict[str, dict[str, Any]] = {  # all critics and fresh batches of the paper would take an hour
    "tqc": {"critics": 2, "atoms": 10},
    "redq": {"critics": 4, "fresh_batches": 2},
}
CRITICS: list[dict[str, Any]] = [
    {"network": "simba", "critic_hidden": (32, 32), "actor_hidden": (32,)},
    SMALL | {"critic_hidden": (64, 64, 64), "layer_norm": True, "weight_projection": True},
]
PAPER_SIZES = {"ddpg", "td3", "sac"}  # where these do not take hours
MAY_FORGET = {"ddpg"}  # overestimation, which reuse accumulates (the paper on Ant), can undo what was learned


def returns(algorithm: str, reuse: int, seed: int, runs: Path, **networks: Any) -> np.ndarray:
    """The mean return of every evaluation."""
    settings: dict[str, Any] = {"steps": 2500, "warmup": 500, "eval_every": 250} | FEWER.get(algorithm, {}) | networks
    run = smrl.train(algorithm, "Pendulum-v1", reuse=reuse, seed=seed, runs=runs, quiet=True, **settings)
    return run.record.returns


@pytest.mark.parametrize(
    "algorithm", [name if name == "sac" else pytest.param(name, marks=pytest.mark.slow) for name in CONTINUOUS]
)
def test_one_seed_solves_it_with_reuse(algorithm: str, tmp_path: Path) -> None:
    assert returns(algorithm, 10, 0, tmp_path, **SMALL).max() >= SOLVED


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", CONTINUOUS)
def test_reuse_solves_what_the_base_algorithm_does_not(algorithm: str, tmp_path: Path) -> None:
    """In the mean of three seeds, at the same number of interactions."""
    networks = {} if algorithm in PAPER_SIZES else SMALL
    with_reuse = np.mean([returns(algorithm, 10, seed, tmp_path, **networks) for seed in SEEDS], axis=0)
    base = np.mean([returns(algorithm, 1, seed, tmp_path, **networks) for seed in SEEDS], axis=0)
    assert with_reuse.max() >= SOLVED
    assert with_reuse[-1] >= SOLVED or algorithm in MAY_FORGET
    assert base.max() < HOPELESS


@pytest.mark.slow
@pytest.mark.parametrize("networks", CRITICS, ids=["simba", "projected"])
def test_other_critics_solve_it_with_reuse(networks: dict[str, Any], tmp_path: Path) -> None:
    assert returns("sac", 10, 0, tmp_path, **networks).max() >= SOLVED


class Task(NamedTuple):
    steps: int
    warmup: int
    solved: float  # what the best evaluation with reuse 10 reaches
    hopeless: float  # and none without


SUITES = {
    "InvertedPendulum-v5": Task(3000, 500, solved=900, hopeless=300),
    "dmc/cartpole-balance": Task(8000, 2000, solved=900, hopeless=700),
    "HopperMuJoCoEnv-v0": Task(5000, 1000, solved=300, hopeless=150),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "env"),
    [("dqn", "smrl/Catch-v0"), ("sac_pixels", "smrl/CatchContinuous-v0"), ("drqv2", "smrl/CatchContinuous-v0")],
)
def test_images_are_learned_from(algorithm: str, env: str, tmp_path: Path) -> None:
    """A random policy catches a few balls; a return of 0.8 is nine of ten."""
    run = smrl.train(algorithm, env, runs=tmp_path, quiet=True)
    assert run.record.returns.max() >= 0.8


@pytest.mark.slow
def test_dqn_balances_the_pole_with_reuse(tmp_path: Path) -> None:
    """Every seed nearly solves it (475 of 500), and the mean of three learns faster than without reuse."""

    def learned(reuse: int, seed: int, steps: int) -> np.ndarray:
        run = smrl.train("dqn", "CartPole-v1", reuse=reuse, seed=seed, steps=steps, runs=tmp_path, quiet=True)
        return run.record.returns

    with_reuse = np.array([learned(10, seed, 10_000) for seed in SEEDS])
    base = np.array([learned(1, seed, 3_000) for seed in SEEDS])
    assert with_reuse.max(axis=1).min() >= 400  # one-step targets that are copied every 100 steps stay below 300
    assert with_reuse[:, : base.shape[1]].mean() >= 1.5 * base.mean()


@pytest.mark.slow
@pytest.mark.parametrize("env", SUITES)
def test_reuse_learns_a_task_of_every_suite(env: str, tmp_path: Path) -> None:
    """The best of the evaluations, for the policies of so few interactions are not stable yet."""
    task = SUITES[env]
    settings: dict[str, Any] = {"steps": task.steps, "warmup": task.warmup, "eval_every": 500, "eval_episodes": 5}
    best = [
        smrl.train("sac", env, reuse=reuse, runs=tmp_path, quiet=True, **settings).record.returns.max()
        for reuse in (1, 10)
    ]
    assert best[0] < task.hopeless
    assert best[1] >= task.solved
