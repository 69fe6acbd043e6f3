"""Bad input: one line with the problem and what to do, exit code 2, and nothing is lost."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from commands import refused, refused_here

from smrl.cli.main import main
from smrl.presets import resolve
from smrl.runs import checkpoint
from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions

SHORT = ("--steps", "60", "--warmup", "20", "--eval-every", "20", "--eval-episodes", "1", "--reuse", "1")
SMALL = ("--actor-hidden", "8", "--critic-hidden", "8", "--batch-size", "8")


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "no such command": (("trian",), "did you mean train?"),
    "a flag for a command": (("--reuse", "10"), "there is no command '--reuse'"),
    "no algorithm": (("train",), "begin with an algorithm: smrl train ALGORITHM ENVIRONMENT .*; it may be ddpg"),
    "flags in place of an algorithm": (("train", "--steps", "9"), "ALGORITHM"),
    "no algorithm to compare": (("compare", "--reuse", "1"), "begin with .*such as smrl compare sac td3 Hopper-v4"),
    "no such algorithm": (("train", "sca", "Pendulum-v1"), "did you mean sac?"),
    "no such algorithm to compare": (("compare", "td3", "sca", "Pendulum-v1"), "did you mean sac?"),
    "no such environment": (("train", "sac", "Pendulun-v1"), "did you mean Pendulum-v1?"),
    "no such environment to compare": (("compare", "sac", "Hoper-v4"), "did you mean Hopper-v4?"),
    "an old version": (("train", "sac", "Hopper-v2"), "use Hopper-v4"),
    "a missing module": (("train", "sac", "no_such_module:Env-v0"), "no_such_module"),
    "a missing module of an algorithm": (("train", "no_such_module:cem", "Pendulum-v1"), "no_such_module"),
    "a missing module of a preset": (("train", "sac", "Pendulum-v1", "--preset", "no_such:mine"), "no_such"),
    "discrete actions": (("train", "sac", "CartPole-v1"), "SAC needs continuous actions"),
    "images for vectors": (("train", "td3", "smrl/CatchContinuous-v0"), "TD3 needs a vector .* sac_pixels and drqv2"),
    "vectors for images": (("train", "drqv2", "Pendulum-v1"), "DrQ-v2 needs images, but .* vectors of 3 numbers"),
    "discrete actions for images": (("train", "sac_pixels", "smrl/Catch-v0"), "SAC from images needs continuous"),
    "continuous actions for discrete": (("train", "dqn", "Pendulum-v1"), "DQN needs discrete actions"),
    "images below the convolutions": (
        ("train", "drqv2", "smrl/CatchContinuous-v0", "--kernels", "8,8"),
        "10×10 are too small for convolutions of 8×, 8×",
    ),
    "a kernel too many": (
        ("train", "dqn", "smrl/Catch-v0", "--kernels", "3,3,3"),
        "must have the same length, not 2, 3 and 2",
    ),
    "discrete actions to compare": (("compare", "sac", "CartPole-v1"), "SAC needs continuous actions"),
    "no such flag": (("train", "sac", "Pendulum-v1", "--ruse", "10"), "no flag --ruse; did you mean --reuse"),
    "no such flag to compare": (
        ("compare", "sac", "td3", "X-v1", "--dlay", "3"),
        "no flag --dlay; did you mean --delay",
    ),
    "a word too many": (("train", "sac", "Pendulum-v1", "Hopper-v4"), "unexpected argument 'Hopper-v4'"),
    "a word for a number": (("train", "sac", "Pendulum-v1", "--steps", "ten"), "steps must be a whole number .*'ten'"),
    "a word for a truth value": (
        ("train", "sac", "Pendulum-v1", "--layer-norm", "ja"),
        "must be True or False, not 'ja'",
    ),
    "a word out of a few": (("train", "sac", "X-v1", "--exploration", "much"), "sample or mean-plus-noise, not 'much'"),
    "no value": (("train", "sac", "Pendulum-v1", "--tau"), "--tau: expected one argument; see smrl train --help"),
    "two values": (
        ("train", "sac", "Pendulum-v1", "--tau", "0.1", "0.2"),
        "unexpected argument '0.2': .* several values, as those of smrl compare",
    ),
    "two numbers of steps": (("compare", "sac", "X-v1", "--steps", "6000", "7000"), "give one number of steps"),
    "no environment": (("train", "sac"), "required: ENVIRONMENT; see smrl train --help"),
    "no environment to compare": (("compare", "sac", "td3", "--reuse", "1"), "smrl compare sac td3 Hopper-v4"),
    "no run": (("evaluate",), "required: RUN; see smrl evaluate --help"),
    "no such preset": (("train", "sac", "Pendulum-v1", "--preset", "autors"), "did you mean authors?"),
    "no such family": (("list", "--environments", "Gim", "MuJoCo"), "did you mean Gym MuJoCo?"),
    "reuse of 0": (("train", "sac", "Pendulum-v1", "--reuse", "0"), "reuse must be at least 1"),
    "reuse of 0 to compare": (("compare", "sac", "Pendulum-v1", "--reuse", "1", "0"), "reuse must be at least 1"),
    "a reuse schedule that does not parse": (("train", "sac", "Pendulum-v1", "--reuse", "10:x,1"), "10:300000,1"),
    "no more steps than warm-up": (("train", "sac", "Pendulum-v1", "--steps", "5000"), "--warmup"),
    "a negative warm-up": (("train", "sac", "Pendulum-v1", "--warmup", "-1"), "warmup must be .* at least 0, not -1"),
    "a batch of 0": (("train", "sac", "Pendulum-v1", "--batch-size", "0"), "batch_size must be .* at least 1, not 0"),
    "a batch and a half": (("train", "sac", "Pendulum-v1", "--batch-size", "1.5"), "batch_size must be .*, not 1.5"),
    "a negative seed": (("train", "sac", "Pendulum-v1", "--seed", "-1"), "seed"),
    "no seeds": (
        ("compare", "sac", "Pendulum-v1", "--seeds", "0"),
        "seeds must be a whole number of at least 1 .*not 0",
    ),
    "a discount above 1": (("train", "sac", "Pendulum-v1", "--gamma", "1.1"), r"gamma must be a number in \[0, 1\]"),
    "no number": (("train", "sac", "Pendulum-v1", "--gamma", "nan"), "gamma must be .*, not nan"),
    "a negative learning rate": (("train", "sac", "Pendulum-v1", "--actor-learning-rate", "-1"), "actor_learning_rate"),
    "a tau of 2": (("train", "td3", "Pendulum-v1", "--tau", "2"), r"tau must be a number in \(0, 1\], not 2"),
    "a delay of 0": (("train", "td3", "Pendulum-v1", "--delay", "0"), "delay"),
    "negative noise": (("train", "ddpg", "Pendulum-v1", "--exploration-noise", "-0.1"), "exploration_noise"),
    "a nu above 1": (("train", "darc", "Pendulum-v1", "--nu", "1.5"), r"nu must be a number in \[0, 1\], not 1.5"),
    "more atoms dropped than exist": (("train", "tqc", "Pendulum-v1", "--dropped", "25"), "25 atoms"),
    "a subset larger than the ensemble": (("train", "redq", "Pendulum-v1", "--subset", "11"), "11 .* from 10 critics"),
    "no critics": (("train", "redq", "Pendulum-v1", "--critics", "0"), "critics must be .* at least 1"),
    "a dropout of 1": (("train", "sac", "Pendulum-v1", "--dropout", "1"), r"dropout must be a number in \[0, 1\)"),
    "no fresh batches": (
        ("train", "sac", "Pendulum-v1", "--fresh-batches", "0"),
        "fresh_batches must be .* at least 1",
    ),
    "a reset at every 0th step": (("train", "sac", "Pendulum-v1", "--reset-every", "0"), "reset_every"),
    "a bias between evaluations": (("train", "sac", "Pendulum-v1", "--bias-every", "1500"), "multiple of the 1000"),
    "a factor of 0": (("train", "sac", "Pendulum-v1", "--learning-rate-factor", "0"), "learning_rate_factor"),
    "a preset for others": (("train", "td3", "Pendulum-v1", "--preset", "lr"), "is not for td3, but for sac"),
    "flags before the algorithm": (("train", "--seed", "1", "td3", "Pendulum-v1"), "begin with an algorithm"),
    "a layer of size 0": (("train", "ddpg", "Pendulum-v1", "--actor-hidden", "0"), "actor_hidden"),
    "a layer of size 0 among others": (("compare", "ddpg", "X-v1", "--actor-hidden", "8,8", "8,0"), "actor_hidden"),
    "no threads": (("train", "ddpg", "Pendulum-v1", "--threads", "0"), "threads must be .* from 1 to 1,024"),
    "a name of two words": (
        ("train", "sac", "Pendulum-v1", "--name", "two words", "--steps", "1"),
        "name must be a word of at most 24",
    ),
    "a name that is a path": (
        ("compare", "sac", "Pendulum-v1", "--name", "../x", "--steps", "1"),
        "name must be a word of at most 24",
    ),
    "no time": (("compare", "ddpg", "Pendulum-v1", "--max-minutes", "0"), "max_minutes must be a positive number"),
    "too many updates": (("train", "sac", "X-v1", "--reuse", "3000000000"), "reuse must be at most 1,000,000"),
    "too large a layer": (
        ("train", "sac", "X-v1", "--actor-hidden", "10000000000"),
        r"actor_hidden .*at most 65,536\)",
    ),
    "too many rewards": (("train", "sac", "X-v1", "--n-step", "1000000"), r"n_step .*\(at most 1,000\), not 1000000"),
    "too many seeds": (("compare", "sac", "X-v1", "--seeds", "1000000000"), r"seeds .*\(at most 1,000\)"),
    "too long a name": (
        ("train", "sac", "Pendulum-v1", "--runs", "x" * 300),
        r"runs must be a path \(at most 255 long\)",
    ),
    "a number of 5,000 digits": (("train", "sac", "X-v1", "--steps", "1" * 5000), "steps must be .*, not inf"),
    "a class for an algorithm": (("train", "builtins:dict", "Pendulum-v1"), "must be annotated with a dataclass"),
    "no module": (("train", "sac", ":Pendulum-v1"), "':Pendulum-v1' does not name an environment"),
    "no name in a module": (("train", "sac", "math:"), "'math:' does not name an environment"),
    "a newline in a name": (("train", "sac", "Pendulum-v1\n"), "env must be a text without control characters"),
    "a folder that does not exist": (("evaluate", "no/such/run"), "does not exist"),
    "a folder that is no run": (("evaluate", "."), "is not a run"),
    "a film of no run": (("play", ".", "--video", "x.mp4"), "is not a run"),
    "a target beyond all returns": (("report", ".", "--target", "inf"), "target must be a finite number .*not inf"),
    "no file to write": (("report", ".", "-o"), "-o/--output: expected at least one argument; see smrl report --help"),
    "an ending without a name": (("report", ".", "-o", ".html"), "name of a file to write must end .*, unlike '.html'"),
    "a value for a switch": (("list", "--presets", "x"), "unexpected argument 'x': .* see smrl list --help"),
    "no run to export": (("export",), "required: RUN; see smrl export --help"),
    "a folder that is no run to export": (("export", ".", "-o", "policy"), "is not a run"),
    "a number of episodes": (("evaluate", ".", "--episodes", "few"), "episodes must be a whole number .*, not 'few'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, capsys: pytest.CaptureFixture[str], in_tmp_path: Path) -> None:
    words, pattern = REFUSED[case]
    errors = refused_here(capsys, *words)
    assert re.search(pattern, errors), errors
    assert not list(in_tmp_path.iterdir()), "nothing was written"


def test_a_missing_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)  # as if it were not installed
    monkeypatch.delitem(gymnasium.registry, "ALE/Pong-v5", raising=False)
    assert 'pip install "smrl[atari]"' in refused_here(capsys, "train", "sac", "ALE/Pong-v5")


def test_mujoco_is_an_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert 'pip install "smrl[mujoco]"' in refused_here(capsys, "train", "sac", "Hopper-v4")


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("Raises", "ValueError: the simulator exploded"),
        ("NanObservation", "nan"),
        ("HugeObservation", "no finite float32"),
        ("InfReward", "inf"),
        ("WrongShape", "shape"),
    ],
)
def test_a_faulty_environment(kind: str, fault: str, capsys: pytest.CaptureFixture[str], in_tmp_path: Path) -> None:
    """The error names the step, and everything before it is kept."""
    errors = refused_here(capsys, "train", "ddpg", f"broken_envs:Broken/{kind}-v0", *SHORT, *SMALL, "--quiet")
    assert "at step 5: " in errors
    assert fault in errors
    (folder,) = in_tmp_path.glob("runs/*/*/seed0/checkpoint")
    saved = checkpoint.load(folder, print)
    assert saved is not None
    assert saved.step == 4


def test_existing_runs_are_kept(capsys: pytest.CaptureFixture[str], in_tmp_path: Path) -> None:
    """Other settings get another folder; other threads and a damaged file are refused."""
    main(["train", "ddpg", "Pendulum-v1", *SHORT, *SMALL, "--quiet"])
    before = {path: path.read_bytes() for path in in_tmp_path.rglob("*") if path.is_file()}
    main(["train", "ddpg", "Pendulum-v1", *SHORT, *SMALL, "--tau", "0.1", "--gamma", "0.9", "--quiet"])
    assert len(list(in_tmp_path.glob("runs/*/*/seed0"))) == 2
    assert {path: path.read_bytes() for path in before} == before

    threads = refused_here(capsys, "train", "ddpg", "Pendulum-v1", *SHORT, *SMALL, "--threads", "2", "--steps", "80")
    assert "started with 1 thread" in threads
    (folder,) = {path.parent for path in before if path.name == "config.json"}
    (folder / "config.json").write_text("{")
    assert "damaged" in refused_here(capsys, "evaluate", folder)
    assert "damaged" in refused_here(capsys, "play", folder, "--video", "x.mp4")


def test_a_locked_run(in_tmp_path: Path) -> None:
    """Two processes cannot train one run."""
    short: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "reuse": 1}
    small: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "batch_size": 8}
    with RunDirectory.of(resolve("ddpg", "Pendulum-v1", **short, **small), RunOptions(runs=in_tmp_path)).locked():
        assert "another process" in refused("train", "ddpg", "Pendulum-v1", *SHORT, *SMALL, "--runs", in_tmp_path)


def test_an_unwritable_place(capsys: pytest.CaptureFixture[str], in_tmp_path: Path) -> None:
    (in_tmp_path / "file").write_text("kept")
    errors = refused_here(capsys, "train", "ddpg", "Pendulum-v1", *SHORT, *SMALL, "--runs", "file")
    assert "cannot write" in errors
    assert "--runs" in errors
    assert (in_tmp_path / "file").read_text() == "kept"


def test_a_full_disk(in_tmp_path: Path) -> None:
    """A limit on the size of files stands in for the end of the disk: writing fails half-way through a checkpoint."""
    words = ["train", "ddpg", "Pendulum-v1", *SHORT, "--actor-hidden", "64", "64", "--checkpoint-seconds", "0"]

    limited = ["bash", "-c", 'ulimit -f 60; exec "$@"', "limited", sys.executable, "-m", "smrl", *words]
    environment = {name: value for name, value in os.environ.items() if "COMPILATION_CACHE" not in name}
    full = subprocess.run(limited, env=environment, capture_output=True, text=True, check=False)
    assert full.returncode == 2, full.stderr
    assert "Traceback" not in full.stderr
    assert "cannot write" in full.stderr.splitlines()[-1]
    assert "continues from the last checkpoint" in full.stderr.splitlines()[-1]
    main([*words, "--quiet"])  # with room again, it goes through


def test_diverged_training(capsys: pytest.CaptureFixture[str], in_tmp_path: Path) -> None:
    rates = ("--actor-learning-rate", "1e30", "--critic-learning-rate", "1e30")
    errors = refused_here(capsys, "train", "ddpg", "Pendulum-v1", *SHORT, *SMALL, *rates, "--quiet")
    assert "diverged" in errors
