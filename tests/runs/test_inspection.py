"""What `inspect` says of a run, without importing anything that the run names."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import smrl
from smrl.algorithms import registry
from smrl.errors import SmrlError
from smrl.runs.config import checksum
from smrl.runs.inspection import inspect

SETTINGS: dict[str, Any] = {
    **{"steps": 30, "warmup": 10, "eval_every": 10, "eval_episodes": 1, "batch_size": 4, "reuse": 1},
    **{"actor_hidden": (4,), "critic_hidden": (4,), "quiet": True},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("trained")
    return smrl.train("ddpg", "Pendulum-v1", **SETTINGS, runs=runs).path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_whole_run(folder: Path) -> None:
    report = inspect(folder)
    assert report.is_whole
    assert (report.step, report.code) == (30, {})
    assert report.different == {
        **{"warmup": 10, "batch_size": 4, "eval_every": 10, "eval_episodes": 1},
        **{"actor_hidden": [4], "critic_hidden": [4]},
    }
    text = "\n".join(report.lines())
    for part in (
        "DDPG, reuse 1, Pendulum-v1, seed 0",
        "actor_hidden 4",
        "30 of 30",
        "format      3",
        "jax 0.",
        "state       whole",
    ):
        assert part in text
    sizes = {part.name: part.size for part in report.parts}
    assert sizes["config.json"] == (folder / "config.json").stat().st_size
    assert sizes["all together"] == sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("file", "part"),
    [
        *(("config.json", "config.json"), ("evaluations.csv", "evaluations.csv"), ("training.csv", "training.csv")),
        *(
            (f"checkpoint/000000000030/{name}.npz", part)
            for name, part in (("arrays", "arrays"), ("tail", "replay memory"))
        ),
        ("checkpoint/000000000030/manifest.json", "manifests"),
        ("checkpoint/replay/rows-000000000000-000000000029.npz", "replay memory"),
    ],
)
def test_damage_is_told_by_kind(folder: Path, file: str, part: str) -> None:
    victim = folder / file
    for harm in (lambda: victim.write_bytes(victim.read_bytes()[:-9]), lambda: victim.write_bytes(b""), victim.unlink):
        harm()
        report = inspect(folder)
        assert [found.name for found in report.parts if found.damage] == [part]
        assert f"state       damaged; smrl repair {folder}" in "\n".join(report.lines())


def test_nothing_that_a_run_names_is_imported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("env", "algorithm", "rule"):
        (folder / f"evil_{name}.py").write_text("raise SystemExit('executed')")
    monkeypatch.syspath_prepend(folder)
    config = json.loads((folder / "config.json").read_text())
    config["settings"] |= {"env": "evil_env:X-v0", "algorithm": "evil_algorithm:make", "reuse": "evil_rule:rule"}
    config["settings"]["hyper"] = {"tau": 0.005, "secret\x1b[2J": 1}
    config["checksum"] = checksum(config)
    (folder / "config.json").write_text(json.dumps(config))
    report = inspect(folder)
    assert report.code == {
        "environment": "evil_env:X-v0",
        "algorithm": "evil_algorithm:make",
        "reuse rule": "evil_rule:rule",
    }
    text = "\n".join(report.lines())
    assert "the environment evil_env:X-v0, the algorithm evil_algorithm:make, the reuse rule evil_rule:rule" in text
    assert "tau 0.005" in text, "its defaults are not known"
    assert "\x1b" not in text
    assert not any(name.startswith("evil") for name in [*sys.modules, *registry.names()])


def test_a_run_without_its_config_is_described_by_its_checkpoint(folder: Path) -> None:
    (folder / "config.json").unlink()
    report = inspect(folder)
    assert "DDPG, reuse 1, Pendulum-v1" in "\n".join(report.lines())
    shutil.rmtree(folder / "checkpoint")
    (folder / "config.json").write_text("{")
    report = inspect(folder)
    assert (report.config, report.step, report.is_whole) == (None, None, False)
    assert report.lines()


def test_links_and_folders_that_are_no_runs(folder: Path, tmp_path: Path) -> None:
    (folder / "tensorboard" / "link").symlink_to(tmp_path)
    assert inspect(folder).parts[-1].damage == ("tensorboard/link is a link",)
    for other in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SmrlError, match="is not a run"):
            inspect(other)
