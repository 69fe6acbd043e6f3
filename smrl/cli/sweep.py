"""`smrl sweep FILE`: train all runs of a TOML file, on this machine or on a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from smrl.cli.common import Parser, exit_if_failed, out, print_table
from smrl.cli.curves import picture_of, show_results
from smrl.cli.flags import add_flags, pop_into
from smrl.errors import require
from smrl.paper.tasks import LISTS
from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions, Settings
from smrl.studies.launch import done_steps, refuse_unfit, run_all
from smrl.studies.launchers.local import Local
from smrl.studies.launchers.protocol import Launcher
from smrl.studies.sweep import Sweep, read_sweep, titles
from smrl.validation import Index

ABOUT = """\
Train all runs that a TOML file describes; show a table and learning curves.
Run it again to resume; docs/sweeps.md explains more.

In the file, a list holds several values, and @ stands for a task list:

  [[runs]]
  algorithm = ["sac", "td3"]
  env = ["Hopper-v4", "@dmc-utd"]
  reuse = [1, 10]
  seeds = 3
  steps = 100_000"""
LOCK_TIMEOUT = 120.0  # seconds; longer than a run takes to save itself, and than NFS keeps the lock of a dead node


@dataclass(frozen=True)
class Command:
    """Where and how to train."""

    file: str
    """A TOML file, or a preset of smrl list --presets for its algorithms on @gym, @atari or @dmc-pixels."""
    launcher: Literal["local", "ray", "slurm"] = "local"
    """Where to train: one process per core on this machine, Ray, or Slurm."""
    address: str | None = None
    """Address of a Ray cluster, as HOST:PORT; by default, Ray is started on this machine."""
    retries: Index = 3
    """How often to resume a run whose worker or node has died."""
    dry_run: bool = False
    """List the runs and their progress without training."""


def run(words: Sequence[str]) -> None:
    """Train all runs, print the table and where the figure is; exit with code 2 if a run failed."""
    parser = Parser("sweep FILE", ABOUT)
    add_flags(parser, "", {"": Command})
    add_flags(parser, "run options", {"": RunOptions})
    values = parser.read(words)
    command, options = pop_into(Command, values), pop_into(RunOptions, values)
    require(
        command.address is None or command.launcher == "ray",
        "--address is the address of a Ray cluster; add --launcher ray.",
    )
    sweep = read_sweep(command.file, {name: found.tasks for name, found in LISTS.items()})
    if command.dry_run:
        refuse_unfit(sweep.settings)
        rows = zip(titles(sweep.settings), (_progress(one, options) for one in sweep.settings), strict=True)
        count = len(sweep.settings)
        print_table(rows, f"{count} run{'s' if count > 1 else ''}", "state", title=sweep.title)
        return
    launcher = _launcher(command, options, sweep)
    outcome = run_all(sweep.settings, options, command.retries, launcher, LOCK_TIMEOUT, is_announced=False)
    if outcome.records:
        out.print(sweep.title, style="bold", markup=False)
        show_results(outcome.records, picture_of(sweep.settings, options))
    exit_if_failed(outcome.failures)


def _launcher(command: Command, options: RunOptions, sweep: Sweep) -> Launcher:
    """Return the launcher; those of clusters are imported only here, because they are optional."""
    threads = options.threads or 1
    if command.launcher == "ray":
        from smrl.studies.launchers.ray import RayLauncher

        return RayLauncher(command.address, threads)
    if command.launcher == "slurm":
        from smrl.studies.launchers.slurm import SlurmLauncher

        return SlurmLauncher(options.runs, threads, sweep.slurm)
    return Local(threads)


def _progress(settings: Settings[Any], options: RunOptions) -> str:
    step = done_steps(RunDirectory.of(settings, options))
    if step is None:
        return "missing"
    return "done" if step >= settings.steps else f"begun, at step {step:,} of {settings.steps:,}"
