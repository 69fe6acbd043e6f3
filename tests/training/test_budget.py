"""`--reuse budget:2h`: M from measured times, and its schedule, which repeats the run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killing import outcome

import smrl
from smrl.errors import SmrlError
from smrl.runs import checkpoint
from smrl.settings import make_settings
from smrl.smr.rules import Budget, is_built_in, rule_of
from smrl.training import budget
from smrl.training.budget import ReuseBudget, Times
from smrl.training.clock import Clock

SHORT: dict[str, Any] = {
    **{"warmup": 60, "max_episode_steps": 12, "eval_every": 50, "eval_episodes": 1, "batch_size": 8, "quiet": True},
    **{"actor_hidden": (8, 8), "critic_hidden": (8, 8), "checkpoint_seconds": 1e9},
}


def chosen(seconds: float, use: float, other: float, learn_every: int = 1) -> tuple[ReuseBudget, float]:
    """Play a run of 10,000 steps on a machine of constant speed; return the budget and the seconds it took."""
    settings = make_settings("sac", "Pendulum-v1", steps=10_000, warmup=1_000, reuse=f"budget:{seconds}s")
    clock = Clock(1, 1, 1_000, learn_every)
    plan = ReuseBudget(settings, Budget(seconds), clock)
    total = learning = 0.0
    uses, times = 0, 1
    for step in range(10_000):
        total += other
        for moment in clock.learning_steps(step):
            if plan.is_due(moment.env_step):
                times = plan.choose(Times(moment.env_step, total, learning, uses))
            assert times == plan.schedule.times((), moment.env_step), "the schedule is what was done"
            uses += times
            learning += times * use + (5.0 if moment.step == 1 else 0.0)  # the first waits for a compiler
            total += times * use + (5.0 if moment.step == 1 else 0.0)
    return plan, total


@pytest.mark.parametrize("learn_every", [1, 4])
def test_a_run_ends_in_time(learn_every: int) -> None:
    """9,000 learning steps of 1 ms per use and 1 ms else: 100 s leave 90 − 5 s for updates, so M is about 9."""
    plan, total = chosen(100, use=0.001 * learn_every, other=0.001, learn_every=learn_every)
    assert 90 < total <= 101
    assert set(plan.schedule.values[1:]) <= {8, 9, 10, 11, 12}
    assert len(plan.schedule.until) < 50


def test_a_budget_that_is_too_small_makes_one_update_per_batch() -> None:
    plan, _ = chosen(3, use=0.001, other=0.001)
    assert str(plan.schedule) == "1"


def test_the_schedule_repeats_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour is more than such a run can use, so M is the largest that is allowed; it differs when it continues."""
    monkeypatch.setattr(budget, "MIN_BLOCK", 20)
    for steps, largest in ((130, 3), (200, 2)):
        monkeypatch.setattr(budget, "LARGEST_REUSE", largest)
        run = smrl.train("sac", "Pendulum-v1", reuse="budget:1h", runs=tmp_path / "budget", steps=steps, **SHORT)
    saved = checkpoint.load(run.path / "checkpoint", print)
    assert saved is not None
    schedule = saved.facts["reuse"]
    assert schedule == "1:81,3:151,2"
    smrl.train("sac", "Pendulum-v1", reuse=schedule, runs=tmp_path / "schedule", steps=200, **SHORT)
    found, again = (outcome("Pendulum-v1", tmp_path / name) for name in ("budget", "schedule"))
    assert found[0] == again[0]
    assert found[1].pop("['rule']") == np.int32(2).tobytes()
    assert found[1] == again[1]


def test_texts() -> None:
    assert rule_of("budget:2h") == Budget(7200.0)
    assert [str(rule_of(f"budget:{text}")) for text in ("120m", "90s", "1.5h", "0.5s")] == [
        *("budget:2h", "budget:90s", "budget:90m", "budget:0.5s"),
    ]
    assert is_built_in("budget:2h")
    for text in ("budget:0s", "budget:-1h", "budget:2d", "budget:", "budget:999999999h"):
        with pytest.raises(SmrlError, match=r"not a reuse rule|more than 0 s"):
            rule_of(text)


def test_refusals() -> None:
    with pytest.raises(SmrlError, match="budget:2h is the time of a run of smrl train"):
        smrl.reuse(lambda state, batch, key: state, times="budget:2h")
    with pytest.raises(SmrlError, match="--reuse budget:2h is for simulators"):
        make_settings("sac", "Pendulum-v1", reuse="budget:2h", real_time=True)
