"""`smrl compare ALGORITHM @LIST`: all tasks of a list in one table and one picture."""

from pathlib import Path

import pytest

from smrl.cli.main import main
from smrl.paper import tasks
from smrl.paper.tasks import TaskList
from smrl.studies.sweep import sweep, titles

ENVS = ("Pendulum-v1", "MountainCarContinuous-v0")
SHORT = ["--steps", "60", "--warmup", "20", "--eval-every", "20", "--eval-episodes", "1", "--max-episode-steps", "15"]
SMALL = ["--actor-hidden", "8", "--critic-hidden", "8", "--batch-size", "8", "--reuse", "1", "--seeds", "1", "--quiet"]


def test_all_tasks_of_a_list_are_compared(
    in_tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tasks.LISTS, "classic", TaskList("for this test", ENVS))
    main(["compare", "ddpg", "@classic", *SHORT, *SMALL])
    text = capsys.readouterr().out
    assert all(name in text for name in ENVS)
    assert sorted(path.parents[2].name for path in in_tmp_path.glob("runs/*/*/*/config.json")) == sorted(ENVS)
    (picture,) = in_tmp_path.rglob("*.png")
    assert picture.parent == in_tmp_path / "runs"


def test_no_two_runs_have_the_same_title() -> None:
    several = [one for env in ENVS for one in sweep("sac", env, reuse=10, seeds=2)]
    found = titles(several)
    assert len(set(found)) == 4
    assert found[0] == "Pendulum-v1, SAC, reuse 10, seed 0"


def test_an_unknown_list_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compare", "ddpg", "@dmc-utb"])
    assert stop.value.code == 2
    assert "did you mean dmc-utd?" in capsys.readouterr().err
