"""Runs that learn from data or start from another run: what is drawn, kept, continued and refused."""

import json
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from commands import refused_here, start
from gymnasium.spaces import Discrete
from killing import outcome, wait_for_checkpoint
from written_runs import HYPER, SETTINGS, make_config

import smrl
from smrl.cli.main import main
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.runs import checkpoint, identity
from smrl.runs.atomic import checksum, save_arrays
from smrl.runs.doctor import examine, repair
from smrl.runs.paths import DATA, START, RunDirectory
from smrl.settings import make_settings
from smrl.training.inputs import keep_inputs
from smrl.training.memory_budget import largest_data
from smrl.types import ArraySpec, Continuous, Spec

ENV = "Pendulum-v1"
SHORT: dict[str, Any] = {
    **{"steps": 60, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "batch_size": 8, "reuse": 1},
    **{"actor_hidden": (8,), "critic_hidden": (8,), "quiet": True, "max_episode_steps": 25},
}
FLAGS = (
    *("--steps", "60", "--warmup", "20", "--eval-every", "20", "--eval-episodes", "1", "--batch-size", "8"),
    *("--reuse", "1", "--actor-hidden", "8", "--critic-hidden", "8", "--quiet", "--max-episode-steps", "25"),
)


def train(runs: Path, **settings: Any) -> smrl.Run:
    return smrl.train("ddpg", ENV, **SHORT | settings, runs=runs)


def transitions(count: int, **changes: Any) -> dict[str, Any]:
    """Return random steps of Pendulum's spaces, in one episode."""
    draw = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "obs": draw.uniform(-1, 1, (count + 1, 3)),
        "action": draw.uniform(-2, 2, (count, 1)),
        "reward": draw.normal(size=count),
        "terminated": np.zeros(count, np.bool_),
        "truncated": np.arange(count) == count - 1,
    }
    return arrays | changes


def write_npz(path: Path, count: int = 50, **changes: Any) -> str:
    np.savez(path, **transitions(count, **changes))
    return str(path)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> smrl.Run:
    """A run of other settings to learn from."""
    return train(tmp_path_factory.mktemp("source"), seed=5)


def content(run: smrl.Run) -> tuple[bytes, dict[str, bytes]]:
    """Return evaluations.csv and all arrays of the last checkpoint."""
    saved = checkpoint.load(run.path / "checkpoint", print)
    assert saved is not None
    return (run.path / "evaluations.csv").read_bytes(), {name: a.tobytes() for name, a in saved.arrays.items()}


def test_data_changes_the_networks_and_not_the_own_memory(source: smrl.Run, tmp_path: Path) -> None:
    """Data are loaded before the first step, and the run's own memory and checkpoint stay as they are."""
    own = train(tmp_path, steps=21)
    drawn: list[Any] = []
    sample = Replay.sample

    def spy(self: Replay, *arguments: Any) -> Any:
        drawn.append((self.added, arguments[2]))
        return sample(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replay, "sample", spy)
        mixed = train(tmp_path, steps=21, data=str(source.path), data_share=0.25)
    assert drawn == [(60, 2), (21, 6)], "two rows of the sixty of the source, then six of its own"
    first, second = content(own)[1], content(mixed)[1]
    changed = {name for name in first if first[name] != second[name]}
    assert any("critic" in name for name in changed)
    assert not any(name.startswith("episode") for name in changed), "warm-up and environment are the same"
    assert [len(np.load(file)["reward"]) for file in mixed.path.glob("checkpoint/*21/tail.npz")] == [1]


def test_learning_begins_at_once_without_a_warm_up(tmp_path: Path) -> None:
    trained = train(tmp_path, steps=20, warmup=0, data=write_npz(tmp_path / "data.npz"), data_share=0.5)
    saved = checkpoint.load(trained.path / "checkpoint", print)
    assert saved is not None
    assert saved.arrays["['updates']"] == 20


@pytest.mark.parametrize("share", [pytest.param(None, marks=pytest.mark.slow), 0.5])
def test_continued_run_is_the_same_without_its_sources(share: float | None, source: smrl.Run, tmp_path: Path) -> None:
    """A source that is deleted or grows after the first start changes nothing."""
    data = [write_npz(tmp_path / "data.npz"), str(tmp_path / "run")]
    shutil.copytree(source.path, tmp_path / "run")
    settings: dict[str, Any] = {"data": data, "data_share": share, "from_run": str(tmp_path / "run"), "n_step": 3}
    whole = train(tmp_path / "whole", **settings)
    train(tmp_path / "parts", **settings, on_step=lambda status: status.step == 37)
    write_npz(tmp_path / "data.npz", 70)
    shutil.rmtree(tmp_path / "run")
    continued = train(tmp_path / "parts", **settings)
    assert content(continued) == content(whole)
    for name in (DATA, START):
        assert (continued.path / name).read_bytes() == (whole.path / name).read_bytes()
    config = json.loads((whole.path / "config.json").read_text())
    assert config["inputs"] == {name: checksum(whole.path / name) for name in (DATA, START)}
    assert examine(whole.path).is_intact


def test_sources_are_part_of_the_identity() -> None:
    def canonical(**settings: Any) -> str:
        return identity.canonical(make_settings("sac", ENV, **settings).to_json())

    kinds: list[dict[str, Any]] = [
        {},
        {"data": ["a"]},
        {"data": ["a", "b"]},
        {"data": ["a"], "data_share": 0.5},
        {"from_run": "a"},
    ]
    assert len({canonical(**kind) for kind in kinds}) == len(kinds)
    assert canonical(data="a") == canonical(data=("a",)) == canonical(data=Path("a")), "one source may be a text"
    assert "data" not in canonical(), "runs from before these settings existed are the same"


def test_run_starts_with_the_networks_of_another(source: smrl.Run, tmp_path: Path) -> None:
    saved = checkpoint.load(source.path / "checkpoint", print)
    assert saved is not None
    started = train(tmp_path, steps=21, on_step=lambda status: status.step == 3, from_run=str(source.path))
    found = checkpoint.load(started.path / "checkpoint", print)
    assert found is not None
    networks = [name for name in saved.arrays if name.startswith("['algorithm']")]
    assert networks
    for name in networks:
        np.testing.assert_array_equal(found.arrays[name], saved.arrays[name])
    assert found.arrays["['updates']"] == 0, "counters and replay memory are its own"
    assert [len(np.load(file)["reward"]) for file in started.path.glob("checkpoint/replay/*.npz")] == [2]
    np.testing.assert_array_equal(started.policy(np.ones(3)), source.policy(np.ones(3)))


def test_killed_before_the_first_checkpoint_starts_from_the_same(source: smrl.Run, tmp_path: Path) -> None:
    """Between data.npz and config.json, the run begins again; after config.json, it has what it needs."""
    other = tmp_path / "source"
    shutil.copytree(source.path, other)
    settings: dict[str, Any] = {"data": str(other), "from_run": str(other)}
    whole = train(tmp_path / "whole", **settings)
    killed = train(tmp_path / "killed", steps=21, **settings).path
    (killed / "config.json").unlink()
    shutil.rmtree(killed / "checkpoint")
    (killed / "evaluations.csv").unlink()
    (killed / DATA).write_bytes(b"cut")
    assert content(train(tmp_path / "killed", **settings)) == content(whole)
    shutil.rmtree(killed / "checkpoint")
    (killed / "checkpoint").mkdir()
    shutil.rmtree(other)
    assert content(train(tmp_path / "killed", **settings)) == content(whole)


def test_seeds_that_start_from_other_data_are_reported(tmp_path: Path) -> None:
    notes: list[str] = []
    for seed, value in ((0, 1.0), (1, 1.0), (2, 2.0)):
        directory = RunDirectory(tmp_path / f"seed{seed}")
        directory.path.mkdir()
        inputs = keep_inputs(directory, {DATA: {"reward": np.array([value])}}, notes.append)
        directory.config.write_text(json.dumps(make_config({**SETTINGS, "hyper": HYPER}, inputs=inputs)))
    assert [note.partition(" has started from other data")[0] for note in notes] == [
        str(tmp_path / "seed0"),
        str(tmp_path / "seed1"),
    ]


@pytest.mark.parametrize("name", [DATA, pytest.param(START, marks=pytest.mark.slow)])
def test_damaged_input_is_refused_and_reported(name: str, source: smrl.Run, tmp_path: Path) -> None:
    settings = {"data": str(source.path), "from_run": str(source.path)}
    path = train(tmp_path, steps=21, **settings).path
    file = path / name
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    (damaged,) = (part.damage for part in examine(path).parts if part.name == "inputs")
    assert damaged == (f"{name} has a wrong checksum",)
    if name == START:  # no longer needed once there is a checkpoint
        train(tmp_path, **settings)
        return
    with pytest.raises(SmrlError, match=r"data.npz, which the run learns from, is damaged \(data.npz has a wrong"):
        train(tmp_path, **settings)
    with pytest.raises(SmrlError, match=r"the data that .* learns from cannot be repaired \(data.npz has a wrong"):
        repair(path)
    file.unlink()
    file.symlink_to(tmp_path)
    with pytest.raises(SmrlError, match="is a link"):
        train(tmp_path, **settings)


def words(source: str, runs: Path) -> list[str]:
    flags = ("--steps", "400", "--checkpoint-seconds", "0.05", "--n-step", "2", "--data-share", "0.5")
    return ["train", "ddpg", ENV, *FLAGS, *flags, "--data", source, "--runs", str(runs)]


def test_killed_run_continues_bit_for_bit(tmp_path: Path) -> None:
    data = write_npz(tmp_path / "data.npz", 300)
    main(words(data, tmp_path / "whole"))
    killed = tmp_path / "killed"
    process = start(*words(data, killed))
    wait_for_checkpoint(process, killed, after=60)  # while it learns
    process.kill()
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, f"the kill must hit a run in flight: {errors}"
    (tmp_path / "data.npz").unlink()
    main(words(data, killed))
    assert outcome(ENV, killed) == outcome(ENV, tmp_path / "whole")


@pytest.mark.parametrize("operation", [pytest.param(number, marks=pytest.mark.slow) for number in (1, 2, 3, 5, 7, 9)])
def test_killed_while_the_inputs_are_kept(operation: int, tmp_path: Path) -> None:
    """The process kills itself at a disk operation of its start."""
    data = write_npz(tmp_path / "data.npz", 300)
    main(words(data, tmp_path / "whole"))
    script = f"""
        import os, signal
        from smrl.cli import main
        calls = 0

        def deadly(original):
            def replacement(*args, **kwargs):
                global calls
                calls += 1
                if calls == {operation}:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*args, **kwargs)
            return replacement

        os.fsync, os.replace = deadly(os.fsync), deadly(os.replace)
        main.main({words(data, tmp_path / "killed")!r})
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    main(words(data, tmp_path / "killed"))
    assert outcome(ENV, tmp_path / "killed") == outcome(ENV, tmp_path / "whole")


# Refusals


def test_bad_data_is_refused_before_anything_is_written(
    source: smrl.Run, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train_it = ("train", "ddpg", ENV, *FLAGS)
    (in_tmp_path / "text.txt").write_text("no data")
    (in_tmp_path / "empty").mkdir()
    (in_tmp_path / "zip.npz").write_bytes(b"no archive")
    np.savez(in_tmp_path / "pickled.npz", reward=np.array([{}], dtype=object), allow_pickle=True)
    write_npz(in_tmp_path / "shape.npz", obs=np.zeros((51, 4)))
    write_npz(in_tmp_path / "nan.npz", reward=np.full(50, np.nan))
    write_npz(in_tmp_path / "bounds.npz", action=np.full((50, 1), 2.5))
    write_npz(in_tmp_path / "none.npz", 0)
    write_npz(in_tmp_path / "good.npz")
    damaged = in_tmp_path / "damaged"
    shutil.copytree(source.path, damaged)
    for file in damaged.rglob("tail.npz"):
        file.write_bytes(b"")
    unstarted = in_tmp_path / "unstarted"
    shutil.copytree(source.path, unstarted)
    shutil.rmtree(unstarted / "checkpoint")
    messages = {
        "nowhere": "the data nowhere: there is no such file or folder; a source of data is minari:DATASET-ID",
        "text.txt": "the data text.txt: it is not a source of data",
        "empty": "the data empty: it holds no runs",
        "zip.npz": "the data zip.npz: zip.npz holds no arrays",
        "pickled.npz": "the data pickled.npz: pickled.npz holds no arrays (ValueError",
        "shape.npz": "the data shape.npz: obs has the shape (51, 4) instead of (steps, 3)",
        "nan.npz": "the data nan.npz: row 0, its reward, is not a finite float32 number (50 such rows)",
        "bounds.npz": "the action of row 0 is outside the bounds, from -2 to 2",
        "none.npz": "the data none.npz: it holds no steps",
        "minari:no/such-v0": "minari download no/such-v0 fetches it",
        "damaged": "is damaged (tail.npz has a wrong checksum): smrl doctor",
        "unstarted": "has no checkpoint yet; train it first",
        ".": "the new run itself would be in this folder",
    }
    for name, message in messages.items():
        assert message in refused_here(capsys, *train_it, "--data", name)
    none, every = "leaves no row of the data", "leaves no row that the run collects itself"
    for share, message in {"0": none, "0.01": none, "1": every}.items():
        assert message in refused_here(capsys, *train_it, "--data", "good.npz", "--data-share", share)
    longest = refused_here(capsys, *train_it, "--data", "good.npz", "--n-step", "51", "--windows", "full")
    assert "the longest episode of the data has 50 steps: lower --n-step" in longest
    assert "--data-share needs data" in refused_here(capsys, *train_it, "--data-share", "0.5")
    assert "names good.npz twice" in refused_here(capsys, *train_it, "--data", "good.npz", "good.npz")
    assert not (in_tmp_path / "runs").exists()


def test_other_networks_are_refused(source: smrl.Run, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*flags: object, algorithm: str = "ddpg", env: str = ENV, path: object = source.path) -> str:
        return refused_here(capsys, "train", algorithm, env, *FLAGS, *flags, "--from", path)

    wide = refused("--critic-hidden", "9")
    assert "has the shape (8,) of float32 at ['algorithm']" in wide
    assert "and this run has the shape (9,) of float32: choose the networks that it was trained with" in wide
    assert "has no array at ['algorithm']" in refused("--layer-norm")
    assert "is a run of ddpg: start a run of td3 from one of td3" in refused(algorithm="td3")
    assert "start from a run of equal spaces" in refused(env="MountainCarContinuous-v0")
    assert "does not exist; give the folder of a run" in refused(path="nowhere")
    shutil.copytree(source.path, "diverged")
    for folder in Path("diverged/checkpoint").glob("0*"):
        with np.load(folder / "arrays.npz") as arrays:
            bad = {name: array * np.nan if array.dtype.kind == "f" else array for name, array in arrays.items()}
        manifest = checkpoint.read_manifest(folder)
        checkpoint.write_manifest(folder, manifest | {"arrays": save_arrays(folder / "arrays.npz", bad)})
    assert "has values that are not finite at ['algorithm']" in refused(path="diverged")
    assert not Path("runs").exists()


def test_missing_minari_is_one_message(
    in_tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    (in_tmp_path / "minari.py").write_text("raise SystemExit('code of the working directory was executed')")
    message = refused_here(capsys, "train", "ddpg", ENV, *FLAGS, "--data", "minari:some/set-v0")
    assert "the module 'minari' cannot be imported" in message
    assert message.endswith('pip install "smrl[data]"\n')


def test_data_larger_than_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_npz(tmp_path / "data.npz", 5000)
    spec = Spec(ArraySpec((3,)), Continuous(1))
    assert largest_data(make_settings("sac", ENV, capacity=1000), spec, 30_000 + 1000 * 24) == 10_000
    monkeypatch.setattr("smrl.training.inputs.largest_data", lambda settings, spec: 10_000)
    with pytest.raises(SmrlError, match="its arrays have more than 10,000 bytes"):
        train(tmp_path / "runs", data=data)


def test_runs_of_other_spaces_or_tasks(source: smrl.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def other() -> gymnasium.Env[Any, Any]:
        env = gymnasium.make(ENV)
        return gymnasium.wrappers.TransformAction(env, lambda action: np.array([action - 1.0]), Discrete(3))

    with pytest.raises(SmrlError, match=r"3 discrete actions: give only runs of equal spaces"):
        smrl.train(
            "dqn",
            other,
            env_name="discrete",
            runs=tmp_path,
            data=str(source.path),
            **{name: value for name, value in SHORT.items() if not name.endswith("hidden")},
        )
    train(tmp_path / "repeated", steps=40, action_repeat=2, data=str(source.path), quiet=False)
    assert f"the data {source.path} has the action_repeat 1, this run 2." in capsys.readouterr().err


def test_running_statistics_come_along_with_the_networks(tmp_path: Path) -> None:
    normalised = {"normalise_observations": True, "normalise_rewards": True}
    first = train(tmp_path / "first", **normalised)
    second = train(tmp_path, seed=1, envs=2, from_run=str(first.path), **normalised)
    before, after = (checkpoint.load(run.path / "checkpoint", print) for run in (first, second))
    assert before is not None
    assert after is not None
    for name in ("observations", "returns"):
        assert int(before.arrays[f"statistics.{name}.count"]) == 60
        assert int(after.arrays[f"statistics.{name}.count"]) == 120
    with pytest.raises(SmrlError, match="was trained with --normalise-observations, and its networks know nothing"):
        train(tmp_path, seed=2, from_run=str(first.path))


def test_export_to_minari(source: smrl.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", str(source.path), "--to", "minari", "-o", str(tmp_path / "pendulum-v0")])
    assert "Minari dataset pendulum-v0, 3 episodes, 60 steps" in " ".join(capsys.readouterr().out.split())
    words = ("export", str(source.path), "--to", "minari", "--best", "-o", str(tmp_path / "best"))
    assert "leave --best out" in refused_here(capsys, *words)
