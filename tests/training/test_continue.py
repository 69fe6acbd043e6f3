"""A run that was killed, interrupted or damaged gives the same results as an undisturbed one."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from commands import run, start
from killing import outcome, place, wait_for_checkpoint

from smrl.training.run import load

KERNELS = ("--batch-size", "64")  # smaller batches are left to XLA
RUNS: dict[str, tuple[str, ...]] = {
    "Pendulum-v1": (
        *("sac", "Pendulum-v1", "--reuse", "2:150,3", "--steps", "300", "--warmup", "100"),
        *("--batch-size", "16"),  # dropout is computed by XLA, which is slow here
        *("--fresh-batches", "2", "--reset-every", "120", "--layer-norm", "--dropout", "0.05", "--bias-every", "150"),
        *("--normalise-observations", "--normalise-rewards", "--weight-projection", "--initial-temperature", "0.01"),
        *("--target-entropy-factor", "-0.5", "--weight-decay", "0.01", "--weight-decay-form", "decoupled"),
        *("--average-policy", "0.1"),
    ),
    "Hopper-v4": (
        *("td3", "Hopper-v4", "--reuse", "2", "--steps", "700", "--warmup", "200", "--capacity", "300"),
        *("--network", "simba", "--weight-projection", *KERNELS),
    ),
}
# A task of every other suite, one of them in several environments at once.
SUITES: dict[str, tuple[str, ...]] = {
    "dmc/cartpole-balance": (
        *("sac", "dmc/cartpole-balance", "--envs", "2", *KERNELS),
        *("--steps", "2400", "--warmup", "400"),
    ),
    "HopperMuJoCoEnv-v0": ("td3", "HopperMuJoCoEnv-v0", *KERNELS, "--steps", "500", "--warmup", "100"),
}
COMMON = ("--eval-every", "50", "--eval-episodes", "2", "--checkpoint-seconds", "0.05")
SMALL = ("--actor-hidden", "32", "32", "--critic-hidden", "32", "32")


def train(env: str, runs: Path) -> tuple[object, ...]:
    return ("train", *(RUNS | SUITES)[env], *COMMON, *SMALL, "--runs", runs)


QUICK = ("Pendulum-v1",)  # the other tasks are left to `make test-slow`


def marked(envs: Iterable[str]) -> list[Any]:
    return [env if env in QUICK else pytest.param(env, marks=pytest.mark.slow) for env in envs]


@pytest.fixture(scope="module", params=marked(RUNS))
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    env: str = request.param
    runs = tmp_path_factory.mktemp("undisturbed")
    code, _, errors = run(*train(env, runs))
    assert code == 0, errors
    return env, runs


def wait_until(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    """Wait for something that a process does."""
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)


def test_killed_at_random_moments(undisturbed: tuple[str, Path], tmp_path: Path) -> None:
    env, reference = undisturbed
    moments, step, messages, codes = random.Random(), 0, "", []
    for _ in range(3):
        process = start(*train(env, tmp_path))
        step = wait_for_checkpoint(process, tmp_path, step)
        time.sleep(moments.uniform(0, 0.4))
        process.kill()
        messages += process.communicate()[1]
        codes.append(process.returncode)
    code, _, errors = run(*train(env, tmp_path))
    assert code == 0, errors
    assert codes[0] == -signal.SIGKILL, "the first kill must hit a run in flight"
    assert "continuing at step" in messages + errors, "and something must have been continued"
    assert outcome(env, tmp_path) == outcome(env, reference)


@pytest.mark.parametrize("env", marked(SUITES))
def test_a_run_of_every_suite_continues_after_a_kill(env: str, tmp_path: Path) -> None:
    words = [*train(env, tmp_path), "--reuse", "2", "--eval-every", "200"]
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    assert run(*words, "--runs", undisturbed)[0] == 0
    process = start(*words, "--runs", killed)
    wait_for_checkpoint(process, killed, after=int(SUITES[env][-1]))  # in the midst of learning
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "the kill must hit a run in flight"
    code, _, errors = run(*words, "--runs", killed)
    assert code == 0, errors
    assert "continuing at step" in errors
    assert "did not repeat" not in errors
    assert outcome(env, killed) == outcome(env, undisturbed)


def test_killed_during_a_checkpoint(undisturbed: tuple[str, Path], tmp_path: Path) -> None:
    """The process kills itself at the seventh disk operation of its fifth checkpoint."""
    env, reference = undisturbed
    script = f"""
        import os, signal
        from smrl.cli import main
        from smrl.runs import checkpoint
        save, saves, calls = checkpoint.save, 0, 0

        def counted_save(*args):
            global saves
            saves += 1
            save(*args)

        def deadly(original):
            def replacement(*args, **kwargs):
                global calls
                calls += saves == 5
                if calls == 7:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*args, **kwargs)
            return replacement

        checkpoint.save = counted_save
        os.fsync, os.replace, os.rename = deadly(os.fsync), deadly(os.replace), deadly(os.rename)
        main.main({[str(word) for word in train(env, tmp_path)]!r})
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    code, _, errors = run(*train(env, tmp_path))
    assert code == 0, errors
    assert "continuing at step" in errors
    assert outcome(env, tmp_path) == outcome(env, reference)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_run_is_saved(undisturbed: tuple[str, Path], tmp_path: Path, number: signal.Signals) -> None:
    env, reference = undisturbed
    never = ("--checkpoint-seconds", "1e9")
    process = start(*train(env, tmp_path), *never)
    files = f"{env}/*/seed0/evaluations.csv"
    wait_until(process, lambda: any(len(file.read_bytes().splitlines()) > 3 for file in tmp_path.glob(files)))
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == 128 + number, errors
    assert f"stopped by {number.name} at step" in errors
    assert "Traceback" not in errors
    code, _, errors = run(*train(env, tmp_path))
    assert code == 0, errors
    assert "continuing at step" in errors
    assert outcome(env, tmp_path) == outcome(env, reference)


def test_a_finished_run_is_left_alone(undisturbed: tuple[str, Path]) -> None:
    env, reference = undisturbed
    before = {path: path.stat().st_mtime_ns for path in reference.rglob("*") if path.is_file()}
    code, _, errors = run(*train(env, reference))
    assert code == 0
    assert "finished already" in errors
    touched = {path.name for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert touched <= {".lock"}


@pytest.mark.slow
def test_more_steps_extend_a_run(undisturbed: tuple[str, Path], tmp_path: Path) -> None:
    env, reference = undisturbed
    shorter = [*train(env, tmp_path), "--steps", "350"]
    assert run(*shorter)[0] == 0
    code, _, errors = run(*train(env, tmp_path))
    assert code == 0
    assert "continuing at step 350" in errors
    assert outcome(env, tmp_path) == outcome(env, reference)


def test_a_damaged_checkpoint_is_skipped(undisturbed: tuple[str, Path], tmp_path: Path) -> None:
    env, reference = undisturbed
    shutil.copytree(reference, tmp_path, dirs_exist_ok=True)
    newest = max(path for path in (place(env, tmp_path) / "checkpoint").iterdir() if path.name.isdigit())
    with (newest / "arrays.npz").open("r+b") as file:
        file.seek(1000)
        file.write(os.urandom(100))
    code, _, errors = run(*train(env, tmp_path))
    assert code == 0
    assert errors.count("is damaged") == 1
    assert "continuing at step" in errors
    assert outcome(env, tmp_path) == outcome(env, reference)
    assert load(place(env, tmp_path)).policy is not None


@pytest.mark.slow
def test_a_changed_version_is_reported(undisturbed: tuple[str, Path], tmp_path: Path) -> None:
    env, reference = undisturbed
    shutil.copytree(reference, tmp_path, dirs_exist_ok=True)
    config = place(env, tmp_path) / "config.json"
    config.write_text(re.sub(r'"jax": "[^"]*"', '"jax": "0.0.1"', config.read_text()))
    code, _, errors = run(*train(env, tmp_path), "--steps", "701")
    assert code == 0, errors
    assert "jax was 0.0.1 and is" in errors


@pytest.mark.slow
def test_a_nondeterministic_environment_is_reported(tmp_path: Path) -> None:
    words = (
        "train",
        "ddpg",
        "broken_envs:Broken/NonDeterministic-v0",
        "--reuse",
        "1",
        "--runs",
        tmp_path,
        "--warmup",
        "20",
    )
    assert run(*words, "--steps", "75", "--eval-every", "25")[0] == 0
    code, _, errors = run(*words, "--steps", "120", "--eval-every", "25")
    assert code == 0, errors
    assert "did not repeat its episode" in errors
