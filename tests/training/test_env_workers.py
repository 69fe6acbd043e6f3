"""Runs whose environments are in processes of their own: the same numbers, and what happens when a worker dies."""

import csv
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import refused_here, run, start
from killing import outcome, wait_for_checkpoint

import smrl
from smrl.errors import SmrlError
from smrl.runs import checkpoint
from smrl.training.agent import Agent
from smrl.training.memory_budget import replay_of

ENV = "slow_envs:Mortal"
SHORT: dict[str, Any] = {"steps": 240, "warmup": 60, "eval_every": 60, "eval_episodes": 1, "batch_size": 8, "reuse": 1}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "envs": 3, "normalise_rewards": True}
SMALL |= {"warmup_actions": "policy"}
PROCESS: dict[str, Any] = {"env_workers": "process"}


def train(runs: Path, **settings: Any) -> smrl.Run:
    return smrl.train("ddpg", ENV, **SHORT | SMALL | settings, runs=runs)


def tables(run: smrl.Run) -> tuple[bytes, list[dict[str, str]]]:
    """Return evaluations.csv, and training.csv without what depends on the clock."""
    rows = list(csv.DictReader((run.path / "training.csv").read_text().splitlines()))
    for row in rows:
        del row["seconds"], row["steps_per_second"]
    return (run.path / "evaluations.csv").read_bytes(), rows


def stored(run: smrl.Run) -> dict[str, np.ndarray]:
    """Return the rows of the replay memory."""
    replay = replay_of(run.settings, run.policy.spec, run.path, print)
    assert checkpoint.load(run.path / "checkpoint", print, replay) is not None
    return replay.rows(0, replay.added)


def results(run: smrl.Run) -> dict[str, bytes]:
    """Return the bytes of the last checkpoint and of the rows of the replay memory."""
    arrays = outcome(ENV.replace(":", "-"), run.path.parents[2])[1]
    return arrays | {name: array.tobytes() for name, array in stored(run).items()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> smrl.Run:
    """A run without workers."""
    return train(tmp_path_factory.mktemp("plain"), quiet=True)


@pytest.fixture(scope="module")
def biased(tmp_path_factory: pytest.TempPathFactory) -> smrl.Run:
    """A run without workers that measures its bias."""
    return train(tmp_path_factory.mktemp("biased"), bias_every=120, quiet=True)


@pytest.fixture
def deaths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "deaths"
    folder.mkdir()
    monkeypatch.setenv("DEATHS", str(folder))
    return folder


@pytest.mark.slow  # the next test compares the same, of a run that dies once
def test_workers_give_the_same_numbers(plain: smrl.Run, tmp_path: Path) -> None:
    finished = train(tmp_path, **PROCESS, quiet=True)
    assert tables(finished) == tables(plain)
    assert results(finished) == results(plain)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("kill", "ended in step() with SIGKILL"),
        pytest.param("exit", "ended in step() with exit code 3", marks=pytest.mark.slow),
        pytest.param("hang", "did not return from step() within 3 s (--env-timeout)", marks=pytest.mark.slow),
    ],
)
def test_a_dead_worker_ends_the_run_with_a_message_and_the_run_continues(
    plain: smrl.Run, tmp_path: Path, deaths: Path, how: str, words: str
) -> None:
    (deaths / "one").write_text(how)
    with pytest.raises(SmrlError) as caught:
        train(tmp_path, **PROCESS, env_timeout=3, quiet=True)
    assert str(caught.value).startswith(f"at step 19: the worker process of Mortal {words}; all before it is saved in ")
    assert not list(deaths.iterdir())
    finished = train(tmp_path, **PROCESS, quiet=True)
    assert tables(finished) == tables(plain)
    assert results(finished) == results(plain), "nothing of the step was stored"


@pytest.mark.slow
def test_a_dead_worker_is_replaced_and_its_episode_is_truncated(
    plain: smrl.Run, tmp_path: Path, deaths: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (deaths / "one").write_text("kill")
    finished = train(tmp_path, **PROCESS, env_restarts=2)
    message = "the worker process of Mortal ended in step() with SIGKILL; it is replaced (restart 1 of 2)"
    assert f"{message}, and its episode counts as truncated." in capfd.readouterr().err
    rows = list(csv.DictReader((finished.path / "training.csv").read_text().splitlines()))
    assert [row["env_restarts"] for row in rows] == ["1", "0", "0"]
    assert "env_restarts" not in (plain.path / "training.csv").read_text()
    mine, other = stored(finished), stored(plain)
    (victim,) = (env for env in range(3) if mine["last"][env::3][5])
    for env in range(3):
        its = slice(env, None, 3)
        assert len(mine["obs"][its]) == 240 // 3
        ends = np.flatnonzero(mine["last"][its]).tolist()
        assert ends == ([5, 55] if env == victim else [49]), "the others go on"
        assert not mine["terminated"][its].any()
        same = slice(env, 3 * (6 if env == victim else 20), 3)  # until it dies, or until learning begins
        np.testing.assert_array_equal(mine["obs"][same], other["obs"][same])
        np.testing.assert_array_equal(mine["reward"][same], other["reward"][same])
    number = mine["successor_rows"].tolist().index(victim + 3 * 5)
    before, after = mine["successors"][number], mine["obs"][victim::3][6]
    assert not np.array_equal(before, after), "a new episode begins, and the truncated one keeps its last observation"
    agent = Agent(finished.settings, finished.policy.spec)
    agent.start()
    chosen = agent.explore(mine["obs"][18:21], 18)
    np.testing.assert_array_equal(mine["action"][18:21], chosen, "its action is chosen for the new observation")


@pytest.mark.slow
def test_a_worker_that_dies_in_an_evaluation_repeats_its_episode(
    biased: smrl.Run, tmp_path: Path, deaths: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def kill_one(status: smrl.Status) -> None:
        if status.step in (60, 180):  # right before an evaluation
            (deaths / "one").write_text("kill")

    finished = train(tmp_path, **PROCESS, env_restarts=5, bias_every=120, on_step=kill_one)
    assert capfd.readouterr().err.count("and its episode is repeated from the start.") == 2
    assert tables(finished)[0] == tables(biased)[0]


@pytest.mark.slow
def test_a_worker_that_dies_while_an_episode_is_replayed(
    tmp_path: Path, deaths: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, **PROCESS, on_step=lambda status: status.step == 99)
    (deaths / "one").write_text("kill")
    with pytest.raises(SmrlError, match=r"^the worker process of Mortal ended in step\(\) with SIGKILL"):
        train(tmp_path, **PROCESS)
    (deaths / "one").write_text("kill")
    finished = train(tmp_path, **PROCESS, env_restarts=1)
    errors = capfd.readouterr().err
    assert "(restart 1 of 1), and its episode is not continued." in errors
    assert "did not repeat its episode" in errors
    assert np.count_nonzero(stored(finished)["last"][: 3 * 34]) == 1


def test_options_of_workers_need_workers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for flag, value in (("--env-timeout", "5"), ("--env-restarts", "1")):
        message = refused_here(capsys, "train", "ddpg", ENV, flag, value, "--runs", tmp_path)
        assert "concerns environments in processes of their own: add --env-workers process." in message
    message = refused_here(capsys, "train", "ddpg", ENV, "--env-workers", "thread", "--runs", tmp_path)
    assert "must be none or process" in message
    assert not list(tmp_path.iterdir())


def marked(mark: str) -> list[int]:
    """Return the processes whose environment has a mark."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            is_marked = folder.name.isdigit() and f"MARK={mark}".encode() in (folder / "environ").read_bytes()
            if is_marked and (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(int(folder.name))
        except (OSError, ProcessLookupError):
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_leaves_no_workers_behind(biased: smrl.Run, tmp_path: Path, number: signal.Signals) -> None:
    flags = {**SHORT, "bias_every": 120, "warmup_actions": "policy"}
    given = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", value)]
    words: tuple[object, ...] = (
        *("train", "ddpg", ENV, *given, "--actor-hidden", 8, "--critic-hidden", 8, "--envs", 3),
        *("--normalise-rewards", "--env-workers", "process", "--runs", tmp_path),
    )
    process = start(*words, "--checkpoint-seconds", 0.05, MARK=tmp_path.name)
    wait_for_checkpoint(process, tmp_path, after=60)
    assert len(marked(tmp_path.name)) > 3
    os.kill(process.pid, number)
    process.communicate()
    limit = time.monotonic() + 30
    while time.monotonic() < limit and marked(tmp_path.name):
        time.sleep(0.05)
    assert marked(tmp_path.name) == []
    code, _, errors = run(*words)
    assert code == 0, errors
    assert "continuing at step" in errors
    assert "did not repeat" not in errors
    found = smrl.load(next(tmp_path.glob("*/*/seed0")), trust=True)
    assert results(found) == results(biased)
    assert tables(found)[0] == tables(biased)[0]
