"""`smrl compare`: which runs it trains, what it shows, and what happens to the runs after failures."""

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import pytest
from commands import TESTS, read_until, refused_here, run, start
from printing_envs import LINES

import smrl
from smrl.cli.main import main
from smrl.errors import SmrlError
from smrl.paper import tasks
from smrl.runs import checkpoint
from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions
from smrl.studies.launch import Outcome

SHORT = ["--steps", "60", "--warmup", "20", "--eval-every", "20", "--eval-episodes", "2"]
SMALL = ["--actor-hidden", "8", "--critic-hidden", "8", "--batch-size", "8"]
PATH = os.pathsep.join([str(TESTS), str(Path(__file__).parent)])


def runs_in(folder: Path) -> list[smrl.Run]:
    return [smrl.load(config.parent) for config in sorted(folder.glob("runs/*/*/seed*/config.json"))]


def test_compare(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (in_tmp_path / "filelock.py").write_text("raise RuntimeError('what lies in the working directory was executed')")
    words = ["compare", "ddpg", "Pendulum-v1", "--reuse", "1", "2:30,1", "--seeds", "2", "--target", "-2000"]
    main([*words, *SHORT, *SMALL, "--quiet"])
    text = capsys.readouterr().out
    assert "−2,000" in text
    assert "60 (2 of 2)" not in text, "the target is reached at the first evaluation"
    assert "20 (2 of 2)" in text
    found = [(one.settings.reuse, one.settings.seed) for one in runs_in(in_tmp_path)]
    assert sorted(found) == [("1", 0), ("1", 1), ("2:30,1", 0), ("2:30,1", 1)]
    (picture,) = in_tmp_path.glob("runs/Pendulum-v1/ddpg-reuse-*.png")
    assert str(picture.relative_to(in_tmp_path)) in text.replace("\n", "")
    assert iio.imread(picture).shape[0] > 300

    main([*words, *SHORT, *SMALL, "--quiet"])
    assert capsys.readouterr().out == text, "finished runs are shown again, in the same picture"
    assert list(in_tmp_path.glob("runs/Pendulum-v1/*.png")) == [picture]

    main([*words, *SHORT, *SMALL, "--quiet", "-o", "new/curves.svg"])
    assert "learning curves: new/curves.svg" in capsys.readouterr().out
    assert "<svg" in (in_tmp_path / "new" / "curves.svg").read_text()
    message = refused_here(capsys, *words, *SHORT, *SMALL, "--quiet", "-o", "curves.doc")
    assert "must end in .png, .pdf or .svg" in message


def test_compare_sweeps_any_setting_of_several_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run_all(settings: list[Any], options: RunOptions, retries: int, is_announced: bool) -> Outcome:
        asked.extend([settings, options])
        return Outcome([], {})

    monkeypatch.setattr("smrl.cli.compare.run_all", run_all)
    words = ["compare", "ddpg", "td3", "Pendulum-v1", "--reuse", "1", "--seeds", "1", "--batch-size", "8", "9"]
    main([*words, "--actor-hidden", "8", "4,4", "--layer-norm", "--delay", "1", "2", "--threads", "2", "--runs", "x"])
    settings, options = asked
    values = itertools.product([8, 9], [(8,), (4, 4)])
    td3 = itertools.product(["td3"], [8, 9], [(8,), (4, 4)], [1, 2])
    found = {(s.algorithm, s.batch_size, s.hyper.actor_hidden, getattr(s.hyper, "delay", None)) for s in settings}
    assert found == {*(("ddpg", *pair, None) for pair in values), *td3}
    assert len(settings) == len(found)
    assert all(one.hyper.layer_norm for one in settings)
    assert options == RunOptions(runs=Path("x"), threads=2)


def test_compare_all_tasks_of_a_list(
    in_tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    envs = ("Pendulum-v1", "MountainCarContinuous-v0")
    monkeypatch.setitem(tasks.LISTS, "classic", tasks.TaskList("for this test", envs))
    words = ["compare", "ddpg", "@classic", *SHORT, *SMALL, "--max-episode-steps", "15"]
    main([*words, "--reuse", "1", "--seeds", "1", "--quiet"])
    text = capsys.readouterr().out
    assert all(name in text for name in envs)
    assert sorted(path.parents[2].name for path in in_tmp_path.glob("runs/*/*/*/config.json")) == sorted(envs)
    (figure,) = in_tmp_path.rglob("*.png")
    assert figure.parent == in_tmp_path / "runs"


def test_an_unknown_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compare", "ddpg", "@dmc-utb"])
    assert stop.value.code == 2
    assert "did you mean dmc-utd?" in capsys.readouterr().err


def test_a_failed_run_is_reported_and_the_others_are_shown(in_tmp_path: Path) -> None:
    """The environment, of the working directory, fails where actions are repeated: one of the two runs ends well."""
    (in_tmp_path / "picky.py").write_text(PICKY)
    words = ["compare", "ddpg", "picky:make", "--seeds", "1", "--reuse", "1", "--action-repeat", "1", "2"]
    code, text, errors = run(*words, *SHORT, *SMALL, "--quiet")
    assert code == 2
    assert text.count("DDPG") == 1
    assert "learning curves: " in text
    (line,) = errors.splitlines()
    assert line.startswith("smrl: DDPG, reuse 1, repeat 2, seed 0 failed: ")
    assert "it broke at step 30" in line


PICKY = """
from broken_envs import Toy

class Picky(Toy):
    count = 0
    def step(self, action):
        Picky.count += 1
        if Picky.count == 30 and REPEATED:
            raise ValueError("it broke at step 30")
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps >= 10, info

import sys
REPEATED = '"action_repeat": 2' in " ".join(sys.argv)
make = Picky
"""


def test_compare_reports_errors_of_its_runs(in_tmp_path: Path) -> None:
    words = ["compare", "ddpg", "broken_envs:Broken/Raises-v0", "--reuse", "1", "--seeds", "1", *SHORT, "--quiet"]
    code, text, errors = run(*words)
    assert (code, text) == (2, "")
    assert errors.startswith("smrl: DDPG, reuse 1, seed 0 failed: at step 5: ")
    assert "the simulator exploded" in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("death", "message"),
    [
        ("signal", "was ended by SIGKILL"),
        pytest.param("exception", "ZeroDivisionError: a bug", marks=pytest.mark.slow),
    ],
)
def test_a_dead_process_is_reported(death: str, message: str, in_tmp_path: Path) -> None:
    """Its output is kept."""
    (in_tmp_path / "deadly.py").write_text(DEADLY)
    words = ["compare", "ddpg", "deadly:make", "--reuse", "1", "--seeds", "1", *SHORT, *SMALL, "--quiet"]
    code, _, errors = run(*words, PYTHONPATH=f"{PATH}{os.pathsep}{in_tmp_path}", DEATH=death)
    (log,) = in_tmp_path.glob("runs/*/*/seed0/output.log")
    assert code == 2
    assert errors.count("\n") == 1
    assert message in errors
    assert f"{log.relative_to(in_tmp_path)}." in errors
    assert "the last words" in log.read_text()


@pytest.mark.slow
def test_a_killed_run_is_resumed(in_tmp_path: Path) -> None:
    """Once its process was killed at step 30, another one continues it to its end; without retries it fails."""
    (in_tmp_path / "mortal.py").write_text(MORTAL)
    words = ["compare", "ddpg", "mortal:make", "--reuse", "1", "--seeds", "1", *SHORT, *SMALL]
    words += ["--checkpoint-seconds", "0"]
    environment = {"PYTHONPATH": f"{PATH}{os.pathsep}{in_tmp_path}"}
    code, text, errors = run(*words, "--runs", "some", **environment, MARK=str(in_tmp_path / "some.died"))
    assert code == 0, errors
    assert "ended by SIGKILL (the system may have run out of memory); resuming it" in errors
    assert "continuing at step" in errors
    assert "return" in text
    code, _, errors = run(
        *words, "--retries", "0", "--runs", "none", **environment, MARK=str(in_tmp_path / "none.died")
    )
    assert code == 2
    assert "was ended by SIGKILL" in errors


MORTAL = """
import os, signal
from pathlib import Path
from broken_envs import Toy

class Mortal(Toy):
    total = 0

    def step(self, action):
        Mortal.total += 1
        mark = Path(os.environ["MARK"])
        if Mortal.total == 30 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps == 5, info

make = Mortal
"""

DEADLY = """
import os, signal, sys
from broken_envs import Toy

class Deadly(Toy):
    def close(self):
        pass
    def step(self, action):
        print("the last words", flush=True)
        if os.environ["DEATH"] == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        from smrl.training.recorder import Recorder
        Recorder.advance = bug
        return super().step(action)

def bug(*words):
    raise ZeroDivisionError("a bug")

make = Deadly
"""


@pytest.mark.slow
def test_an_environment_that_prints(in_tmp_path: Path) -> None:
    """Output of the environment, also from outside of Python, is not an event; it is kept beside the run."""
    words = ["compare", "ddpg", "printing_envs:Printing-v0", "--reuse", "1", "--seeds", "2", *SHORT, *SMALL]
    code, text, errors = run(*words, PYTHONPATH=PATH)
    assert code == 0, errors
    assert "DDPG" in text
    assert "simulator" not in text + errors
    assert errors.count("return") == 6
    logs = list(in_tmp_path.glob("runs/*/*/seed*/output.log"))
    assert [log.read_text().count("\n") for log in logs] == [LINES, LINES]


def until(condition: Callable[[], bool]) -> None:
    """Wait for something; a minute at most."""
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within a minute")


def endless(folder: Path, *words: object) -> subprocess.Popen[str]:
    """A comparison that takes long, once both its runs have made their first evaluation."""
    long = ["--steps", "1000000", "--warmup", "20", "--eval-every", "20", "--eval-episodes", "1", *SMALL]
    long += ["--max-minutes", "5"]  # should it outlive its test
    process = start("compare", "ddpg", "broken_envs:Broken/Toy-v0", "--reuse", "1", "--seeds", "2", *long, *words)

    def have_begun() -> bool:
        files = list(folder.glob("runs/*/*/seed*/evaluations.csv"))
        return len(files) == 2 and all(file.read_text().count("\n") > 1 for file in files)

    until(have_begun)
    return process


def have_ended(folder: Path) -> bool:
    """Whether nobody trains the runs any more."""
    try:
        for config in folder.glob("runs/*/*/seed*/config.json"):
            with RunDirectory(config.parent).locked():
                pass
    except SmrlError:
        return False
    return True


def saved_steps(folder: Path) -> list[int | None]:
    return [checkpoint.newest_step(path) for path in folder.glob("runs/*/*/seed*/checkpoint")]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_comparison_saves_its_runs(number: signal.Signals, in_tmp_path: Path) -> None:
    process = endless(in_tmp_path)
    process.send_signal(number)
    text, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert text == ""
    assert "Traceback" not in errors
    assert errors.splitlines()[-1] == "smrl: stopped; every run is saved, and the same command resumes them."
    assert have_ended(in_tmp_path)
    steps = saved_steps(in_tmp_path)
    assert len(steps) == 2
    assert all(step and step >= 20 for step in steps)


@pytest.mark.slow
def test_runs_end_when_their_launcher_is_killed(in_tmp_path: Path) -> None:
    """They notice that nobody listens, save themselves and end."""
    process = endless(in_tmp_path, "--checkpoint-seconds", "1000000")
    assert saved_steps(in_tmp_path) in ([], [None, None])
    process.kill()
    process.communicate()
    until(lambda: have_ended(in_tmp_path))
    steps = saved_steps(in_tmp_path)
    assert len(steps) == 2
    assert all(step and step >= 20 for step in steps)


@pytest.mark.slow
def test_a_second_interrupt_leaves_no_process_behind(in_tmp_path: Path) -> None:
    """Not even one whose environment hangs and which therefore never saves itself."""
    words = ["compare", "ddpg", "hanging:make", "--reuse", "1", "--seeds", "2", *SHORT, *SMALL]
    (in_tmp_path / "hanging.py").write_text(HANGING)
    process = start(*words, PYTHONPATH=f"{PATH}{os.pathsep}{in_tmp_path}")
    until(lambda: len(list(in_tmp_path.glob("hangs-*"))) == 2)
    process.send_signal(signal.SIGINT)
    read_until(process, "stopping after the current step")
    assert not have_ended(in_tmp_path)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.endswith("smrl: interrupted.\n")
    assert "Traceback" not in errors
    assert have_ended(in_tmp_path)


HANGING = """
import os, pathlib, time
from broken_envs import Toy

class Hanging(Toy):
    def step(self, action):
        pathlib.Path(f"hangs-{os.getpid()}").touch()
        time.sleep(300)

make = Hanging
"""
