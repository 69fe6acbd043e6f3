"""`smrl sweep FILE`: train a whole grid of runs, on this machine or on a cluster."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

from rich.table import Table
from rich.text import Text

from smrl.cli.failures import leave_if_failed
from smrl.cli.flags import Flag, asks_for_help, names_before_flags, option_flags, read
from smrl.cli.parsing import out
from smrl.errors import require
from smrl.report.tables import comparison_table
from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions
from smrl.studies import grid
from smrl.studies.grid import Grid
from smrl.studies.launch import Outcome, done_steps, refuse_unfit, run_all
from smrl.studies.launchers.local import Local
from smrl.studies.launchers.protocol import Launcher
from smrl.studies.sweep import titles
from smrl.validation import Index

ABOUT = """\
Train all runs that a small TOML file describes; a table at the end.

Before the flags:
  FILE|PRESET  a file such as sweep.toml, or a preset of smrl list --presets for
               its algorithms on its tasks of @gym, @atari or @dmc-pixels

In the file, a list holds several values, @ a list of smrl list --tasks:
  [[runs]]
  algorithm = ["sac", "td3"]
  env = ["Hopper-v4", "@dmc-utd"]
  reuse = [1, 10]
  seeds = 3
  steps = 100_000

The same command goes on where it was stopped. docs/sweeps.md says more."""
PATIENCE = 120.0  # seconds; longer than a run takes to save itself, and than NFS keeps the lock of a dead node
SWEEP = [
    Flag(
        "launcher", (Literal["local", "ray", "slurm"],), "Where to train: a process per core, Ray, or Slurm.", "local"
    ),
    Flag("address", (str,), "Address of a Ray cluster, as HOST:PORT; by default Ray is started here."),
    Flag("retries", (Index,), "Times that a run is continued whose worker or node has died.", "3"),
    Flag("dry_run", (bool,), "List the runs and how far each of them is; train nothing."),
]


def run(words: Sequence[str]) -> None:
    """Parse, train all, show the table and what failed; exit code 2 if a run failed."""
    names, rest = names_before_flags(words)
    require(
        len(names) == 1 or (asks_for_help(rest) and not names),
        "write smrl sweep FILE, then the flags, with a TOML file or the name of a preset: smrl sweep sweep.toml.",
    )
    session_group = [
        dataclasses.replace(flag, text="Threads of each run; a continued run keeps its number.", default="1")
        if flag.name == "threads"
        else flag
        for flag in option_flags()["session"]
    ]
    groups = {"sweep": SWEEP, "session": session_group}
    given = read(rest, f"sweep {' '.join(names) or 'FILE|PRESET'}", ABOUT, groups)
    values = {flag.name: flag.value(words) for flag, words in given.items()}
    of_sweep = {flag.name: values.pop(flag.name) for flag in SWEEP if flag.name in values}
    options = RunOptions(**values)
    kind, address = of_sweep.get("launcher", "local"), of_sweep.get("address")
    require(address is None or kind == "ray", "--address is that of a Ray cluster; add --launcher ray.")
    found = grid.find(names[0])
    if of_sweep.get("dry_run"):
        refuse_unfit(found.settings)
        out.print(_states(found, options))
        return
    launcher = _launcher(kind, address, options, found)
    _show(run_all(found.settings, options, of_sweep.get("retries", 3), launcher, PATIENCE), found.title)


def _launcher(kind: str, address: str | None, options: RunOptions, found: Grid) -> Launcher:
    """The launcher of a name; those of clusters are imported only here, as they are optional."""
    width = options.threads or 1
    if kind == "ray":
        from smrl.studies.launchers.on_ray import Ray

        return Ray(address, width)
    if kind == "slurm":
        from smrl.studies.launchers.on_slurm import Slurm

        return Slurm(options.runs, width, found.slurm)
    return Local(width)


def _states(found: Grid, options: RunOptions) -> Table:
    """Every run with how far it is."""
    count = len(found.settings)
    table = Table(
        f"{count} run{'s' if count > 1 else ''}", "state", title=Text(found.title), title_justify="left", box=None
    )
    for title, settings in zip(titles(found.settings), found.settings, strict=True):
        step = done_steps(RunDirectory.of(settings, options.runs))
        begun = "missing" if step is None else f"begun, at step {step:,} of {settings.steps:,}"
        table.add_row(Text(title), "done" if (step or 0) >= settings.steps else begun)
    return table


def _show(outcome: Outcome, title: str) -> None:
    if outcome.records:
        out.print(Text(title, "bold"))
        out.print(comparison_table(outcome.records))
    leave_if_failed(outcome)
