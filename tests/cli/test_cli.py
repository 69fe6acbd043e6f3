"""The commands as a user types them, and the same in Python."""

import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import gymnasium
import imageio.v3 as iio
import numpy as np
import pytest
from broken_envs import Toy

import smrl
from smrl.cli.main import main
from smrl.envs.environment import Environment, EnvironmentFault
from smrl.errors import SmrlError
from smrl.training import play as smrl_play
from smrl.training.evaluator import evaluate

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


def only_run(folder: Path) -> smrl.Run:
    """The one run in a folder of runs."""
    (config,) = folder.glob("*/*/seed*/config.json")
    return smrl.load(config.parent)


def test_train_in_python(run: smrl.Run) -> None:
    env, label, seed = run.path.parts[-3:]
    assert (env, seed) == ("Pendulum-v1", "seed0")
    assert label.startswith("sac-reuse2-")
    assert run.record.steps.tolist() == [100, 200, 300]
    config = json.loads((run.path / "config.json").read_text())
    assert config["settings"]["hyper"]["actor_hidden"] == [8]
    assert config["threads"] == 1
    assert config["versions"].keys() >= {"jax", "smrl", "python", "gymnasium"}
    header, *rows = (run.path / "training.csv").read_text().splitlines()
    names = {"actor_loss", "alpha", "critic_loss", "entropy", "q"}
    names |= {"fresh_batch_updates", "same_batch_updates", "uses_per_transition"}
    assert set(header.split(",")) >= {"step", *names, "seconds", "steps_per_second", "episode_return"}
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


def test_evaluate_the_best_policy(run: smrl.Run, capsys: pytest.CaptureFixture[str]) -> None:
    """The policy that is kept beside the newest one gives the best evaluation again."""
    main(["evaluate", str(run.path), "--episodes", "3", "--best"])
    assert f"return {run.record.returns.max():,.2f} ±" in capsys.readouterr().out


def test_video_is_an_extra(run: smrl.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio", None)
    with pytest.raises(SmrlError, match=r'pip install "smrl\[video\]"'):
        smrl.play(run, tmp_path / "new" / "play.mp4")
    assert not list(tmp_path.iterdir())


def test_play_writes_a_video(
    run: smrl.Run, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a screen too: what draws the pendulum would print that there is none."""
    for name in ("XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    video = tmp_path / "new" / "play.mp4"
    before = dict(os.environ)
    main(["play", str(run.path), "--video", str(video)])
    printed = capfd.readouterr()
    assert "return" in printed.out
    assert printed.err == ""
    assert dict(os.environ) == before
    frames = iio.imread(video, plugin="pyav")
    assert len(frames) == 200
    assert frames[0].std() > 0
    assert [path.name for path in video.parent.iterdir()] == ["play.mp4"]


@pytest.mark.slow
def test_play_the_best_policy(run: smrl.Run, tmp_path: Path) -> None:
    played = [smrl_play.play(run, tmp_path / "play.mp4", 1, best=best)[0] for best in (False, True)]
    evaluated = [float(evaluate(run, 1, best=best).returns[0]) for best in (False, True)]
    assert played == pytest.approx(evaluated)


def test_play_refuses_other_video_formats(run: smrl.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["play", str(run.path), "--video", str(tmp_path / "play.txt")])
    assert ".mp4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("complaint", "advice"),
    [
        ("'NoneType' object has no attribute 'eglQueryString'", "apt-get install libegl1 libgl1"),
        ("an OpenGL platform library has not been loaded", "libosmesa6 and set MUJOCO_GL=osmesa"),
        ("the model is too large", "the model is too large"),
    ],
)
@pytest.mark.parametrize("after", [0, 20])
def test_a_failed_video_leaves_no_file(
    complaint: str,
    advice: str,
    after: int,
    run: smrl.Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An older video of the same name stays; packages are named only if graphics are at fault."""
    old = tmp_path / "old.mp4"
    old.write_bytes(b"an older film")
    for video in (tmp_path / "new.mp4", old):
        monkeypatch.setattr(Environment, "render", failing(complaint, after))
        with pytest.raises(SystemExit) as stop:
            main(["play", str(run.path), "--video", str(video)])
        errors = capsys.readouterr().err
        assert stop.value.code == 2
        assert errors.startswith("smrl: ")
        assert errors.count("\n") == 1
        assert advice in errors
        assert ("apt-get" in errors) == (advice != complaint)
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_bytes() == b"an older film"


def failing(complaint: str, after: int) -> Any:
    """A function that renders a few pictures and then complains."""
    counter = itertools.count()

    def render(env: Environment) -> Any:
        if next(counter) < after:
            return env.env.render()
        raise EnvironmentFault(f"{env.name} failed in render() with AttributeError: {complaint}")

    return render


def test_check_env(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check-env", "broken_envs:Broken/TimeAsTermination-v0"])
    assert "truncated" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["check-env", "broken_envs:Broken/NanObservation-v0"])
    assert stop.value.code == 2


def test_preset_and_flags(in_tmp_path: Path) -> None:
    main(["train", "sac", "Pendulum-v1", "--reuse", "1", "--preset", "authors", *SHORT, *SMALL, "--quiet"])
    assert only_run(in_tmp_path / "runs").settings.hyper.exploration == "mean-plus-noise"
    flags = ["--preset", "authors", "--exploration", "sample", "--runs", "other"]
    main(["train", "sac", "Pendulum-v1", "--reuse", "1", *flags, *SHORT, *SMALL, "--quiet"])
    assert only_run(in_tmp_path / "other").settings.hyper.exploration == "sample"


def test_flags_become_values(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Booleans with and without a value, layer sizes with spaces and commas, None, 1e4, aliases."""
    given: dict[str, Any] = {}
    monkeypatch.setattr("smrl.cli.train.train_on", lambda *words, **values: given.update(values))
    words = ["--layer-norm", "--actor-hidden", "64", "32", "--critic-hidden", "16,8", "--utd", "2", "--steps", "1e4"]
    words += ["--target-entropy", "-1e-2", "--reset-every", "None", "--wandb", "7", "--runs", "7", "--reuse", "10:30,1"]
    main(["train", "sac", "Pendulum-v1", *words, "--quiet", "True", "--bias-original", "false"])
    assert given == {
        "algorithm": "sac",
        "env": "Pendulum-v1",
        "layer_norm": True,
        "actor_hidden": (64, 32),
        "critic_hidden": (16, 8),
        "fresh_batches": 2,
        "steps": 10_000,
        "target_entropy": -0.01,
        "reset_every": None,
        "wandb": "7",
        "runs": Path("7"),
        "reuse": "10:30,1",
        "quiet": True,
        "bias_original": False,
    }


class Leaning(Toy):
    """A custom environment, given as a class, with unusual bounds."""

    def __init__(self) -> None:
        super().__init__(actions=gymnasium.spaces.Box(np.array([0, -3], np.float32), np.array([1, 5], np.float32)))

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps == 10, info


def test_a_custom_environment(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "runs": tmp_path, "quiet": True}
    run = smrl.train("td3", Leaning, reuse=1, steps=60, warmup=20, eval_every=20, **settings)
    action = run.policy(np.zeros(2))
    assert 0 <= action[0] <= 1
    assert -3 <= action[1] <= 5


def test_weights_and_biases_offline(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    main(["train", "ddpg", "Pendulum-v1", "--reuse", "1", *SHORT, *SMALL, "--quiet", "--wandb", "smrl-test"])
    assert list(only_run(in_tmp_path / "runs").path.glob("wandb/offline-run-*/*.wandb"))
