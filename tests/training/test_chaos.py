"""SIGKILLs at random moments, over all algorithms and suites: all results equal those of undisturbed runs."""

import random
import signal
import time
from pathlib import Path

import pytest
from commands import run, start
from killing import outcome, wait_for_checkpoint

ATARI = ("--hidden", "16", "--max-episode-steps", "200")
RUNS: tuple[tuple[str, ...], ...] = (
    ("ddpg", "Pendulum-v1", "--steps", "900", "--envs", "3"),
    ("td3", "Hopper-v4", "--steps", "900", "--n-step", "3", "--capacity", "400"),
    ("sac", "Hopper-v4", "--steps", "900", "--reset-every", "300", "--bias-every", "450"),
    ("darc", "HopperMuJoCoEnv-v0", "--steps", "700"),
    ("tqc", "dmc/cartpole-balance", "--steps", "2400", "--critics", "2", "--atoms", "5"),
    ("redq", "Pendulum-v1", "--steps", "700", "--critics", "3", "--fresh-batches", "2", "--dropout", "0.05"),
    ("sac", "dmc/cartpole-balance", "--steps", "2400", "--envs", "2", "--layer-norm"),
    ("td3", "HopperMuJoCoEnv-v0", "--steps", "700", "--action-repeat", "2"),
    ("sac", "InvertedPendulum-v5", "--steps", "900", "--reuse", "3:400,1"),
    ("ddpg", "Hopper-v4", "--steps", "900", "--capacity", "103", "--envs", "8"),
    ("dqn", "smrl/Catch-v0", "--steps", "900", "--hidden", "16", *("--n-step", "3", "--windows", "full")),
    ("drqv2", "smrl/CatchContinuous-v0", "--steps", "900", "--reset-every", "300"),
    ("sac_pixels", "smrl/CatchContinuous-v0", "--steps", "900", "--augmentation", "batch", "--envs", "2"),
    ("drqv2", "dmc-pixels/cartpole-balance", "--steps", "600", "--image-size", "36", "--max-episode-steps", "100"),
    ("dqn", "PongNoFrameskip-v4", "--steps", "1200", "--image-size", "42", *ATARI),
    ("dqn", "ALE/Breakout-v5", "--steps", "1200", "--image-size", "42", *ATARI),  # repeats actions at random
)
KILLS = 10  # of each run
COMMON = (
    "--warmup",
    "200",
    "--eval-every",
    "150",
    "--eval-episodes",
    "2",
    "--checkpoint-seconds",
    "0.05",
    "--batch-size",
    "32",
)
SMALL = ("--actor-hidden", "16", "--critic-hidden", "16")


@pytest.mark.slow
@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_killed_again_and_again(words: tuple[str, ...], tmp_path: Path) -> None:
    algorithm, env, *settings = words
    reuse = () if "--reuse" in settings else ("--reuse", "2")
    small = () if algorithm == "dqn" else SMALL
    command = ("train", algorithm, env, *COMMON, *small, *reuse, *settings, "--runs")
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    code, _, errors = run(*command, undisturbed)
    assert code == 0, errors
    moments, step, hits = random.Random(), 0, 0
    for kill in range(KILLS):
        process = start(*command, killed)
        if kill % 2:  # else at any moment, also before the first checkpoint or while one is read
            step = wait_for_checkpoint(process, killed, step)
        time.sleep(moments.uniform(0, 4) if kill % 2 == 0 else moments.uniform(0, 0.3))
        process.kill()
        _, errors = process.communicate()
        # glfw asks a process of its own for its version, which may be left with a broken pipe.
        assert "Traceback" not in errors or 'File "<string>"' in errors, errors
        hits += process.returncode == -signal.SIGKILL
    code, _, errors = run(*command, killed)
    assert code == 0, errors
    assert "did not repeat" not in errors
    assert hits >= KILLS // 2, "the kills must hit runs in flight"
    assert outcome(env, killed) == outcome(env, undisturbed)
