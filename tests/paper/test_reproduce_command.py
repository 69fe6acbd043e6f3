"""`smrl reproduce`: the list, refusals, and a small study from end to end."""

import dataclasses
import shutil
import statistics
from pathlib import Path

import pytest
from commands import refused_here

import smrl
from smrl.cli.main import main
from smrl.paper.studies import STUDIES, Runs, Study

SMALL = {
    **{"steps": 60, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "batch_size": 8},
    **{"actor_hidden": (8,), "critic_hidden": (8,)},
}
PENDULUM = ("Pendulum-v1",)
TINY = Study("Fig. 0", "a small study", (Runs("ddpg", PENDULUM, {"reuse": [1, 2], **SMALL}),), seeds=2)
SHORTER = SMALL | {"reuse": 2, "steps": 40}
MEAN = {"average_policy": 0.5}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "begin with a name: smrl reproduce NAME, with one of q-smr, batch-fit, theory, hyperparameters, gym"),
        (("gim",), "did you mean gym?"),
        (("--quiet", "q-smr"), "unexpected argument 'q-smr'"),
        (("gym", "--scale", "2"), "scale"),
        (("gym", "--seeds", "0"), "seeds"),
        (("gym", "--tasks", "Hoper-v4"), "did you mean Hopper-v4?"),
    ],
)
def test_refused(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], in_tmp_path: Path) -> None:
    assert message in refused_here(capsys, "reproduce", *words)


def test_study_from_end_to_end(
    capsys: pytest.CaptureFixture[str], in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(STUDIES):
        monkeypatch.delitem(STUDIES, name)
    monkeypatch.setitem(STUDIES, "tiny", TINY)
    main(["reproduce", "tiny", "--quiet"])
    messages = capsys.readouterr().out
    assert "Fig. 0: a small study" in messages
    assert "4 runs, 0 of them finished already; the others take about" in messages
    assert (in_tmp_path / "runs/reproduced/tiny.png").stat().st_size > 10_000
    assert "| Pendulum-v1 | DDPG, reuse 2 | 60 |" in (in_tmp_path / "runs/reproduced/tiny.md").read_text()
    main(["reproduce", "--list"])
    assert "4 of 4" in capsys.readouterr().out
    main(["reproduce", "tiny", "--quiet"])
    assert "core-hours" not in capsys.readouterr().out, "nothing is left to run"
    shutil.move(next(Path("runs").glob("Pendulum-v1/*reuse2*/seed1")), Path("found/somewhere"))
    main(["reproduce", "tiny", "--show", "--runs", "found"])
    table = (in_tmp_path / "found/reproduced/tiny.md").read_text()
    assert "| Pendulum-v1 | DDPG, reuse 2 | 60 |" in table
    assert "reuse 1" not in table, "nothing is trained"
    monkeypatch.setitem(STUDIES, "tiny", dataclasses.replace(TINY, first_seed=5))
    assert "no evaluated run" in refused_here(capsys, "reproduce", "tiny", "--show", "--runs", "found")
    monkeypatch.setitem(
        STUDIES, "tiny", dataclasses.replace(TINY, runs=(Runs("ddpg", PENDULUM, SHORTER, label="short"),))
    )
    main(["reproduce", "tiny", "--show", "--runs", "found"])
    table = (in_tmp_path / "found/reproduced/tiny.md").read_text()
    assert "| Pendulum-v1 | short | 40 |" in table, "of a longer run, the study's steps are shown"
    main(
        [
            "train",
            "ddpg",
            "Pendulum-v1",
            "--steps",
            "20",
            "--warmup",
            "10",
            "--eval-every",
            "20",
            "--runs",
            "other",
            "--quiet",
        ]
    )
    assert "other holds no evaluated run of tiny" in refused_here(
        capsys, "reproduce", "tiny", "--show", "--runs", "other"
    )


def test_a_run_with_an_averaged_policy_shows_the_newest_one_too(
    capsys: pytest.CaptureFixture[str], in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grids = (Runs("ddpg", PENDULUM, SHORTER | change, label=name) for name, change in (("newest", {}), ("mean", MEAN)))
    monkeypatch.setitem(STUDIES, "tiny", Study("text", "newest and averaged policies", tuple(grids), seeds=2))
    main(["reproduce", "tiny", "--quiet"])
    assert "2 runs, 0 of them finished already" in capsys.readouterr().out
    (folder,) = Path("runs/Pendulum-v1").iterdir()
    runs = [smrl.load(path).evaluations for path in sorted(folder.iterdir())]
    table = Path("runs/reproduced/tiny.md").read_text()
    for name, column in (("newest", "newest"), ("mean", "mean")):
        mean, deviation = (f(run[column][-1] for run in runs) for f in (statistics.mean, statistics.stdev))
        assert f"| {name} | 40 | {mean:,.0f} ± {deviation:,.0f} |" in table.replace("−", "-")


def test_hyperparameters(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main(["reproduce", "hyperparameters"])
    lines = {words[0]: words[1:] for line in capsys.readouterr().out.splitlines() if (words := line.split())}
    assert lines["reuse"] == ["10", "10", "10", "10", "10", "5", "5", "5", "10"]


@pytest.mark.slow
def test_table_2_at_a_hundredth(capsys: pytest.CaptureFixture[str], in_tmp_path: Path) -> None:
    main(["reproduce", "performance", "--scale", "0.01", "--seeds", "2", "--quiet"])
    table = (in_tmp_path / "runs/reproduced/performance-scale0.01.md").read_text()
    for row in ("cheetah-run@2.5K", "fish-swim@2.5K", "cheetah-run@5K", "fish-swim@5K"):
        assert table.count(row) == 1
    assert "over SAC@5K" in table
