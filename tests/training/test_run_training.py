"""What is warned about or refused before a run begins."""

import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from broken_envs import Toy

import smrl
from smrl.errors import SmrlError
from smrl.presets import resolve
from smrl.training.run_training import _refuse_unfit as refuse_unfit
from smrl.training.run_training import cost_of_reuse

TINY: dict[str, Any] = {
    **{"warmup": 10, "batch_size": 4, "max_episode_steps": 5, "eval_every": 10, "eval_episodes": 1},
    **{"actor_hidden": (8,), "critic_hidden": (8,)},
}


@pytest.mark.parametrize(
    ("env", "reuse", "factor"),
    [
        ("PongNoFrameskip-v4", 10, "10 times the updates"),
        ("ALE/Breakout-v5", "4:1000,1", "4 times the updates"),
        ("PongNoFrameskip-v4", 1, None),
        ("CartPole-v1", 10, None),
        ("smrl/Catch-v0", 10, None),
    ],
)
def test_cost_of_reuse_warns_on_atari_only(env: str, reuse: int | str, factor: str | None) -> None:
    message = cost_of_reuse(resolve("dqn", env, reuse=reuse))
    if factor is None:
        assert message is None
    else:
        assert message is not None
        assert factor in message
        assert "8.7 times" in message


def test_running_statistics_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(SmrlError, match="Pendulum-v1 has a NormalizeObservation, whose running statistics"):
        smrl.train(
            "ddpg",
            lambda: gymnasium.wrappers.NormalizeObservation(gymnasium.make("Pendulum-v1")),
            env_name="normalised",
            runs=tmp_path,
        )
    assert not list(tmp_path.iterdir())


def test_channels_that_come_first_are_warned_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = gymnasium.spaces.Box(0, 255, (3, 84, 84), np.uint8)
    with pytest.raises(SmrlError, match="images of 3×84 are too small"):
        smrl.train("sac_pixels", lambda: Toy(observations=space), env_name="first", runs=tmp_path)
    message = " ".join(capsys.readouterr().err.split())
    assert "have the shape (3, 84, 84), as if the channels came first. smrl takes them for (height, width" in message


def test_settings_are_checked_once_in_a_new_run_and_in_a_continued_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = list[int]()

    def noted(settings: Any, spec: Any) -> None:
        checked.append(settings.steps)
        refuse_unfit(settings, spec)

    monkeypatch.setattr("smrl.training.run_training._refuse_unfit", noted)
    for steps in (20, 40, 40):
        smrl.train("ddpg", "Pendulum-v1", **TINY, steps=steps, runs=tmp_path, quiet=True)
    assert checked == [20, 40], "a finished run is left alone"


def test_run_without_a_first_checkpoint_says_that_it_starts_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {**TINY, "runs": tmp_path, "steps": 20}
    folder = smrl.train("ddpg", "Pendulum-v1", **settings).path / "checkpoint"
    shutil.rmtree(folder)
    folder.mkdir()
    capsys.readouterr()
    smrl.train("ddpg", "Pendulum-v1", **settings)
    message = " ".join(capsys.readouterr().err.split())
    assert "was stopped before its first checkpoint; it starts again at step 0" in message
