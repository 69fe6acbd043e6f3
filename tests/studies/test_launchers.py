"""Launchers: this machine, Ray and Slurm train runs to the same bytes, also when workers or nodes die."""

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_slurm
import pytest
from commands import TESTS, run, start
from sweeps import results, saved_steps, until, written

from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions
from smrl.studies.launch import run_all
from smrl.studies.launchers.local import Local
from smrl.studies.launchers.protocol import JobResult, RunRequest
from smrl.studies.sweep import read_sweep
from smrl.studies.worker import wait_for_lock
from smrl.training.progress import Progress

THREE = 'algorithm = "ddpg"\nenv = "Pendulum-v1"\nreuse = 1\nseeds = 3\n'


class RecordedProgress(Progress):
    """A progress that keeps its events."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def forward(self, event: str, *arguments: int | float | str) -> None:
        if event != "advance":
            self.events.append((event, arguments[0]))


def test_a_worker_waits_for_a_locked_run(tmp_path: Path) -> None:
    """A node that is presumed dead may still be saving the run."""
    directory = RunDirectory(tmp_path)
    directory.config.write_text("{}")
    is_locked, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with directory.locked():
            is_locked.set()
            may_end.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    is_locked.wait()
    wait_for_lock(directory, seconds=0)  # returns at once, and the run is refused
    waiter = threading.Thread(target=wait_for_lock, args=(directory, 60))
    waiter.start()
    waiter.join(1)
    assert waiter.is_alive()
    may_end.set()
    holder.join()
    waiter.join(30)
    assert not waiter.is_alive()


class Mortal:
    """A launcher whose first jobs die."""

    max_jobs, poll_seconds, stop_message, exit_message = 1, 0.0, "", ""

    def __init__(self, deaths: int) -> None:
        self.deaths, self.started = deaths, 0

    def __enter__(self) -> "Mortal":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def start(self, request: RunRequest, progress: Any) -> "Mortal":
        self.started += 1
        return self

    def poll(self) -> JobResult:
        dies = self.started <= self.deaths
        return JobResult("its node died", worker_died=True) if dies else JobResult("it does not converge.")

    def stop(self) -> None:
        pass

    def kill(self) -> None:
        pass


def test_only_runs_whose_worker_died_are_resumed(tmp_path: Path) -> None:
    runs = read_sweep(str(written(tmp_path, THREE.replace("seeds = 3", "seeds = 1"))), {}).settings
    options = RunOptions(runs=tmp_path, quiet=True)
    launcher = Mortal(deaths=2)
    assert run_all(runs, options, 2, launcher).failures == {"DDPG, reuse 1, seed 0": "it does not converge."}
    assert launcher.started == 3
    launcher = Mortal(deaths=2)
    assert run_all(runs, options, 1, launcher).failures == {"DDPG, reuse 1, seed 0": "its node died"}
    assert launcher.started == 2


def test_local_max_jobs() -> None:
    cores = len(os.sched_getaffinity(0))
    assert Local(1).max_jobs == cores
    assert Local(2 * cores).max_jobs == 1


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the runs of an undisturbed sweep on this machine."""
    folder = tmp_path_factory.mktemp("reference")
    code, _, errors = run("sweep", written(folder, THREE), "--runs", folder / "runs")
    assert code == 0, errors
    return folder / "runs"


@pytest.fixture
def cluster() -> Iterator[tuple["subprocess.Popen[str]", str, dict[str, str]]]:
    """Two nodes of Ray on 127.0.0.1, with a secret that only this test knows."""
    pytest.importorskip("ray")
    environment = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # 127.0.0.1 is not replaced by an address that others can reach
    }
    process = subprocess.Popen(
        [sys.executable, TESTS / "ray_cluster.py"],
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process, process.stdout.readline().strip(), environment
    process.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["node", "worker"])
def test_runs_of_a_dead_ray_node_are_resumed(
    what: str, cluster: tuple["subprocess.Popen[str]", str, dict[str, str]], reference: Path, tmp_path: Path
) -> None:
    """A whole node dies, or only Ray's worker, and then the run saves itself before another worker resumes it."""
    nodes, address, environment = cluster
    words = ["--launcher", "ray", "--address", address, "--checkpoint-seconds", "0", "--runs", tmp_path / "runs"]
    process = start("sweep", written(tmp_path, THREE), *words, **environment)
    until(lambda: len(saved_steps(tmp_path / "runs")) == 2)
    assert nodes.stdin is not None
    nodes.stdin.write(f"{what}\n")
    nodes.stdin.flush()
    text, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "its worker or node died" in errors
    assert "resuming it" in errors
    assert "A sweep" in text
    assert results(tmp_path / "runs") == results(reference)
    logs = [log.read_text() for log in (tmp_path / "runs").rglob("output.log")]
    assert sum("continuing at step" in log for log in logs) == 1


@pytest.mark.slow
def test_an_interrupted_sweep_on_ray_saves_its_runs(
    cluster: tuple["subprocess.Popen[str]", str, dict[str, str]], reference: Path, tmp_path: Path
) -> None:
    _, address, environment = cluster
    words = ["sweep", written(tmp_path, THREE), "--launcher", "ray", "--address", address, "--runs", tmp_path / "runs"]
    process = start(*words, "--checkpoint-seconds", "1000", **environment)
    until(lambda: len(list((tmp_path / "runs").rglob("evaluations.csv"))) == 2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "smrl: stopped; every run is saved, and the same command resumes them."
    assert len(saved_steps(tmp_path / "runs")) == 2
    code, _, errors = run(*words, **environment)
    assert code == 0, errors
    assert results(tmp_path / "runs") == results(reference)


@pytest.mark.slow
def test_a_slurm_job_at_its_time_limit_is_queued_again(reference: Path, tmp_path: Path) -> None:
    """With submitit's executor for one machine."""
    slurm = pytest.importorskip("smrl.studies.launchers.slurm")
    settings = read_sweep(str(written(tmp_path, THREE)), {}).settings[0]
    options, progress = RunOptions(runs=tmp_path / "runs", checkpoint_seconds=1000), RecordedProgress()
    with slurm.SlurmLauncher(options.runs, 1, {"partition": "any"}, cluster="local") as launcher:
        job = launcher.start(RunRequest.of(settings, options, 0), lambda: progress)
        folder = RunDirectory.of(settings, options).path
        until(lambda: job.poll() is None and bool(progress.events))
        controller = job._job.job_id
        (task,) = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
        os.kill(int(task), signal.SIGUSR2)
        until(lambda: job.poll() is not None)
    assert job.poll() == JobResult()
    assert "continuing at step" in (folder / "output.log").read_text()
    assert ("evaluated", 5000) in progress.events
    name = str(folder.relative_to(options.runs))
    assert results(options.runs)[name] == results(reference)[name]


def children(process: int) -> list[int]:
    """Return the processes that the first thread of a process has started."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.slow
def test_a_job_that_is_killed_is_resumed(reference: Path, tmp_path: Path) -> None:
    """With submitit's executor for one machine: its process dies, the run saves itself, and another job resumes it."""
    slurm = pytest.importorskip("smrl.studies.launchers.slurm")
    settings = read_sweep(str(written(tmp_path, THREE)), {}).settings[:2]
    options = RunOptions(runs=tmp_path / "runs", checkpoint_seconds=0, quiet=True)
    killed: list[int] = []

    def kill() -> None:
        until(lambda: len(saved_steps(options.runs)) == 2)
        controllers = [one for one in children(os.getpid()) if b"submitit" in Path(f"/proc/{one}/cmdline").read_bytes()]
        killed.extend(children(controllers[0]))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    launcher = slurm.SlurmLauncher(options.runs, 1, {}, cluster="local")
    outcome = run_all(settings, options, 3, launcher, lock_timeout=120)
    killer.join()
    assert len(killed) == 1
    assert not outcome.failures
    assert len(outcome.records) == 2
    found = results(options.runs)
    assert found == {name: result for name, result in results(reference).items() if name in found}
    logs = [log.read_text() for log in options.runs.rglob("output.log")]
    assert sum("continuing at step" in log for log in logs) == 1


@pytest.mark.slow
def test_an_interrupted_sweep_leaves_its_jobs_to_slurm(reference: Path, tmp_path: Path) -> None:
    """Commands stand in for those of Slurm; the same sweep finds its jobs again, and one that was killed is resumed."""
    pytest.importorskip("submitit")
    slurm = tmp_path / "slurm"
    environment = fake_slurm.install(slurm)
    runs = tmp_path / "runs"
    words = ["sweep", written(tmp_path, THREE), "--launcher", "slurm"]
    words += ["--runs", runs, "--checkpoint-seconds", "0"]
    process = start(*words, **environment)
    until(lambda: len(saved_steps(runs)) == 3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1].startswith("smrl: left; the jobs continue in Slurm")
    code, text, errors = run(*words, **environment)
    assert code == 0, errors
    assert "A sweep" in text
    assert len(list(slurm.glob("job-*"))) == 3, "no run was queued twice"
    assert results(runs) == results(reference)
