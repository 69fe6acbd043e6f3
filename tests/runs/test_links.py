"""Somebody else's run cannot make smrl write or delete outside of its folder."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smrl
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.runs import checkpoint, identity, manifests
from smrl.runs.checkpoint import Saved
from smrl.runs.paths import RunDirectory
from smrl.runs.repair import repair
from smrl.types import ArraySpec, Continuous, Spec

SPEC = Spec(ArraySpec((1,)), Continuous(1))
SETTINGS: dict[str, Any] = {
    **{"steps": 30, "warmup": 10, "eval_every": 10, "eval_episodes": 1, "batch_size": 4, "reuse": 1},
    **{"actor_hidden": (4,), "critic_hidden": (4,), "quiet": True},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("trained")
    return smrl.train("ddpg", "Pendulum-v1", **SETTINGS, runs=runs).path


def content(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    "name",
    [
        *("checkpoint", "checkpoint/replay", "checkpoint/000000000030", "checkpoint/000000000030/arrays.npz"),
        *("checkpoint/.new", ".lock", ".config.json.new", "config.json", "evaluations.csv", ".evaluations.csv.new"),
        *("training.csv", "tensorboard", "tensorboard/events"),
    ],
)
def test_a_link_in_a_run_is_refused(trained: Path, tmp_path: Path, name: str) -> None:
    outside, folder = tmp_path / "outside", tmp_path.joinpath("runs", *trained.parts[-3:])
    shutil.copytree(trained, folder)
    link = folder / name
    if link.exists():
        shutil.move(link, outside)
    else:
        outside.mkdir() if name == "checkpoint/.new" else outside.write_text("precious")
    link.symlink_to(outside)
    before = content(tmp_path)
    for attempt in (
        lambda: smrl.train("ddpg", "Pendulum-v1", **SETTINGS | {"steps": 40}, runs=tmp_path / "runs"),
        lambda: repair(folder),
    ):
        with pytest.raises(SmrlError, match=f"{name} is a link"):
            attempt()
    assert content(tmp_path) == before


def test_a_run_and_the_runs_folder_may_be_links(trained: Path, tmp_path: Path) -> None:
    """And W&B makes links in its own folder."""
    real = tmp_path / "disk" / "a run"
    shutil.copytree(trained, real)
    (real / "wandb").mkdir()
    (real / "wandb" / "latest-run").symlink_to(tmp_path)
    place = tmp_path.joinpath("runs", *trained.parts[-3:])
    place.parent.mkdir(parents=True)
    place.symlink_to(real)
    (tmp_path / "more").symlink_to(tmp_path / "runs")
    run = smrl.train("ddpg", "Pendulum-v1", **SETTINGS | {"steps": 40}, runs=tmp_path / "more")
    assert run.record.steps.tolist() == [10, 20, 30, 40]
    assert (real / "checkpoint" / "000000000040").is_dir()


@pytest.mark.parametrize(
    "name", ["../../precious.npz", "/etc/passwd", "rows-1-2.npz", "rows-000000000000-000000000009.npz/.."]
)
def test_shards_have_plain_names(tmp_path: Path, name: str) -> None:
    replay = Replay(100, SPEC, 0.9)
    for row in range(10):
        replay.add(np.array([row]), np.zeros(1), 0.0, np.array([row + 1]), False, False)
    checkpoint.save(tmp_path, Saved(10, {}, {}), replay)
    place = tmp_path / "000000000010"
    body = manifests.read(place)
    manifests.write(place, body | {"replay": body["replay"] | {name: "0"}})
    assert manifests.read_if_whole(place) is None
    with pytest.raises(SmrlError, match="is damaged"):
        checkpoint.load(tmp_path, pytest.fail)


def test_a_manifest_is_of_its_folder(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, Saved(10, {}, {}), Replay(100, SPEC, 0.9))
    shutil.copytree(tmp_path / "000000000010", tmp_path / "000000000099")
    assert checkpoint.newest_step(tmp_path) == 10


@pytest.mark.parametrize(
    "env", ["..", "../../x", ".", "", "/", "/etc", "a/../../../b", "~", "..\\..\\x", "...", "x\0y"]
)
def test_every_environment_has_a_folder_below_the_runs(tmp_path: Path, env: str) -> None:
    runs = tmp_path / "a" / "runs"
    settings = {"algorithm": "../sac", "env": env, "reuse": "../1", "seed": 0, "steps": 1, "hyper": {"tau": "../.."}}
    place = identity.find(settings, {}, runs)
    assert place.resolve() == place, "without dots"
    assert place.relative_to(runs).parts[-1] == "seed0"
    assert len(place.relative_to(runs).parts) == 3


def test_a_folder_in_place_of_a_file_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    for name in ("config.json", "evaluations.csv", "training.csv", ".lock"):
        (tmp_path / name / name).mkdir(parents=True)
        with (
            pytest.raises(SmrlError, match="is a folder where a file belongs; move it elsewhere"),
            RunDirectory(tmp_path / name).locked(),
        ):
            pass
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint").write_text("")
    with pytest.raises(SmrlError, match="is a file, not a folder"), RunDirectory(tmp_path / "run").locked():
        pass
