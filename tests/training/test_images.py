"""Runs with images and discrete actions: frames in the replay memory, lives, and exact continuation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killing import outcome

import smrl
from smrl.memory import replay
from smrl.memory.frames import allocate
from smrl.reading import load_arrays
from smrl.runs import checkpoint
from smrl.runs.paths import RunDirectory
from smrl.training import memory_budget, run_training
from smrl.types import ArraySpec

SHORT: dict[str, Any] = {"reuse": 2, "warmup": 50, "eval_episodes": 1, "batch_size": 8, "quiet": True}
SHORT |= {"filters": (4,), "kernels": (3,), "strides": (2,)}
DQN = SHORT | {"hidden": (8,)}
CONTROL = SHORT | {"actor_hidden": (8,), "critic_hidden": (8,), "features": 8}


@pytest.mark.parametrize(
    ("algorithm", "env", "options"),
    [
        ("dqn", "smrl/Catch-v0", DQN | {"n_step": 3, "windows": "full"}),
        pytest.param(
            *("dqn", "BreakoutNoFrameskip-v4"),
            DQN | {"image_size": 20, "envs": 2, "n_step": 3, "max_episode_steps": 200},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("drqv2", "smrl/CatchContinuous-v0"),
            CONTROL | {"noise_steps": 300, "reset_every": 150},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("sac_pixels", "smrl/CatchContinuous-v0"), CONTROL | {"augmentation": "batch"}, marks=pytest.mark.slow
        ),
    ],
)
def test_a_run_with_images_continues_bit_for_bit(
    algorithm: str, env: str, options: dict[str, Any], tmp_path: Path
) -> None:
    steps = {"steps": 400, "eval_every": 200, "capacity": 150} | options
    whole = smrl.train(algorithm, env, runs=tmp_path / "whole", **steps)
    # At step 297 a ball has just landed.
    smrl.train(algorithm, env, runs=tmp_path / "parts", **steps, on_step=lambda status: status.step >= 297)
    parts = smrl.train(algorithm, env, runs=tmp_path / "parts", **steps)
    assert parts.record.steps.tolist() == [200, 400]
    assert outcome(env, tmp_path / "parts") == outcome(env, tmp_path / "whole")
    assert whole.settings.image_size == options.get("image_size")


def test_losing_a_life_does_not_end_the_episode(tmp_path: Path) -> None:
    """It terminates for what is learned; the game, and so the episode, goes on."""
    env = "BreakoutNoFrameskip-v4"
    run = smrl.train("dqn", env, steps=130, eval_every=1000, image_size=20, **DQN, runs=tmp_path)
    saved = checkpoint.load(RunDirectory(run.path).checkpoint, print)
    assert saved is not None
    (episode,) = saved.facts["episodes"]
    rows = [load_arrays(path) for path in sorted((run.path / "checkpoint" / "replay").iterdir())]
    lost = np.concatenate([part["terminated"] for part in rows])
    assert lost.sum() > 2 * (episode["number"] + 1), "a game has five lives"
    np.testing.assert_array_equal(lost, np.concatenate([part["last"] for part in rows]))
    assert {part["obs"].shape[1:] for part in rows} == {(1, 20 * 20)}, "a frame of a row"


def test_frames_that_do_not_fit_into_memory_are_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = DQN | {"steps": 150, "eval_every": 150, "image_size": 20, "capacity": 100}
    here = smrl.train("dqn", "PongNoFrameskip-v4", **options, runs=tmp_path / "memory")
    monkeypatch.setattr(memory_budget, "_physical_memory", lambda: 79_000)
    monkeypatch.setattr(run_training, "refuse_large_networks", lambda state: None)
    messages: list[str] = []
    monkeypatch.setattr("smrl.training.progress.Unfailing.notify", lambda self, message: messages.append(message))
    folders: list[Path | None] = []

    def noted(spec: ArraySpec, count: int, folder: Path | None) -> np.ndarray:
        folders.append(folder)
        return allocate(spec, count, folder)

    monkeypatch.setattr(replay, "allocate", noted)
    monkeypatch.setattr(checkpoint, "MAX_SHARDS", 2)
    monkeypatch.setattr(checkpoint, "LARGEST_SHARD", 10_000)
    there = smrl.train("dqn", "PongNoFrameskip-v4", **options, runs=tmp_path / "disk")
    assert any("is more than half of this machine's, so its frames are in a file" in message for message in messages)
    assert outcome("PongNoFrameskip-v4", tmp_path / "disk") == outcome("PongNoFrameskip-v4", tmp_path / "memory")
    assert {path.name for path in there.path.iterdir()} == {path.name for path in here.path.iterdir()}
    largest = max(path.stat().st_size for path in (there.path / "checkpoint" / "replay").iterdir())
    assert largest < 20_000, "of 41,200 bytes in all"
    assert folders == [there.path]
