"""The commands, as a user types them, and the same in Python."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import imageio.v3 as iio
import numpy as np
import pytest
from broken_envs import Toy

import smrl
from smrl.cli import main

SHORT = ["--steps", "60", "--warmup", "20", "--eval-every", "20", "--eval-episodes", "2"]
SMALL = ["--actor-hidden", "8", "--critic-hidden", "8", "--batch-size", "8"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> smrl.Run:
    """A short run on Pendulum."""
    return smrl.train(
        "sac",
        "Pendulum-v1",
        reuse=2,
        steps=300,
        warmup=100,
        eval_every=100,
        eval_episodes=3,
        actor_hidden=(8,),
        runs=tmp_path_factory.mktemp("runs"),
        quiet=True,
    )


def test_train_in_python(run: smrl.Run) -> None:
    assert run.path.parts[-3:] == ("Pendulum-v1", "sac-reuse2", "seed0")
    assert run.record.steps.tolist() == [100, 200, 300]
    config = json.loads((run.path / "config.json").read_text())
    assert config["experiment"]["hyper"]["actor_hidden"] == [8]
    assert config["threads"] == 1
    assert config["versions"].keys() >= {"jax", "smrl", "python", "gymnasium"}
    header, *rows = (run.path / "training.csv").read_text().splitlines()
    names = ["actor_loss", "alpha", "critic_loss", "entropy", "q"]
    names += ["fresh_batch_updates", "same_batch_updates", "uses_per_transition"]
    assert header.split(",") == ["step", *names, "seconds", "steps_per_second", "episode_return"]
    assert [row.split(",")[0] for row in rows] == ["200", "300"]
    assert list((run.path / "tensorboard").glob("events.out.tfevents.*"))


def test_no_pickle_anywhere(run: smrl.Run) -> None:
    for file in run.path.rglob("*.npz"):
        with np.load(file, allow_pickle=False) as arrays:
            assert all(array.dtype != object for array in arrays.values())


def test_policy_acts_in_the_environments_units(run: smrl.Run) -> None:
    policy = smrl.load(run.path).policy
    env = gymnasium.make("Pendulum-v1")
    obs, _ = env.reset(seed=0)
    action = policy(obs)
    assert action.shape == (1,)
    assert env.action_space.contains(action)
    batch = policy(100 * np.random.default_rng(0).standard_normal((1000, 3)))
    assert batch.shape == (1000, 1)
    assert 1.9 < np.abs(batch).max() <= 2, "Pendulum's actions reach from -2 to 2"
    env.close()


def test_evaluate_repeats_the_runs_own_evaluation(run: smrl.Run, capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", str(run.path), "--episodes", "3"])
    assert f"return {run.record.returns[-1]:,.2f} ±" in capsys.readouterr().out
    main(["evaluate", str(run.path), "--episodes", "20"])  # more than are played at once
    assert "20 episodes" in capsys.readouterr().out


def test_play_writes_a_video(run: smrl.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video = tmp_path / "new" / "play.mp4"
    main(["play", str(run.path), "--video", str(video)])
    assert "return" in capsys.readouterr().out
    frames = iio.imread(video, plugin="pyav")
    assert len(frames) == 200
    assert frames[0].std() > 0


def test_play_says_what_a_video_is_called(run: smrl.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["play", str(run.path), "--video", str(tmp_path / "play.txt")])
    assert ".mp4" in capsys.readouterr().err


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list"])
    listed = capsys.readouterr().out
    assert all(word in listed for word in ("sac", "td3", "ddpg", "paper", "authors", "Hopper-v4", "Pendulum-v1"))


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    listed = capsys.readouterr().out
    assert all(word in listed for word in ("train", "compare", "evaluate", "play", "list", "check-env"))
    with pytest.raises(SystemExit) as stop:
        main(["train", "sac", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for flag in ("reuse", "steps", "seed", "runs", "warmup", "eval-every", "eval-episodes", "batch-size", "preset"):
        assert f"--{flag}" in text
    assert "--threads" in text
    assert "--quiet" in text


def test_check_env(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check-env", "broken_envs:Broken/TimeAsTermination-v0"])
    assert "truncated" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["check-env", "broken_envs:Broken/NanObservation-v0"])
    assert stop.value.code == 2


def test_compare(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "ddpg", "Pendulum-v1", "--reuse", "1", "2:30,1", "--seeds", "2", "--target", "-2000"]
    main([*words, *SHORT, *SMALL, "--quiet"])
    text = capsys.readouterr().out
    assert "−2,000" in text
    assert "60 (2 of 2)" not in text, "the target is reached at the first evaluation"
    assert "20 (2 of 2)" in text
    names = {path.name for path in (in_tmp_path / "runs" / "Pendulum-v1").iterdir()}
    assert names == {"ddpg-reuse1", "ddpg-reuse2until30then1", "ddpg.png"}
    picture = iio.imread(in_tmp_path / "runs" / "Pendulum-v1" / "ddpg.png")
    assert picture.shape[0] > 300


def test_compare_says_what_its_runs_say(
    in_tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with pytest.raises(SystemExit) as stop:
        main(["compare", "ddpg", "broken_envs:Broken/Raises-v0", "--reuse", "1", "--seeds", "1", *SHORT, "--quiet"])
    assert stop.value.code == 2
    assert "the simulator exploded" in capsys.readouterr().err


def test_preset_and_flags(in_tmp_path: Path) -> None:
    main(["train", "sac", "Pendulum-v1", "--reuse", "1", "--preset", "authors", *SHORT, *SMALL, "--quiet"])
    hyper = smrl.load(in_tmp_path / "runs/Pendulum-v1/sac-reuse1/seed0").experiment.hyper
    assert hyper.exploration == "mean-plus-noise"
    flags = ["--preset", "authors", "--exploration", "sample", "--runs", "other"]
    main(["train", "sac", "Pendulum-v1", "--reuse", "1", *flags, *SHORT, *SMALL, "--quiet"])
    assert smrl.load(in_tmp_path / "other/Pendulum-v1/sac-reuse1/seed0").experiment.hyper.exploration == "sample"


class Leaning(Toy):
    """An environment of one's own, given as a class, with bounds of its own."""

    def __init__(self) -> None:
        super().__init__(actions=gymnasium.spaces.Box(np.array([0, -3], np.float32), np.array([1, 5], np.float32)))

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps == 10, info


def test_ones_own_environment(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "runs": tmp_path, "quiet": True}
    run = smrl.train("td3", Leaning, reuse=1, steps=60, warmup=20, eval_every=20, **settings)
    action = run.policy(np.zeros(2))
    assert 0 <= action[0] <= 1
    assert -3 <= action[1] <= 5


def test_weights_and_biases_offline(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    main(["train", "ddpg", "Pendulum-v1", "--reuse", "1", *SHORT, *SMALL, "--quiet", "--wandb", "smrl-test"])
    assert list(in_tmp_path.glob("runs/Pendulum-v1/ddpg-reuse1/seed0/wandb/offline-run-*/*.wandb"))
