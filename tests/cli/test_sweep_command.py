"""`smrl sweep`: what it refuses, lists and skips, and that interruptions change nothing."""

import os
import signal
from pathlib import Path

import pytest
from commands import TESTS, refused, refused_here, run, start
from sweeps import results, saved_steps, until, written

from smrl.cli.main import main
from smrl.studies.launchers import local

ONE = 'algorithm = "ddpg"\nenv = "Pendulum-v1"\nreuse = 1\nseeds = 1\nsteps = 60\nwarmup = 20\neval_every = 20'


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "required: FILE; see smrl sweep --help"),
        (("sweep.toml", "other.toml"), "unexpected argument 'other.toml'"),
        (("--dry-run",), "required: FILE"),
        (("pper",), "did you mean paper?"),
        (("none.toml",), "none.toml cannot be read (No such file or directory)"),
        (("sweep.toml", "--launcher", "lokal"), "launcher must be local, ray or slurm, not 'lokal'"),
        (("sweep.toml", "--adress", "x"), "did you mean --address"),
        (("sweep.toml", "--address", "127.0.0.1:1"), "add --launcher ray"),
        (("sweep.toml", "--reuse", "1"), "--reuse"),
        (("sweep.toml", "--threads", "0"), "threads must be a whole number from 1 to 1,024"),
    ],
)
def test_refused(words: tuple[str, ...], text: str, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(in_tmp_path, ONE)
    assert text in refused_here(capsys, "sweep", *words)
    assert not (in_tmp_path / "runs").exists()


def test_unfit_runs_are_refused_before_anything_starts(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typo in the second table, and an environment whose actions SAC cannot take."""
    file = written(in_tmp_path, f"{ONE}\n[[runs]]\n{ONE}\ntua = 0.1")
    assert (
        "[[runs]] number 2 of sweep.toml: no algorithm of ddpg has a setting 'tua'; did you mean tau?"
        in refused_here(capsys, "sweep", file.name)
    )
    written(in_tmp_path, f"{ONE}\n[[runs]]\n{ONE.replace('Pendulum-v1', 'CartPole-v1')}")
    for flags in ((), ("--dry-run",)):
        assert "needs continuous actions" in refused_here(capsys, "sweep", file.name, *flags)
    assert not (in_tmp_path / "runs").exists()


def test_a_dead_ray_address(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray")
    file = written(in_tmp_path, ONE)
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1"):
        errors = refused_here(capsys, "sweep", file, "--launcher", "ray", "--address", address)
        assert f"there is no Ray cluster at {address} (Connection refused)" in errors
    assert "write HOST:PORT" in refused_here(capsys, "sweep", file, "--launcher", "ray", "--address", "127.0.0.1:ray")


@pytest.mark.parametrize(("launcher", "module"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_launcher_that_is_not_installed(launcher: str, module: str, in_tmp_path: Path) -> None:
    hidden = in_tmp_path / "hidden"
    hidden.mkdir()
    (hidden / f"{module}.py").write_text("raise ImportError")
    path = f"{hidden}{os.pathsep}{TESTS}"
    errors = refused("sweep", written(in_tmp_path, ONE), "--launcher", launcher, PYTHONPATH=path)
    assert f'pip install "smrl[{launcher}]"' in errors


def test_no_slurm_here(in_tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    file = written(in_tmp_path, ONE)
    assert "there is no Slurm here" in refused("sweep", file, "--launcher", "slurm", PATH=str(in_tmp_path))
    file.write_text(file.read_text() + '\n[slurm]\ntime = "long"\n')
    assert "time of [slurm], in minutes, must be" in refused("sweep", file, "--launcher", "slurm")


def test_a_wrong_option_of_slurm(in_tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    import fake_slurm

    file = written(in_tmp_path, f'{ONE}\n[slurm]\npartitoin = "cpu"')
    errors = refused("sweep", file, "--launcher", "slurm", **fake_slurm.install(in_tmp_path / "slurm"))
    assert "partitoin" in errors


def test_runs_are_listed_trained_skipped_and_extended(
    in_tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(in_tmp_path, ONE)
    main(["sweep", "sweep.toml", "--dry-run"])
    text = capsys.readouterr().out
    assert "1 run " in text
    assert "missing" in text
    assert not (in_tmp_path / "runs").exists()

    main(["sweep", "sweep.toml"])
    shown = capsys.readouterr()
    assert "A sweep" in shown.out
    (picture,) = in_tmp_path.glob("runs/Pendulum-v1/*.png")
    assert shown.out.splitlines()[-1] == f"learning curves: {picture.relative_to(in_tmp_path)}"
    assert "Pendulum-v1" in shown.out
    assert "DDPG, reuse 1, seed 0: step 20 of 60" in shown.err
    assert "DDPG, reuse 1, seed 0: ended (1 of 1)" in shown.err

    file.write_text(file.read_text().replace("steps = 60", "steps = 80"))
    main(["sweep", "sweep.toml", "--dry-run"])
    assert "begun, at step 60 of 80" in capsys.readouterr().out
    file.write_text(file.read_text().replace("steps = 80", "steps = 60"))
    main(["sweep", "sweep.toml", "--dry-run"])
    assert "done" in capsys.readouterr().out

    monkeypatch.setattr(local, "WorkerProcess", None)  # no process is started for a finished run
    main(["sweep", "sweep.toml"])
    again = capsys.readouterr()
    assert again.out == shown.out
    assert again.err == "finished already: 1 of 1\n"


def test_a_failing_run_does_not_stop_the_others(in_tmp_path: Path) -> None:
    envs = ONE.replace('"Pendulum-v1"', '["broken_envs:Broken/Raises-v0", "Pendulum-v1"]')
    code, text, errors = run("sweep", written(in_tmp_path, envs), "--quiet")
    assert code == 2
    assert text.count("DDPG") == 1
    (line,) = errors.splitlines()
    assert line.startswith("smrl: broken_envs:Broken/Raises-v0, DDPG, reuse 1, seed 0 failed: at step 5: ")
    assert "the simulator exploded" in line


GRID = 'algorithm = ["ddpg", "td3"]\nenv = ["Pendulum-v1", "MountainCarContinuous-v0"]\nreuse = [1, 2]\nseeds = 2'


@pytest.mark.slow
def test_an_interrupted_sweep_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    """By Ctrl-C, and by the death of the command and of a worker: 16 runs, byte for byte."""
    file = written(tmp_path, GRID)
    file.write_text(
        file.read_text().replace("steps = 5000", "steps = 1500").replace("eval_every = 1000", "eval_every = 250")
    )
    code, _, errors = run("sweep", file, "--runs", tmp_path / "whole")
    assert code == 0, errors
    words = ["sweep", file, "--runs", tmp_path / "broken", "--checkpoint-seconds", "0"]

    process = start(*words)
    until(lambda: len(saved_steps(tmp_path / "broken")) >= 3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    before = saved_steps(tmp_path / "broken")
    assert before.keys() != results(tmp_path / "whole").keys()

    process = start(*words)
    until(lambda: len(saved_steps(tmp_path / "broken")) >= len(before) + 3)
    process.kill()
    process.communicate()

    code, text, errors = run(*words)
    assert code == 0, errors
    assert "finished already: " in errors
    assert text.count("DDPG") == 4
    assert results(tmp_path / "broken") == results(tmp_path / "whole")
    assert len(results(tmp_path / "whole")) == 16
