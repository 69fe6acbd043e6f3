"""What a run shows and records while it is trained: its plan, rows of training.csv, lines, and no evaluation twice."""

import collections
import csv
import io
import time
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from broken_envs import Toy
from rich.console import Console

import smrl
from smrl.runs import doctor
from smrl.settings import RunOptions, make_settings
from smrl.studies import launch
from smrl.training import loop, progress, recorder
from smrl.training.clock import Clock
from smrl.training.estimate import Speed, Stopwatch, core_seconds, plan, run_seconds
from smrl.training.progress import Board

SHORT: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 10, "eval_episodes": 2, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,)}
MEASURED = {"seconds", "steps_per_second"}


class Counted(Toy):
    """Episodes of seven steps; counts how often it was reset with each seed."""

    seeds: ClassVar[collections.Counter[int | None]] = collections.Counter()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        Counted.seeds[seed] += 1
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, self.steps == 7, info


def train(runs: Path, **settings: Any) -> smrl.Run:
    Counted.seeds.clear()
    return smrl.train("ddpg", Counted, **SHORT | SMALL | {"quiet": True} | settings, runs=runs)


def rows(run: smrl.Run, name: str = "training.csv") -> list[dict[str, str]]:
    return list(csv.DictReader((run.path / name).read_text().splitlines()))


def test_rows_come_by_time_and_change_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "ROWS", 1e12)
    few = train(tmp_path / "few", log_seconds=1e6)
    assert [row["step"] for row in rows(few)] == ["30", "40", "50", "60"], "where evaluations are"
    run = train(tmp_path / "many", log_seconds=1e-9, on_step=lambda status: status.step == 33)
    many = train(tmp_path / "many", log_seconds=1e-9)
    steps = [int(row["step"]) for row in rows(many)]
    assert steps == sorted(steps)
    assert {5, 15, 25, 35} <= set(steps), "also during the warm-up and after it was continued"
    assert rows(many)[4]["critic_loss"] == ""
    assert [row["episode_return"] != "" for row in rows(many)[:8]] == [False] * 6 + [True, False], "when it ended"
    assert rows(many)[6]["episode_length"] == "7.0"
    assert float(rows(many)[-1]["updates"]) == float(rows(few)[-1]["updates"])
    assert (many.path / "evaluations.csv").read_bytes() == (few.path / "evaluations.csv").read_bytes()
    assert doctor.examine(run.path).is_intact


def test_rows_of_long_runs_are_rare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "ROWS", 1e-9)
    assert [row["step"] for row in rows(train(tmp_path, log_seconds=1e-9))] == ["30", "40", "50", "60"]


def test_an_untrained_policy_is_evaluated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = train(tmp_path / "once")
    assert Counted.seeds.most_common(3)[1][1] == 5, "at step 20 as at step 10, then after every change"
    assert Counted.seeds.most_common(3)[2][1] == 1
    monkeypatch.setattr(loop.Trainer, "_play_evaluation", lambda self, halt: [self._evaluator(self.agent.exploit)])
    always = train(tmp_path / "always")
    assert Counted.seeds.most_common(2)[1][1] == 6
    assert (once.path / "evaluations.csv").read_bytes() == (always.path / "evaluations.csv").read_bytes()


def test_a_policy_whose_statistics_change_is_evaluated_again(tmp_path: Path) -> None:
    train(tmp_path, normalise_observations=True)
    assert Counted.seeds.most_common(2)[1][1] == 6


def test_the_plan_and_how_long_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SHORT_SECONDS", 0.0)
    monkeypatch.setattr("smrl.training.estimate.LIVE_ROUNDS", 10)
    train(tmp_path, quiet=False, reuse=2)
    lines = [line.partition("seed 0: ")[2] for line in capsys.readouterr().err.splitlines()]
    told = [line for line in lines if line.startswith("DDPG with reuse 2; --reuse 1 is plain DDPG; 60 steps")]
    assert told[0] == lines[0] == "DDPG with reuse 2; --reuse 1 is plain DDPG; 60 steps"
    assert told[1].startswith(f"{told[0]}, about ")


def test_a_stopwatch_estimates_what_is_left() -> None:
    """Every round takes 1 ms to act and, at a reuse of 10, 20 ms to learn; the first one compiles for a minute."""
    settings = make_settings("sac", "Hopper-v4", steps=10_000, warmup=1_000, eval_every=1_000, reuse="10:6000,5")
    clock = Clock(1, 1, 1_000, 1)
    stopwatch = Stopwatch(settings, clock, 500)
    for step in range(10_000):
        seconds = 0.001 if step < 1_000 else 60.0 if step == 1_000 else 0.021
        if (left := stopwatch.add(step, seconds, partial(max, 0, 10 * (step - 999)))) is not None:
            break
    assert 1_100 < step < 1_200, "after three seconds"
    evaluations = 10 * 10 * 500 * 0.001
    whole = 10_000 * 0.001 + evaluations + 0.002 * (10 * 5_000 + 5 * 4_000)
    assert left == pytest.approx(whole * (10_000 - step) / 10_000)
    assert run_seconds(settings, Speed(0.001, 0.002, 1, 500)) == pytest.approx(whole)


def test_a_line_at_least_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress.LINE_SECONDS + progress.POLL_SECONDS <= 10
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.1)
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.01)
    text = io.StringIO()
    with Board(quiet=False, console=Console(file=text, soft_wrap=True, highlight=False)) as board:
        board.progress("waits", 100)
        shown = board.progress("SAC", 100)
        shown.begin(0)
        for step, lines in ((50, 2), (51, 4)):
            shown.advance(step)
            end = time.monotonic() + 10
            while text.getvalue().count("\n") < lines and time.monotonic() < end:
                time.sleep(0.01)
    first, second, *others = text.getvalue().splitlines()
    assert first.startswith("SAC: step 50 of 100, ")
    assert first.endswith(" s left")
    assert second == "SAC: still at step 50 of 100"
    assert not any(line.endswith(" left") for line in others), "one step, which compiles, does not tell how long"
    assert "waits" not in text.getvalue()


def test_several_runs_say_how_long_they_take(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    several = [make_settings("ddpg", "Pendulum-v1", **SHORT | SMALL | {"reuse": reuse}) for reuse in (1, 10)]
    assert plan(several) == "2 runs: DDPG with reuse 1 and 10 on Pendulum-v1; 60 steps each"
    assert launch._duration(several, RunOptions(runs=tmp_path), 2) == "", "it would take longer to measure"
    monkeypatch.setattr(launch, "TIMED_STEPS", 100)
    assert launch._duration(several, RunOptions(runs=tmp_path), 2).startswith(", about ")
    short, long = core_seconds(several)
    assert 0 < short < long
