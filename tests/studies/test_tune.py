"""`smrl tune`: a study of real runs, which continues after a kill and is the same with the same seed."""

import shlex
import signal
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands import refused_here, start

import smrl
from smrl.cli.main import main
from smrl.presets import resolve
from smrl.reading import read_toml

optuna, sqlalchemy = pytest.importorskip("optuna"), pytest.importorskip("sqlalchemy")
SPACE = (
    "[tau]\nlow = 0.001\nhigh = 0.5\nlog = true\n[reuse]\nchoices = [1, 2]\n[actor_hidden]\nchoices = [[8], [8, 8]]\n"
)
SETTINGS = "ddpg Pendulum-v1 --steps 60 --warmup 20 --eval-every 20 --eval-episodes 1 --batch-size 8"
COMMAND = shlex.split(
    f"tune {SETTINGS} --critic-hidden 8 --max-episode-steps 10 --threads 1 --space space.toml --quiet"
)


@pytest.fixture(autouse=True)
def space(in_tmp_path: Path) -> None:
    Path("space.toml").write_text(SPACE)


def trials(folder: str) -> list[Any]:
    url = sqlalchemy.URL.create("sqlite", database=f"{folder}/study.db").render_as_string()
    return list(optuna.load_study(study_name="smrl", storage=url).trials)


def facts(folder: str) -> list[tuple[Any, ...]]:
    return [(one.number, one.state.name, one.params, one.value, one.intermediate_values) for one in trials(folder)]


def tables(folder: str) -> dict[str, bytes]:
    """Return the evaluations of all runs of a study, by folder."""
    found = Path(folder, "runs").glob("*/*/seed0/evaluations.csv")  # rglob would trip over checkpoints that vanish
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(found)}


def test_a_search_ends_with_a_preset_and_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    study = "study #1?"  # signs that mean something in the address of a database
    Path("space.toml").write_text(SPACE.replace("[[8], [8, 8]]", "[[8]]"))  # networks of one shape are compiled once
    main([*COMMAND, "--trials", "2", "--study", study])
    done = facts(study)
    assert [(number, state) for number, state, *_ in done] == [(0, "COMPLETE"), (1, "COMPLETE")]
    assert [len(values) for *_, values in done] == [3, 3]
    best = max(done, key=lambda one: one[3])
    shown = capsys.readouterr().out
    assert f"best settings: {study}/best.toml" in shown
    settings = resolve("ddpg", "Pendulum-v1", f"{study}/best.toml", steps=60)
    assert settings.hyper.tau == pytest.approx(best[2]["tau"], rel=1e-3)
    assert settings.reuse == best[2]["reuse"]
    assert (settings.warmup, settings.batch_size, settings.max_episode_steps) == (20, 8, 10)
    assert f"trial {best[0]} of smrl tune" in read_toml(Path(f"{study}/best.toml"))["title"]
    page = Path(f"{study}/trials.md").read_text()
    assert "| trial | state | return | steps | tau | reuse | actor_hidden |" in page
    assert page.count("| complete |") == 2
    assert Path(f"{study}/trials.png").stat().st_size > 5_000

    (run,) = (found for found in map(smrl.load, _runs(study)) if found.settings == settings)
    assert run.record.steps.tolist() == [20, 40, 60]
    before = tables(study)
    main([*COMMAND, "--trials", "2", "--study", study])  # there is nothing left to do
    assert (facts(study), tables(study)) == (done, before)
    for flags, message in {
        "--gamma 0.9": f"{study} searches with gamma 0.99, not 0.9",
        "--seed 1": f"{study} searches with seed 0, not 1",
        "--stop-at 3": "--stop-at would end trials at different steps",
        "--real-time": "share one device",
        "--eval-every 100": "end before their first evaluation",
        "--trials 0": "trials must be a whole number",
        "--tau 0.1": "space.toml: tau is given as a flag",
    }.items():
        assert message in refused_here(capsys, *COMMAND, "--study", study, *flags.split())
    Path(f"{study}/study.db").write_bytes(b"not a database" * 100)
    assert f"{study}/study.db cannot be used as a study" in refused_here(capsys, *COMMAND, "--study", study)


def _rows(table: bytes) -> int:
    return table.count(b"\n") - 1


def _runs(folder: str) -> list[Path]:
    return [file.parent for file in sorted(Path(folder, "runs").rglob("config.json"))]


def test_without_optuna(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert 'pip install "smrl[tune]"' in refused_here(capsys, *COMMAND)


@pytest.mark.slow
def test_a_killed_search_continues_as_if_nothing_had_happened() -> None:
    """SIGKILL in the middle of two trials."""
    command = [*COMMAND, "--trials", "4", "--steps", "400", "--checkpoint-seconds", "0"]
    main([*command, "--study", "calm"])
    for rows in (5, 30):  # in the first and in the second trial, which have 20 each
        process = start(*command, "--study", "killed")
        while process.poll() is None and sum(map(_rows, tables("killed").values())) < rows:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    main([*command, "--study", "killed"])
    assert facts("killed") == facts("calm")
    assert tables("killed") == tables("calm")
    assert Path("killed/best.toml").read_text() == Path("calm/best.toml").read_text()


@pytest.mark.slow
def test_several_processes_share_the_trials() -> None:
    workers = [start(*COMMAND, "--trials", "6", "--study", "shared") for _ in range(2)]
    for worker in workers:
        _, errors = worker.communicate(timeout=600)
        assert worker.returncode == 0, errors
    found = trials("shared")
    assert [one.number for one in found] == list(range(6))
    assert {one.state.name for one in found} <= {"COMPLETE", "PRUNED"}
    first, second = (one for one in found[:2])
    assert second.datetime_start < first.datetime_complete, "they did not work at the same time"


@pytest.mark.slow
def test_a_pruned_trial_is_a_run_that_can_be_continued(in_tmp_path: Path) -> None:
    main([*COMMAND, "--trials", "10", "--steps", "200", "--study", "pruning"])
    pruned = [one for one in trials("pruning") if one.state.name == "PRUNED"]
    assert pruned, "no trial was pruned"
    assert Path("pruning/trials.md").read_text().count("| pruned |") == len(pruned)
    (path, *_) = (path for path in _runs("pruning") if len(smrl.load(path).record.steps) < 10)
    chosen = smrl.load(path).settings
    flat = {name: value for name, value in chosen.to_json().items() if name not in ("hyper", "algorithm", "env")}
    for runs in ("pruning/runs", "anew"):
        smrl.train("ddpg", "Pendulum-v1", runs=runs, quiet=True, **flat | chosen.to_json()["hyper"])
    assert tables("pruning")[str(path.relative_to("pruning") / "evaluations.csv")] in {
        file.read_bytes() for file in Path("anew").rglob("evaluations.csv")
    }
    assert sqlite3.connect("pruning/study.db").execute("pragma integrity_check").fetchone() == ("ok",)
