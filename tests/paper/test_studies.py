"""The paper's figures and tables as runs: how many, which, and at a fraction of their steps."""

import dataclasses
from collections import Counter

import pytest

from smrl.errors import SmrlError
from smrl.paper.studies import STUDIES, labels, runs, scaled, to_train
from smrl.presets import resolve
from smrl.training.estimate import Speed, run_seconds


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gym", 4 * 8 * 6),
        ("performance", 2 * 3 * 6),
        ("smr-ratio", 2 * 5 * 6),
        ("utd", 4 * 3 * 6),
        ("overfitting", (1 + 3 + 1 + 1 + 3 + 2) * 6),
        ("drqv2", 6 * 2 * 6),
        ("longer", 16 * 2 * 6),
        ("pong", 2 * 5),
        ("atari", 4 * 2 * 5),
        ("lr-sweep", 2 * 2 * 4 * 6),
    ],
)
def test_number_of_runs(name: str, count: int) -> None:
    assert len(runs(STUDIES[name])) == count


@pytest.mark.parametrize(("name", "trained", "shown"), [("scores", (4 * 4 + 3) * 3, (6 * 4 + 3) * 3), ("pong", 10, 10)])
def test_one_run_serves_the_newest_policy_and_its_average(name: str, trained: int, shown: int) -> None:
    several = runs(STUDIES[name])
    assert (len(to_train(several)), len(several)) == (trained, shown)
    assert {one.average_policy for one in to_train(several)} == {one.average_policy for one in several}


def test_all_studies_can_be_run_at_any_scale() -> None:
    for name, study in STUDIES.items():
        for scale in (1.0, 0.01):
            for one in runs(study, scale, seeds=1):
                assert one.steps % one.eval_every == 0, (name, one.env)
                assert one.eval_every % one.action_repeat == 0, (name, one.env)


def test_budgets() -> None:
    budgets = {name: Counter((one.steps, one.reuse) for one in runs(study, seeds=1)) for name, study in STUDIES.items()}
    assert budgets["gym"] == {(300_000, "1"): 16, (300_000, "10"): 12, (300_000, "5"): 4}
    assert budgets["utd"] == {(1_000_000, "1"): 8, (1_000_000, "10"): 4}
    assert budgets["atari"] == {(steps, reuse): n for steps, n in ((10**6, 1), (4 * 10**6, 3)) for reuse in ("1", "2")}
    assert budgets["pixels-sac"] == {(100_000, "1"): 4, (100_000, "5"): 4}
    assert {one.hyper.learning_rate_factor for one in runs(STUDIES["learning-rate"], seeds=1)} == {1.0, 10.0}
    assert {one.fresh_batches for one in runs(STUDIES["performance"], seeds=1)} == {1, 10}


def test_fraction_of_the_steps() -> None:
    full = resolve("sac", "dmc/cheetah-run", reuse="100000:5001,1", reset_every=200_000)
    small = scaled(full, 0.01)
    assert (small.action_repeat, small.steps, small.eval_every) == (4, 20 * 252, 252)
    assert (small.warmup, small.reset_every, small.eval_episodes) == (48, 2_000, 10)
    assert small.reuse == "100000:49,1", "many updates at the first learning step and at no other"
    assert scaled(full, 1.0) is full
    assert scaled(resolve("drqv2", "dmc-pixels/cheetah-run"), 0.1).hyper.noise_steps == 50_000


def test_tasks_by_pattern() -> None:
    assert {one.env for one in runs(STUDIES["gym"], seeds=1, patterns=["H*"])} == {"HalfCheetah-v4", "Hopper-v4"}
    with pytest.raises(SmrlError, match=r"has no task 'Hoper-v4' among .*; did you mean Hopper-v4\?"):
        runs(STUDIES["gym"], patterns=["Hoper-v4"])


def test_labels_are_distinct() -> None:
    for name, study in STUDIES.items():
        labelled = sum(len(grid.ids()) for grid in study.runs if grid.label)
        assert len(labels(study)) == labelled, f"{name} labels a grid of several combinations, or one twice"
        assert max(Counter(labels(study).values()).values(), default=0) <= len({one.env for one in runs(study)}), name


def test_estimate_of_seconds() -> None:
    """1,000 steps of a millisecond, ten evaluations of ten episodes, and 2 updates until step 500, then 1."""
    settings = resolve(
        "sac", "Hopper-v4", steps=1_000, warmup=100, eval_every=100, eval_episodes=10, reuse="2:500,1", action_repeat=1
    )
    speed, played = Speed(1e-3, 1e-2, learn_every=1), (1_000 + 10 * 10 * 1_000) * 1e-3
    assert run_seconds(settings, speed) == pytest.approx(played + (2 * 400 + 500) * 1e-2)
    auto = dataclasses.replace(settings, reuse="auto:4")
    assert run_seconds(auto, speed) == pytest.approx(played + 4 * 900 * 1e-2), "auto starts at 10 or its ceiling"
