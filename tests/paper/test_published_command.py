"""`smrl report --published`: one line per run on its published band, and an exit code for scripts."""

from pathlib import Path

import pytest
from commands import run
from written_runs import write_run

from smrl.cli.main import main


def verdicts(output: str) -> list[str]:
    return [line.split()[0] for line in output.splitlines() if not line.startswith("report: ")]


def test_run_below_the_band_gives_exit_code_1(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = in_tmp_path / "runs"
    write_run(runs / "a", [(300_000, 8600.0)], env="HalfCheetah-v4", steps=300_000)
    write_run(runs / "b", [(300_000, 1.0)], env="Pendulum-v1", steps=300_000)
    main(["report", str(runs), "--published"])
    assert verdicts(capsys.readouterr().out) == ["within", "unknown"]
    write_run(runs / "c", [(300_000, 100.0)], env="HalfCheetah-v4", seed=1, steps=300_000)
    code, output, errors = run("report", runs, "--published")
    assert (code, errors) == (1, "")
    assert verdicts(output) == ["within", "unknown", "below"]
    assert verdicts(run("report", runs)[1]) == []


def test_text_of_runs_cannot_control_the_terminal(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = in_tmp_path / "runs"
    write_run(runs / "a", [(1000, 1.0)], env="\x1b[31mred")
    (write_run(runs / "\x1b[31mred", [(1000, 1.0)]) / "evaluations.csv").unlink()
    with pytest.raises(SystemExit):
        main(["report", str(runs), "--published"])
    messages = capsys.readouterr()
    assert "�[31mred" in messages.out
    assert "�[31mred" in messages.err
    assert "\x1b" not in messages.out + messages.err


def test_unreadable_run_gives_exit_code_2(in_tmp_path: Path) -> None:
    runs = in_tmp_path / "runs"
    write_run(runs / "a", [(300_000, 8600.0)], env="HalfCheetah-v4", steps=300_000)
    (write_run(runs / "b", [], env="HalfCheetah-v4", seed=1) / "evaluations.csv").unlink()
    code, output, errors = run("report", runs, "--published")
    assert code == 2
    assert verdicts(output) == ["within"]
    assert "holds no evaluation yet" in errors
    assert errors.count("\n") == 1
