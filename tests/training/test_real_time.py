"""Runs in real time: one device, a learner beside it, pauses, refusals, and learning that can be repeated offline."""

import csv
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import clocked_envs
import numpy as np
import pytest
from clocked_envs import Clocked, Counter, Fast
from commands import refused_here, start
from killing import wait_for_checkpoint

import smrl
from smrl import presets
from smrl.cli.main import main
from smrl.envs.check import check
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.report.report import make_report, sections
from smrl.runs import checkpoint
from smrl.runs.identity import canonical
from smrl.runs.records import read_runs
from smrl.settings import Settings, make_settings
from smrl.training.agent import ActingParams
from smrl.training.hand_over import ActedStep, ActingPolicy, Timing
from smrl.training.real_time import preferred, repeat_learning
from smrl.training.signals import Interrupted
from smrl.types import ArraySpec, Continuous, Spec

TINY: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "batch_size": 8}
SHORT: dict[str, Any] = {"real_time": True, "steps": 200, "warmup": 60, "eval_every": 40, "reuse": 2} | TINY


@pytest.fixture(autouse=True)
def devices(in_tmp_path: Path) -> Iterator[list[Clocked]]:
    """All devices that were made; the working directory is empty."""
    Clocked.made.clear()
    yield Clocked.made
    assert sys.getswitchinterval() > 1e-3, "the interpreter is as it was"
    assert gc.get_freeze_count() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this priority")
def test_real_time_priority_is_for_one_thread_and_ends() -> None:
    def policy() -> int:
        return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK

    before = policy()
    started = list[int]()
    with preferred(20) as is_preferred:
        assert (policy() == os.SCHED_FIFO) == is_preferred
        thread = threading.Thread(target=lambda: started.append(policy()))
        thread.start()
        thread.join()
    assert started == [before]
    assert policy() == before


def test_a_run_without_the_right_to_priority_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse, raising=False)
    train(quiet=False, steps=80)
    assert "does not give this run real-time priority" in capsys.readouterr().err


def train(env: Any = Clocked, **settings: Any) -> smrl.Run:
    return smrl.train("sac", env, **SHORT | {"quiet": True} | settings)


def rows(run: smrl.Run, name: str = "training.csv") -> list[dict[str, str]]:
    with (run.path / name).open() as file:
        return list(csv.DictReader(file))


def saved(run: smrl.Run, replay: Replay | None = None) -> checkpoint.Saved:
    found = checkpoint.load(run.path / "checkpoint", print, replay)
    assert found is not None
    return found


def assert_repeatable(run: smrl.Run) -> None:
    arrays = saved(run).arrays
    for name, values in repeat_learning(run).items():
        assert values.tobytes() == arrays[name].tobytes(), name


def test_a_run_uses_one_device_and_keeps_its_ratio(devices: list[Clocked]) -> None:
    run = train()
    (device,) = devices
    assert (device.resets, len(device.taken), device.closed) == (5, 200, 1)
    assert [row["step"] for row in rows(run)][-1] == "200"
    arrays = saved(run).arrays
    assert arrays["real_time.reuse"].tolist() == [2] * 140, "one learning step per step after the warm-up"
    assert (np.diff(arrays["real_time.rows"]) >= 0).all()
    assert (arrays["real_time.rows"] > 60 + np.arange(140)).all()
    for row in rows(run):
        assert float(row["late_p50_ms"]) <= float(row["late_p99_ms"]) <= float(row["late_max_ms"])
        assert float(row["latency_p99_ms"]) > 0
        assert 0 <= int(row["acting_version"]) <= 140
        assert 0 <= int(row["backlog"]) <= 40, "it catches up between episodes"
        assert row["reuse"] == "2.0"
    assert len(smrl.evaluate(run, episodes=2, env=Clocked).returns) == 2
    assert (devices[1].resets, devices[1].closed, len(devices)) == (2, 1, 2), "an evaluation uses one device, too"


@pytest.mark.parametrize("reuse", ["realtime", pytest.param(2, marks=pytest.mark.slow)])
def test_learning_can_be_repeated_offline(reuse: int | str, devices: list[Clocked]) -> None:
    """The run is paused within an episode, and continues with a new one without repeating an action."""
    settings = {"reuse": reuse, "reset_every": 90, "n_step": 3, "checkpoint_seconds": 0}
    train(on_step=lambda status: status.step == 130, **settings)
    run = train(**settings)
    before, after = devices
    assert (len(before.taken), before.closed, len(after.taken), after.closed) == (130, 1, 70, 1)
    memory = Replay(1_000_000, Spec(ArraySpec((3,)), Continuous(1)), gamma=0.99)
    arrays = saved(run, memory).arrays
    ends = np.flatnonzero(memory.rows(0, 200)["last"]) + 1
    assert ends.tolist() == [40, 80, 120, 130, 170], "the pause has ended an episode"
    assert len(arrays["real_time.rows"]) == 140
    assert arrays["real_time.learned_to"] == 200
    assert_repeatable(run)


@pytest.mark.slow
def test_normalisation_data_and_a_warm_start_work_on_a_device() -> None:
    before = train(seed=1, normalise_observations=True)
    settings: dict[str, Any] = {"normalise_observations": True, "data": before.path, "from_run": str(before.path)}
    run = train(data_share=0.5, greedy_every=2, **settings)
    arrays = saved(run).arrays
    assert int(arrays["statistics.observations.count"]) == 400
    assert "best.mean" in arrays
    assert_repeatable(run)
    both = train(seed=2, normalise_observations=True, normalise_rewards=True)
    assert np.isfinite(saved(both).arrays["statistics.returns.squares"])
    with pytest.raises(SmrlError, match="with --normalise-rewards, whose statistics"):
        repeat_learning(both)


def test_steps_and_policies_are_handed_over_whole() -> None:
    """The device overwrites its observations, and updates overwrite the parameters in place."""
    settings: dict[str, Any] = {"real_time": True, "steps": 1_200, "warmup": 100, "eval_episodes": 0, "batch_size": 4}
    run = smrl.train("clocked_envs:pattern", Counter, reuse=3, eval_every=500, quiet=True, **settings)
    memory = Replay(1_000_000, Spec(ArraySpec((64,)), Continuous(1)), gamma=0.99)
    versions = saved(run, memory).arrays["real_time.rows"]
    stored = memory.rows(0, memory.added)
    expected = np.arange(1_200)[:, None] * 64 + np.arange(64)
    assert np.array_equal(stored["obs"], expected)
    assert np.array_equal(stored["reward"], np.arange(1, 1_201))
    ends = stored["successor_rows"]
    assert np.array_equal(stored["successors"], (ends[:, None] + 1) * 64 + np.arange(64))
    actions = stored["action"][100:, 0]
    assert (actions >= 0).all(), "some parameters were not those of one learning step"
    updates = 64 * actions
    assert (updates == updates.round()).all()
    assert len(set(updates.tolist())) > 20, "the policy changes while it acts"
    assert len(versions) == 1_100


def test_greedy_episodes_are_the_evaluations(devices: list[Clocked]) -> None:
    run = train(greedy_every=3, steps=360)
    (device,) = devices
    greedy = {40 * (number + 1): device.returns[number] for number in (2, 5, 8)}  # step at the end → return
    assert len(device.returns) == 9
    found = {int(row["step"]): float(row["mean"]) for row in rows(run, "evaluations.csv")}
    assert found == pytest.approx(greedy)
    training = {int(row["step"]): row["episode_return"] for row in rows(run)[1:]}  # the first row has all before it
    assert all((training[step] == "") == (step in greedy) for step in training), "they are no training episodes"
    assert saved(run).facts["best"]["mean"] == pytest.approx(max(greedy.values()))
    assert run.best_policy(np.zeros(3, np.float32)).shape == (1,)


def test_a_run_without_evaluations_has_its_training_returns(devices: list[Clocked]) -> None:
    run = train(eval_episodes=0)
    assert rows(run, "evaluations.csv") == []
    (record,) = read_runs(Path("runs"))
    count = len(record.returns) - 1  # without the first row, which is also about the episodes of the warm-up
    assert record.returns[1:] == pytest.approx(devices[0].returns[-count:])
    assert record.steps.tolist() == list(range(200, 0, -40))[len(record.steps) - 1 :: -1]
    report = make_report([Path("runs")])
    assert "training episodes" in str(sections(report))
    main(["report", "runs", "-o", "report.html"])
    assert "training episodes" in Path("report.html").read_text()


def test_ctrl_c_pauses_at_once(devices: list[Clocked]) -> None:
    def interrupt(status: smrl.Status) -> None:
        status.log("acted", status.step)
        assert (status.episode_return is None) == (not status.ended and status.last_episode is None)
        if status.step == 90:
            assert status.policy(np.zeros(3)).shape == (1,)
            with pytest.raises(SmrlError, match="without its critics"):
                status.policy.q_values(np.zeros(3))
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="saved"):
        train(on_step=interrupt)
    (device,) = devices
    assert 90 <= len(device.taken) <= 91
    assert device.closed == 1
    run = train()
    assert len(device.taken) + len(devices[1].taken) == 200
    assert len(saved(run).arrays["real_time.rows"]) == 140
    paused = [row for row in rows(run) if int(row["step"]) in (90, 91)]
    assert float(paused[-1]["acted"]) > 40, "what was logged since the row before is not lost"


@pytest.mark.slow
def test_max_minutes_stop_at_and_callbacks(devices: list[Clocked]) -> None:
    train(max_minutes=1e-9)
    assert devices.pop().taken == []
    seen: list[tuple[int, float]] = []

    def see(status: smrl.Status) -> None:
        seen.append((status.step, status.evaluation["mean"]))

    run = train(greedy_every=2, stop_at=-1e9, on_evaluation=see)
    assert seen == [(int(row["step"]), float(row["mean"])) for row in rows(run, "evaluations.csv")]
    assert len(seen) == 1
    assert saved(run).step < 200

    def fail(status: smrl.Status) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(seed=1, on_step=fail)
    assert [int(path.name) for path in Path("runs").glob("*/*/seed1/checkpoint/0*")] == [1]


def test_a_fault_of_the_device_keeps_everything_before_it() -> None:
    with pytest.raises(SmrlError, match=r"at step 101: Falls failed in step\(\) with OSError.*saved in"):
        train(clocked_envs.Falls)
    run = smrl.load(next(Path("runs").glob("*/*/seed0")), trust=True)
    assert saved(run).step == 100


def test_a_fault_of_the_learner_stops_the_device(devices: list[Clocked]) -> None:
    with pytest.raises(SmrlError, match="no episode so far has 50 steps"):
        train(n_step=50, windows="full")
    assert devices[0].closed == 1
    assert len(devices[0].taken) < 200


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"real_time": True, "envs": 2}, "one environment"),
        ({"real_time": True, "bias_every": 1_000}, "bias-every"),
        ({"real_time": True, "eval_episodes": 10}, "10 of every 10 episodes"),
        ({"real_time": True, "eval_episodes": 0, "greedy_every": 5}, "leave --greedy-every out"),
        ({"real_time": True, "control_period": 0}, "control_period must be a positive number"),
        ({"eval_episodes": 0}, "add --real-time"),
        ({"control_period": 0.02}, "add --real-time"),
        ({"greedy_every": 5}, "add --real-time"),
        ({"reuse": "realtime"}, "add --real-time"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SmrlError, match=message):
        presets.resolve("sac", "Pendulum-v1", **given)


def test_what_a_device_forbids(devices: list[Clocked], capsys: pytest.CaptureFixture[str]) -> None:
    device = "clocked_envs:Clocked"
    assert "add --real-time" in refused_here(capsys, "train", "sac", device)
    assert "smrl train" in refused_here(capsys, "compare", "sac", device, "--real-time")
    period = ("--real-time", "--control-period", "0.5")
    assert "leave --control-period 0.5 out" in refused_here(capsys, "train", "sac", device, *period)
    assert "give --control-period" in refused_here(capsys, "train", "sac", "Pendulum-v1", "--real-time")
    stop = ("--real-time", "--eval-episodes", "0", "--stop-at", "1")
    assert "--stop-at" in refused_here(capsys, "train", "sac", device, *stop)
    assert [finding.level for finding in check(Clocked)] == ["note", "note"]
    assert not any(device.resets for device in devices)
    assert len(devices) == 3
    assert not Path("runs").exists()


def test_a_period_that_the_machine_cannot_keep_is_refused(
    devices: list[Clocked], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--real-time", "--batch-size", 8, "--actor-hidden", 8, "--critic-hidden", 8, "--reuse", 2)
    message = refused_here(capsys, "train", "sac", "clocked_envs:Fast", *words)
    assert "longer than the control period of 0.001 ms" in message
    assert isinstance(devices[0], Fast)
    assert not devices[0].resets


def test_lateness_in_numbers_and_words() -> None:
    timing = Timing(period=0.02)
    obs, policy = np.zeros(3), ActingPolicy(0, ActingParams(None, None))
    timed = {"late": 0.0, "latency": 0.0004, "taken": 0.0196}
    step = ActedStep(0, 0, obs, obs, 0.0, obs, False, False, False, policy, False, None, **timed)
    for index in range(600):
        late = 0.006 if index % 50 == 1 else 0.001
        timing.add(step._replace(late=late if index else np.nan))
        if index < 500:
            assert timing.warning() is None, "a few steps prove nothing"
    values = timing.take()
    assert values["late_p50_ms"] == pytest.approx(1)
    assert values["late_max_ms"] == pytest.approx(6)
    assert values["latency_p99_ms"] == pytest.approx(0.4)
    assert np.isnan(timing.take()["late_p50_ms"]), "each row is about its own steps"
    assert timing.warning() == (
        "the control period of 20 ms is not kept: 2.0% of 599 steps were more than 5 ms late. The environment takes "
        "19.6 ms per step and choosing an action 0.4 ms (medians); see docs/robots.md."
    )


def test_settings_of_before_equal_those_without_real_time() -> None:
    settings = make_settings("sac", "Pendulum-v1").to_json()
    older = {name: value for name, value in settings.items() if name not in ("real_time", "control_period")}
    assert canonical(settings) == canonical(older)
    assert isinstance(make_settings("sac", "Pendulum-v1", **SHORT, eval_episodes=1), Settings)


COMMAND = ("train", "sac", "clocked_envs:Clocked", "--real-time", "--steps", 600, "--warmup", 60, "--reuse", 2)
MORE = ("--eval-every", 40, "--batch-size", 8, "--actor-hidden", 8, "--critic-hidden", 8, "--checkpoint-seconds", 0)


@pytest.mark.slow
def test_a_killed_run_continues(in_tmp_path: Path) -> None:
    runs = in_tmp_path / "runs"
    reached = 0
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        process = start(*COMMAND, *MORE, "--runs", runs)
        reached = wait_for_checkpoint(process, runs, reached)
        process.send_signal(number)
        process.communicate()
        assert process.returncode == (128 + signal.SIGTERM if number == signal.SIGTERM else -number)
    process = start(*COMMAND, *MORE, "--runs", runs)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert errors.count("not bit-identical") == errors.count("no action is repeated") == 1
    run = smrl.load(next(runs.glob("*/*/seed0")), trust=True)
    assert saved(run).step == 600
    assert_repeatable(run)


@pytest.mark.slow
def test_pendulum_is_learned() -> None:
    """Random actions return about -1,200 on average."""
    networks = {"actor_hidden": (64, 64), "critic_hidden": (64, 64), "batch_size": 128}
    settings = {"steps": 6_000, "warmup": 600, "eval_every": 1_000, "greedy_every": 3, "reuse": 4}
    run = train(clocked_envs.Learns, **networks, **settings, learning_rate=1e-3)
    assert run.record.returns[-3:].mean() > -500, run.record.returns
