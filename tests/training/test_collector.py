"""Environments that are shared are refused; nondeterministic ones are reported."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken_envs import LIMIT, Toy

import smrl
from smrl.errors import SmrlError

SHORT: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 30, "eval_episodes": 2, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "env_name": "toy"}


def train(runs: Path, env: Callable[[], Any], **settings: Any) -> smrl.Run:
    return smrl.train("ddpg", env, **SHORT | SMALL | settings, runs=runs)


class Ending(Toy):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps >= LIMIT, info


def test_one_shared_environment_is_refused(tmp_path: Path) -> None:
    env = Ending()
    with pytest.raises(SmrlError, match="returned the same environment twice: return a new one from every call"):
        train(tmp_path, lambda: env)
    assert not list(tmp_path.glob("**/evaluations.csv"))
    run = train(tmp_path, Ending)
    with pytest.raises(SmrlError, match="the same environment twice"):
        smrl.evaluate(run, 2, env=lambda: env)
    assert len(smrl.evaluate(run, 1, env=lambda: env).returns) == 1


@pytest.mark.parametrize("last", [{"bias_every": 30}, {}])
def test_evaluation_and_bias_share_no_environment_with_training(tmp_path: Path, last: dict[str, Any]) -> None:
    """The function has made enough environments for training, and then begins anew."""
    made: list[Ending] = []
    calls = 0

    def make_some() -> Ending:
        nonlocal calls
        calls += 1
        if calls <= (5 if last else 3):  # one to look at, two to train in, two to evaluate in
            made.append(Ending())
        return made[-1] if len(made) == calls else made[1]

    with pytest.raises(SmrlError, match="the same environment twice"):
        train(tmp_path, make_some, envs=2, **last)


class Changed(Ending):
    """Begins elsewhere in a second process, of which the class attribute stands."""

    change = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        _, info = super().reset(seed=seed)
        self.state += Changed.change == "reset"
        return self.state.copy(), info

    def step(self, action: Any) -> Any:
        if Changed.change == "raises" and self.steps == 3:
            Changed.change = ""
            raise RuntimeError("stepped after its end")
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, Changed.change == "ends" and self.steps == 3, truncated, info


@pytest.mark.parametrize("change", ["raises", "ends", "reset"])
def test_a_new_episode_starts_if_one_cannot_be_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    Changed.change = ""
    train(tmp_path, Changed, envs=2, on_step=lambda status: status.step == 40)
    Changed.change = change
    run = train(tmp_path, Changed, envs=2)
    messages = capsys.readouterr().err
    assert messages.count("did not repeat its episode") == (1 if change == "raises" else 2)
    assert run.record.steps.tolist() == [30, 60]


def test_an_episode_without_steps_that_starts_differently(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Changed.change = ""
    train(tmp_path, Changed, max_minutes=1e-9)
    Changed.change = "reset"
    train(tmp_path, Changed)
    assert "did not repeat its episode" in capsys.readouterr().err
