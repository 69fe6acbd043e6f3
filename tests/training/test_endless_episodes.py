"""Endless episodes: limits, warnings and signals."""

import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken_envs import NeverEnds, TimeAsTermination

import smrl
from smrl.envs.make import make
from smrl.errors import SmrlError
from smrl.runs.config import checksum
from smrl.settings import make_settings
from smrl.training import evaluator
from smrl.training.evaluator import Evaluator
from smrl.training.signals import Interrupted

SHORT: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 30, "eval_episodes": 2, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,)}


def still(obs: np.ndarray) -> np.ndarray:
    return np.zeros((len(obs), 1), np.float32)


@pytest.mark.parametrize(("repeat", "agent_steps"), [(1, 7), (3, 3)])
def test_a_limit_counts_environment_steps(repeat: int, agent_steps: int) -> None:
    """Also where an action is repeated: the seventh step ends the third action early."""
    env = make(NeverEnds, action_repeat=repeat, max_episode_steps=7)
    for _ in range(2):
        env.reset(0)
        ends = [env.step(np.zeros(1, np.float32))[2:] for _ in range(agent_steps)]
        assert ends == [(False, False)] * (agent_steps - 1) + [(False, True)], "a time-out is no termination"
    env.close()


def test_a_limit_above_the_length_of_an_episode_has_no_effect() -> None:
    env = make(TimeAsTermination, max_episode_steps=30)
    env.reset(0)
    ends = [env.step(np.zeros(1, np.float32))[2:] for _ in range(20)]
    assert ends[-1] == (True, False)
    env.close()


def test_training_evaluation_and_bias_are_limited(tmp_path: Path) -> None:
    lengths: list[int] = []

    class Endless(NeverEnds):
        def reset(self, **options: Any) -> Any:
            lengths.append(self.steps)
            return super().reset(**options)

    settings: dict[str, Any] = {"env_name": "endless", "max_episode_steps": 9, "bias_every": 30}
    run = smrl.train("ddpg", Endless, **SHORT | SMALL | settings, runs=tmp_path, quiet=True)
    assert run.record.steps.tolist() == [30, 60]
    assert max(lengths) == 9
    assert "episodesteps9" in str(run.path)


def test_a_limit_must_be_a_count() -> None:
    assert make_settings("sac", "Pendulum-v1").max_episode_steps is None
    with pytest.raises(SmrlError, match="max_episode_steps must be a whole number of at least 1 or None, not 0"):
        make_settings("sac", "Pendulum-v1", max_episode_steps=0)


def test_a_run_without_the_setting_is_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings: dict[str, Any] = {**SHORT, **SMALL, "runs": tmp_path}
    old = smrl.train("ddpg", "Pendulum-v1", **settings | {"steps": 30})
    file = old.path / "config.json"
    config = json.loads(file.read_text())
    del config["settings"]["max_episode_steps"]
    file.write_text(json.dumps(config | {"checksum": checksum(config)}))
    new = smrl.train("ddpg", "Pendulum-v1", **settings)
    assert new.path == old.path
    assert "continuing at step 30" in capsys.readouterr().err


def test_an_endless_evaluation_is_warned_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "ENDLESS", 10)
    messages: list[str] = []
    endless, steps = Evaluator(partial(make, NeverEnds), 2, 0, notify=messages.append), list[int]()
    for _ in range(2):
        steps.clear()
        assert endless(lambda obs: steps.append(1) or still(obs), halt=lambda: len(steps) == 30) is None  # type: ignore[func-returns-value]
    endless.close()
    (message,) = messages
    assert "has not ended after 10 steps" in message
    assert "--max-episode-steps" in message


class Signals(NeverEnds):
    """Sends a signal to its own process while its episode is replayed."""

    when = 0
    seen = 0

    def step(self, action: Any) -> Any:
        if Signals.when == self.steps + 1:
            os.kill(os.getpid(), signal.SIGTERM)
        Signals.seen = self.steps
        return super().step(action)


def test_a_signal_stops_the_replay_of_an_episode(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SHORT, **SMALL, "eval_every": 1000, "steps": 300, "runs": tmp_path}
    Signals.when = 0
    smrl.train("ddpg", Signals, **settings, on_step=lambda status: status.step == 200)
    Signals.when = 50
    with pytest.raises(Interrupted, match="SIGTERM") as caught:
        smrl.train("ddpg", Signals, **settings)
    assert caught.value.exit_code == 128 + signal.SIGTERM
    assert Signals.seen < 60, "not after all 200 steps"
    Signals.when = 0
    smrl.train("ddpg", Signals, **settings)
