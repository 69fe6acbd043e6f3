"""The tables of a run, and the records that are read from them."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from written_runs import make_config

from smrl.errors import SmrlError
from smrl.runs.paths import CONFIG, EVALUATIONS
from smrl.runs.records import CsvLog, lines_until, read_run, read_runs

HEADER = "step,episodes,mean,sd,min,max,length"
SETTINGS = {"algorithm": "sac", "env": "Pendulum-v1", "reuse": "10", "seed": 3, "steps": 3000, "hyper": {"tau": 0.005}}


def write_run(path: Path, evaluations: Sequence[tuple[int, float]]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / CONFIG).write_text(json.dumps(make_config(SETTINGS)))
    rows = [f"{step},10,{mean},1.0,{mean - 1},{mean + 1},200" for step, mean in evaluations]
    (path / EVALUATIONS).write_text("\n".join([HEADER, *rows, ""]))
    return path


def test_read_run(tmp_path: Path) -> None:
    record = read_run(write_run(tmp_path, [(1000, -1200.5), (2000, -150.25)]))
    assert (record.path, record.env, record.algorithm, record.reuse) == (tmp_path, "Pendulum-v1", "sac", "10")
    assert (record.seed, record.budget, record.episodes, record.settings["tau"]) == (3, 3000, 10, 0.005)
    assert record.steps.tolist() == [1000, 2000]
    assert record.returns.tolist() == [-1200.5, -150.25]


def test_identity_ignores_seed_and_steps(tmp_path: Path) -> None:
    record = read_run(write_run(tmp_path, [(1000, 0.0)]))
    for changes, same in (({"seed": 4, "steps": 9}, True), ({"tau": 0.01}, False), ({"env": "Ant-v4"}, False)):
        other = dataclasses.replace(record, settings=record.settings | changes)
        assert (other.identity == record.identity) is same


def test_a_run_with_an_averaged_policy_is_also_that_without(tmp_path: Path) -> None:
    run = write_run(tmp_path, [(1000, -9.0), (2000, -8.0)])
    (run / CONFIG).write_text(json.dumps(make_config(SETTINGS | {"average_policy": 0.1})))
    lines = (run / EVALUATIONS).read_text().splitlines()
    assert len(read_run(run).variants()) == 1, "from before the newest policy was evaluated, too"
    (run / EVALUATIONS).write_text("\n".join([f"{lines[0]},newest", f"{lines[1]},", f"{lines[2]},-5.0", ""]))
    assert len(read_run(run).variants()) == 1, "the first part of it is from before"
    (run / EVALUATIONS).write_text("\n".join([f"{lines[0]},newest", f"{lines[1]},-7.0", f"{lines[2]},-5.0", ""]))
    averaged, newest = read_run(run).variants()
    assert (averaged.returns.tolist(), newest.returns.tolist()) == ([-9.0, -8.0], [-7.0, -5.0])
    assert [one.until(1500).returns.tolist() for one in averaged.until(1500).variants()] == [[-9.0], [-7.0]]
    (run / CONFIG).write_text(json.dumps(make_config(SETTINGS)))
    assert newest.identity == read_run(run).identity != averaged.identity


@pytest.mark.parametrize("tail", ["3000,10,-1", "3000,10,-100.0,1.0,-101.0,-99.0,200"])
def test_incomplete_last_line_is_ignored(tmp_path: Path, tail: str) -> None:
    file = write_run(tmp_path, [(1000, -1200.0), (2000, -150.0)]) / EVALUATIONS
    file.write_text(file.read_text() + tail)
    assert read_run(tmp_path).steps.tolist() == [1000, 2000]


def test_carriage_returns_are_accepted(tmp_path: Path) -> None:
    file = write_run(tmp_path, [(1000, -1200.0)]) / EVALUATIONS
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
def test_unusable_evaluations_are_refused(tmp_path: Path, text: str | None, message: str) -> None:
    file = write_run(tmp_path, [(1000, -1200.0)]) / EVALUATIONS
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(SmrlError, match=message) as caught:
        read_run(tmp_path)
    assert str(file) in str(caught.value)


def test_read_runs_finds_all_below_a_folder(tmp_path: Path) -> None:
    for name in ("b/sac/seed0", "a/sac/seed1", "a/sac/seed0"):
        write_run(tmp_path / name, [(1000, 0.0)])
    write_run(tmp_path / "a" / "not evaluated yet", [])
    (write_run(tmp_path / "a" / "just started", []) / EVALUATIONS).unlink()
    (tmp_path / CONFIG).write_text("no run")
    found = [record.path.relative_to(tmp_path).as_posix() for record in read_runs(tmp_path)]
    assert found == ["a/sac/seed0", "a/sac/seed1", "b/sac/seed0"]
    assert len(read_runs(tmp_path / "b" / "sac" / "seed0")) == 1  # a run's own folder will do
    with pytest.raises(SmrlError, match="is not a folder; give a folder with runs"):
        read_runs(tmp_path / "c")


def test_read_runs_refuses_a_damaged_run(tmp_path: Path) -> None:
    (write_run(tmp_path / "a", [(1000, 0.0)]) / CONFIG).write_text("{")
    with pytest.raises(SmrlError, match="is damaged"):
        read_runs(tmp_path)


def test_log_drops_rows_after_the_step_and_incomplete_rows(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    log = CsvLog(path, ("step", "a", "b"), continue_at=0)
    for step in (10, 20, 30):
        log.write({"step": step, "a": 'with "quotes", and more'})
    complete = path.read_bytes()
    with path.open("a") as file:
        file.write("40,cut")
    again = CsvLog(path, ("step", "a", "b"), continue_at=20)
    assert path.read_bytes() == complete[: complete.index(b"30,")]
    again.write({"step": 30, "a": 'with "quotes", and more'})
    assert path.read_bytes() == complete
    assert again.lines == log.lines == lines_until(path, 30)


@pytest.mark.parametrize("content", [b"", b"step\n", None])
def test_log_restores_a_truncated_or_deleted_file(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "table.csv"
    log = CsvLog(path, ("step", "a"), continue_at=0)
    log.write({"step": 10, "a": 1.5})
    complete = path.read_bytes()
    path.unlink() if content is None else path.write_bytes(content)
    log.restore()
    assert path.read_bytes() == complete == b"step,a\n10,1.5\n"


def test_lines_of_missing_and_empty_files(tmp_path: Path) -> None:
    assert lines_until(tmp_path / "nowhere", 10) == []
    (tmp_path / "empty").write_text("")
    assert lines_until(tmp_path / "empty", 10) == [""]
