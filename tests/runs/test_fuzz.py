"""Every file of a run is damaged in every way: the run ends identical, or reports what was lost."""

import csv
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smrl
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.runs import checkpoint
from smrl.runs.checkpoint import ARRAYS, MANIFEST, TAIL
from smrl.runs.doctor import examine, repair
from smrl.runs.paths import CONFIG, EVALUATIONS, TRAINING, RunDirectory
from smrl.types import Spec

SETTINGS: dict[str, Any] = {
    **{"steps": 60, "warmup": 10, "eval_every": 10, "eval_episodes": 1, "batch_size": 4, "reuse": 1},
    **{"actor_hidden": (4,), "critic_hidden": (4,), "checkpoint_seconds": 1e9},
}
SHARED = "checkpoint/replay/rows-000000000000-000000000019.npz"  # listed by both checkpoints
FILES = [
    *(CONFIG, EVALUATIONS, TRAINING, ".lock", SHARED),
    "checkpoint/replay/rows-000000000019-000000000039.npz",
    *(f"checkpoint/{step:012d}/{name}" for step in (20, 40) for name in (MANIFEST, ARRAYS, TAIL)),
]


def truncate(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def flip(file: Path) -> None:
    """Flip a bit in the middle; in config.json one of a digit of a setting."""
    content = bytearray(file.read_bytes())
    place = content.find(b'"batch_size": 4') + 14 if file.name == CONFIG else len(content) // 2
    if content:
        content[place] ^= 1
    file.write_bytes(content)


def replace_by_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()
    (file / "inside").write_text("something")


HARMS: list[Callable[[Path], None]] = [truncate, zero, flip, Path.unlink, replace_by_a_folder]
CASES = [(file, harm) for file in FILES for harm in HARMS]
QUICK = {(file, HARMS[index % len(HARMS)]) for index, file in enumerate(FILES)} | {(CONFIG, flip)}


def train(runs: Path, **settings: Any) -> smrl.Run:
    return smrl.train("ddpg", "Pendulum-v1", **SETTINGS | settings, runs=runs)


def outcome(path: Path) -> list[bytes]:
    """Return settings, evaluations, arrays and transitions of a run, as bytes."""
    config = RunDirectory(path).read_config()
    replay = Replay(100, Spec.from_json(config["spec"]), gamma=0.99)
    saved = checkpoint.load(path / "checkpoint", pytest.fail, replay)
    assert saved is not None
    transitions = replay.sample(np.random.default_rng(0), 1, 300)
    settings = repr(sorted(config["settings"].items())).encode()
    arrays = [array.tobytes() for _, array in sorted(saved.arrays.items())]
    return [settings, (path / EVALUATIONS).read_bytes(), *arrays, *(np.asarray(x).tobytes() for x in transitions)]


def logged_steps(path: Path) -> set[str]:
    with (path / TRAINING).open() as file:
        return {row["step"] for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    """Return the runs folder of a run with checkpoints at steps 20 and 40, and the outcome of an undisturbed run."""
    runs = tmp_path_factory.mktemp("begun")
    for stop in (20, 40):
        train(runs / "begun", on_step=lambda status, stop=stop: status.step == stop)
    return runs / "begun", outcome(train(runs / "undisturbed").path)


@pytest.mark.parametrize(
    ("file", "harm"),
    [
        pytest.param(file, harm, id=f"{file}-{harm.__name__}", marks=[] if (file, harm) in QUICK else pytest.mark.slow)
        for file, harm in CASES
    ],
)
def test_damaged_file(
    begun: tuple[Path, list[bytes]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    harm: Callable[[Path], None],
) -> None:
    template, expected = begun
    shutil.copytree(template, tmp_path / "runs")
    (folder,) = tmp_path.glob("runs/*/*/seed0")
    assert examine(folder).is_intact
    evaluations, logged = (folder / EVALUATIONS).read_bytes(), logged_steps(folder)
    harm(folder / file)
    assert examine(folder).is_intact == (file == ".lock")
    capsys.readouterr()
    is_in_the_way = harm is replace_by_a_folder and "/" not in file
    if file == SHARED or is_in_the_way:
        with pytest.raises(SmrlError, match="move it elsewhere" if is_in_the_way else f"smrl doctor {folder} --repair"):
            train(tmp_path / "runs")
    if is_in_the_way:
        return
    if file == SHARED:
        (messages,) = repair(folder)
        assert "19 of the 40 transitions" in messages
    run = train(tmp_path / "runs")
    assert run.path == folder
    assert run.record.steps.tolist() == [10, 20, 30, 40, 50, 60]
    assert (folder / EVALUATIONS).read_bytes().startswith(evaluations)
    assert logged_steps(folder) >= logged
    assert (outcome(folder) == expected) == (file != SHARED)
    messages = capsys.readouterr().err
    is_needless = file in (".lock", SHARED) or "000000000020" in file  # all that it held is in the newer checkpoint
    assert is_needless or f"{file} was" in messages or "is damaged" in messages
