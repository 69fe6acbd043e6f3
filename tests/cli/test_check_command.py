"""`smrl check`: one line per run, and an exit code for scripts."""

from pathlib import Path

import pytest
from commands import refused, run
from written_runs import write_run

from smrl.cli.main import main


def test_a_run_below_the_band_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "a", [(300_000, 8600.0)], env="HalfCheetah-v4", steps=300_000)
    write_run(tmp_path / "b", [(300_000, 1.0)], env="Pendulum-v1", steps=300_000)
    main(["check", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["within", "unknown"]
    write_run(tmp_path / "c", [(300_000, 100.0)], env="HalfCheetah-v4", seed=1, steps=300_000)
    code, output, errors = run("check", tmp_path)
    assert (code, errors) == (1, "")
    assert [line.split()[0] for line in output.splitlines()] == ["within", "unknown", "below"]


def test_texts_of_runs_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "a", [(1000, 1.0)], env="\x1b[31mred")
    (write_run(tmp_path / "\x1b[31mred", [(1000, 1.0)]) / "evaluations.csv").unlink()
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path)])
    messages = capsys.readouterr()
    assert "�[31mred" in messages.out
    assert "�[31mred" in messages.err
    assert "\x1b" not in messages.out + messages.err


def test_a_run_that_cannot_be_read_is_exit_code_2(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [(300_000, 8600.0)], env="HalfCheetah-v4", steps=300_000)
    (write_run(tmp_path / "b", [], env="HalfCheetah-v4", seed=1) / "evaluations.csv").unlink()
    code, output, errors = run("check", tmp_path)
    assert code == 2
    assert output.startswith("within  ")
    assert "holds no evaluation yet" in errors
    assert errors.count("\n") == 1
    assert "is not a folder" in refused("check", tmp_path / "nowhere")
    assert "write smrl check RUNS…" in refused("check")
