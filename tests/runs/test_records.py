import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from smrl.errors import SmrlError
from smrl.runs.records import read_run, read_runs

HEADER = "step,episodes,mean,sd,min,max,length"
SETTINGS = {"algorithm": "sac", "env": "Pendulum-v1", "reuse": "10", "seed": 3, "steps": 3000, "hyper": {"tau": 0.005}}
CONFIG = {"format": 2, "settings": SETTINGS, "spec": {"obs": {}, "action": {}}, "threads": 1, "versions": {}}


def write_run(path: Path, evaluations: Sequence[tuple[int, float]]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(CONFIG))
    rows = [f"{step},10,{mean},1.0,{mean - 1},{mean + 1},200" for step, mean in evaluations]
    (path / "evaluations.csv").write_text("\n".join([HEADER, *rows, ""]))
    return path


def test_a_run_is_read(tmp_path: Path) -> None:
    record = read_run(write_run(tmp_path, [(1000, -1200.5), (2000, -150.25)]))
    assert (record.path, record.env, record.algorithm, record.reuse) == (tmp_path, "Pendulum-v1", "sac", "10")
    assert (record.seed, record.budget, record.episodes, record.settings["tau"]) == (3, 3000, 10, 0.005)
    assert record.steps.tolist() == [1000, 2000]
    assert record.returns.tolist() == [-1200.5, -150.25]


def test_records_of_one_identity_differ_in_seed_and_steps_only(tmp_path: Path) -> None:
    record = read_run(write_run(tmp_path, [(1000, 0.0)]))
    for changes, same in (({"seed": 4, "steps": 9}, True), ({"tau": 0.01}, False), ({"env": "Ant-v4"}, False)):
        other = dataclasses.replace(record, settings=record.settings | changes)
        assert (other.identity == record.identity) is same


@pytest.mark.parametrize("tail", ["3000,10,-1", "3000,10,-100.0,1.0,-101.0,-99.0,200"])
def test_a_line_that_was_cut_off_is_ignored(tmp_path: Path, tail: str) -> None:
    file = write_run(tmp_path, [(1000, -1200.0), (2000, -150.0)]) / "evaluations.csv"
    file.write_text(file.read_text() + tail)
    assert read_run(tmp_path).steps.tolist() == [1000, 2000]


def test_carriage_returns_do_no_harm(tmp_path: Path) -> None:
    file = write_run(tmp_path, [(1000, -1200.0)]) / "evaluations.csv"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert read_run(tmp_path).returns.tolist() == [-1200.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no evaluation yet; wait"),
        ("", "no evaluation yet; wait"),
        (f"{HEADER}\n", "no evaluation yet; wait"),
        ("step,mean\n1000,-5\n", "columns step, episodes and mean"),
        (f"{HEADER}\n1000,10,oops\n", "columns step, episodes and mean"),
        (f"{HEADER}\n1000\n", "columns step, episodes and mean"),
        (f"{HEADER}\n{10**30},10,1\n", "columns step, episodes and mean"),
        (f"{HEADER}\n1000,10,{'1' * 200_000}\n", "columns step, episodes and mean"),
        (f"{HEADER}\n2000,10,1\n1000,10,1\n", "steps do not increase"),
    ],
)
def test_evaluations_that_cannot_be_read_are_said_in_a_sentence(tmp_path: Path, text: str | None, message: str) -> None:
    file = write_run(tmp_path, [(1000, -1200.0)]) / "evaluations.csv"
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(SmrlError, match=message) as caught:
        read_run(tmp_path)
    assert str(file) in str(caught.value)


def test_all_runs_below_a_folder_are_read(tmp_path: Path) -> None:
    for name in ("b/sac/seed0", "a/sac/seed1", "a/sac/seed0"):
        write_run(tmp_path / name, [(1000, 0.0)])
    write_run(tmp_path / "a" / "not evaluated yet", [])
    (write_run(tmp_path / "a" / "just started", []) / "evaluations.csv").unlink()
    (tmp_path / "config.json").write_text("not a run's")
    found = [record.path.relative_to(tmp_path).as_posix() for record in read_runs(tmp_path)]
    assert found == ["a/sac/seed0", "a/sac/seed1", "b/sac/seed0"]
    assert len(read_runs(tmp_path / "b" / "sac" / "seed0")) == 1  # a run's own folder will do
    with pytest.raises(SmrlError, match="is not a folder; give a folder with runs"):
        read_runs(tmp_path / "c")


def test_a_damaged_run_is_not_left_out_silently(tmp_path: Path) -> None:
    (write_run(tmp_path / "a", [(1000, 0.0)]) / "config.json").write_text("{")
    with pytest.raises(SmrlError, match="is damaged"):
        read_runs(tmp_path)
