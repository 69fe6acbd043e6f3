"""The training loop: callbacks, limits, the best policy, and what is closed and read on the way."""

import csv
import json
import signal
import time
from pathlib import Path
from typing import Any

import commands
import gymnasium
import numpy as np
import pytest
from broken_envs import Toy

import smrl
from smrl import reading
from smrl.errors import SmrlError
from smrl.runs import checkpoint
from smrl.training.clock import Clock

SHORT: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 10, "eval_episodes": 2, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "quiet": True}


def train(runs: Path, env: Any = "Pendulum-v1", **settings: Any) -> smrl.Run:
    return smrl.train("ddpg", env, **SHORT | SMALL | settings, runs=runs)


def saved_step(run: smrl.Run) -> int:
    saved = checkpoint.load(run.path / "checkpoint", print)
    assert saved is not None
    return saved.step


def rows(file: Path) -> list[dict[str, str]]:
    with file.open() as lines:
        return list(csv.DictReader(lines))


def test_a_callback_stops_the_run_and_it_can_be_continued(tmp_path: Path) -> None:
    seen: list[tuple[int, float]] = []

    def on_evaluation(status: smrl.Status) -> bool:
        seen.append((status.step, status.evaluation["mean"]))
        assert status.run.record.returns[-1] == status.evaluation["mean"], "the files have it already"
        return status.step == 30

    steps: list[int] = []
    run = train(tmp_path, on_evaluation=on_evaluation, on_step=lambda status: steps.append(status.step))
    assert [step for step, _ in seen] == [10, 20, 30]
    assert steps == list(range(1, 31))
    assert saved_step(run) == 30
    whole = train(tmp_path / "whole")
    assert saved_step(train(tmp_path)) == 60
    assert (run.path / "evaluations.csv").read_bytes() == (whole.path / "evaluations.csv").read_bytes()


def test_on_step_stops_the_run(tmp_path: Path) -> None:
    assert saved_step(train(tmp_path, on_step=lambda status: status.step == 7)) == 7


def test_stop_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(tmp_path, stop_at=-1e6, quiet=False)
    assert saved_step(run) == 10
    assert "has reached -1e+06" in capsys.readouterr().err
    assert saved_step(train(tmp_path, stop_at=-1e6)) == 10, "the same command leaves it alone"
    assert saved_step(train(tmp_path, stop_at=1e6)) == 60


def test_max_minutes(tmp_path: Path) -> None:
    run = train(tmp_path, max_minutes=1e-9)
    assert saved_step(run) == 0
    assert saved_step(train(tmp_path)) == 60


class Falling(Toy):
    """Every evaluation is worse than the one before."""

    evaluations = 0

    def step(self, action: Any) -> Any:
        obs, _, terminated, _, info = super().step(action)
        return obs, float(-Falling.evaluations), terminated, self.steps == 5, info


def test_the_best_policy_is_kept_beside_the_newest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Falling.evaluations = 0

    def keep(status: smrl.Status) -> None:
        Falling.evaluations += 1

    run = train(tmp_path, Falling, on_evaluation=keep, steps=30, learning_rate=0.1)
    first = train(tmp_path / "first", Falling, steps=30, learning_rate=0.1, on_step=lambda status: status.step == 10)
    obs = np.random.default_rng(0).standard_normal((50, 2))
    newest, best = run.policy(obs), run.best_policy(obs)
    assert np.abs(newest - best).max() > 1e-3
    np.testing.assert_array_equal(best, first.policy(obs))
    continued = train(tmp_path, Falling, on_evaluation=keep, steps=60, learning_rate=0.1)
    np.testing.assert_array_equal(continued.best_policy(obs), best, err_msg="also after the run went on")
    assert smrl.evaluate(run, 3, best=True, env=Falling).returns.shape == (3,)


def test_environments_are_closed_however_the_run_ends(tmp_path: Path) -> None:
    open_now: set[int] = set()

    class Counted(Toy):
        def __init__(self) -> None:
            super().__init__()
            open_now.add(id(self))

        def step(self, action: Any) -> Any:
            obs, reward, terminated, _, info = super().step(action)
            return obs, reward, terminated, self.steps == 5, info

        def close(self) -> None:
            open_now.discard(id(self))

    def fail(status: smrl.Status) -> None:
        if status.step == 40:
            assert len(open_now) > 3
            raise RuntimeError("a user's mistake")

    settings: dict[str, Any] = {"env_name": "counted", "envs": 2, "bias_every": 10}
    with pytest.raises(RuntimeError, match="a user's mistake"):
        train(tmp_path, lambda: Counted(), on_step=fail, **settings)
    assert not open_now
    train(tmp_path, lambda: Counted(), **settings)
    assert not open_now
    train(tmp_path, lambda: Counted(), **settings)  # finished already
    assert not open_now


def test_a_checkpoint_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path, on_step=lambda status: status.step == 30)
    read: list[str] = []
    load_arrays = reading.load_arrays

    def counted(path: Path) -> dict[str, np.ndarray]:
        read.append(path.name)
        return load_arrays(path)

    monkeypatch.setattr(checkpoint, "load_arrays", counted)
    train(tmp_path)
    assert read.count("arrays.npz") == 1
    assert len(read) == len(set(read))


def test_updates_per_step_do_not_depend_on_the_number_of_environments(tmp_path: Path) -> None:
    logged = [
        rows(train(tmp_path / str(envs), reuse=3, fresh_batches=2, envs=envs).path / "training.csv") for envs in (1, 4)
    ]
    names = ("step", "fresh_batch_updates", "same_batch_updates", "updates", "uses_per_transition")
    one, four = ([[row[name] for name in names] for row in table] for table in logged)
    assert [row[1:4] for row in one] == [["2", "4.0", str(6 * n)] for n in (10, 20, 30, 40)]
    assert [row[1:3] for row in four] == [row[1:3] for row in one]
    assert four[-1][3:] == one[-1][3:]


def test_another_processor_or_backend_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(tmp_path)
    file = run.path / "config.json"
    config = json.loads(file.read_text())
    assert config["backend"] == "cpu"
    assert config["cpu"]
    file.write_text(json.dumps(config | {"cpu": "Intel 4004", "backend": "gpu"}))
    train(tmp_path, steps=70, quiet=False)
    messages = capsys.readouterr().err
    assert "the processor was Intel 4004 and is" in messages
    assert "the backend of JAX was gpu and is cpu now" in messages


def make_first() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("Pendulum-v1", g=1.0)


def test_environments_of_two_functions_do_not_share_a_run(tmp_path: Path) -> None:
    """Two lambdas need names; a function that was edited is refused under its old name."""
    heavy = train(tmp_path, lambda: gymnasium.make("Pendulum-v1", g=20.0), env_name="heavy")
    light = train(tmp_path, lambda: gymnasium.make("Pendulum-v1", g=1.0), env_name="light")
    assert heavy.path != light.path
    with pytest.raises(SmrlError, match="env_name"):
        train(tmp_path, lambda: gymnasium.make("Pendulum-v1"))
    run = train(tmp_path, make_first)
    assert run.settings.env.endswith(":make_first")
    config = json.loads((run.path / "config.json").read_text())
    (run.path / "config.json").write_text(json.dumps(config | {"env_source": "0123"}))
    with pytest.raises(SmrlError, match="the function that makes it has changed"):
        train(tmp_path, make_first)
    for refused in (heavy.make_env, lambda: smrl.evaluate(heavy)):
        with pytest.raises(SmrlError, match=r"smrl\.evaluate\(smrl\.load\('.*'\), env=that_function\)"):
            refused()
    assert len(smrl.evaluate(heavy, 2, env=lambda: gymnasium.make("Pendulum-v1", g=20.0)).returns) == 2


def test_a_signal_stops_an_evaluation_without_loss(tmp_path: Path) -> None:
    """The evaluation would take minutes; it is made when the run goes on."""
    words = ["train", "ddpg", "slow_envs:Slow-v0", "--steps", "20", "--warmup", "5", "--eval-every", "10"]
    words += ["--reuse", "1", "--eval-episodes", "1", "--runs", str(tmp_path / "runs")]
    process = commands.start(*words, SLOW_EVALUATION="1", EVALUATING=str(tmp_path / "evaluating"))
    while not (tmp_path / "evaluating").exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)  # the whole evaluation would take 400 seconds
    assert process.returncode == 143, errors
    assert "stopped by SIGTERM at step 10 and saved" in errors
    (evaluations,) = tmp_path.glob("runs/*/*/seed0/evaluations.csv")
    assert not rows(evaluations)
    code, _, errors = commands.run(*words)
    assert code == 0, errors
    assert [row["step"] for row in rows(evaluations)] == ["10", "20"]


def test_clock() -> None:
    clock = Clock(envs=2, action_repeat=3, warmup=10, learn_every=2)
    moments = [moment for step in range(0, 60, clock.stride) for moment in clock.learning_steps(step)]
    assert [moment.step for moment in moments] == list(range(1, len(moments) + 1))
    assert [moment.env_step for moment in moments] == [11 + 6 * index for index in range(len(moments))]
    assert list(clock.learned_at(60))[: len(moments)] == [moment.env_step for moment in moments]
    assert [step for step in range(0, 60, 6) if clock.is_due(step, 20)] == [24, 42]
    assert not clock.is_due(0, 20)
    assert not clock.is_due(60, None)


@pytest.mark.slow
def test_a_run_keeps_its_threads(tmp_path: Path) -> None:
    """Begun with one thread, it is continued with one by a process that would use all cores."""
    words = (
        "train",
        "ddpg",
        "Pendulum-v1",
        "--warmup",
        "20",
        "--eval-every",
        "20",
        "--reuse",
        "1",
        "--eval-episodes",
        "1",
    )
    for steps, more in ((40, ("--threads", "1")), (60, ())):
        code, _, errors = commands.run(*words, "--steps", steps, *more, "--runs", tmp_path, SMRL_THREADS="")
        assert code == 0, errors
    assert "continuing at step 40" in errors
    (config,) = tmp_path.glob("*/*/seed0/config.json")
    assert json.loads(config.read_text())["threads"] == 1
