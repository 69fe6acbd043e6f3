"""Search settings with Optuna. A trial is a run, so it can be killed, pruned and continued bit for bit.

tune/<algorithm>-<environment>/
  study.db      the study, in SQLite
  runs/         the runs of all trials, as `smrl train` makes them
  best.toml     the best settings as a preset
  trials.md     a table of all trials, and
  trials.png    learning curves of the best ones

Any number of processes may work on a study. Each holds a lock for its trial. A trial that is running according to the
study but has no lock was left by a process that ended; the next process continues it.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import filelock
import numpy as np

from smrl.envs.make import make
from smrl.errors import SmrlError, require
from smrl.plugins import UserCode, import_module, in_words
from smrl.presets import resolve
from smrl.runs.atomic import write_atomically, writing
from smrl.runs.identity import flat, label
from smrl.runs.paths import RunDirectory
from smrl.runs.records import Record, read_run
from smrl.settings import RunOptions, Settings
from smrl.studies.launch import refuse_unfit
from smrl.studies.space import Choices, Space, as_toml, encode
from smrl.studies.worker import wait_for_lock
from smrl.training.loop import Callbacks
from smrl.training.progress import Board, Progress
from smrl.training.run_training import run_training
from smrl.training.status import Status

INSTALL = 'pip install "smrl[tune]"'
STUDY, LOCKS, BEST = "study.db", ".locks", "best.toml"
NAME = "smrl"  # of the study in its file
MAX_FAILURES = 3  # trials that may fail one after the other
FIRST_TRIALS = 5  # trials that are never pruned
SQLITE_SECONDS = 60  # to wait for another process that writes
LAST_PART = 5  # the value of a trial is the mean of the last fifth of its evaluations


@dataclass(frozen=True)
class Search:
    """What is searched."""

    folder: Path
    algorithm: str
    env: str
    preset: str
    given: Mapping[str, Any]  # settings that are the same for all trials
    space: Space
    options: RunOptions

    def settings(self, chosen: Mapping[str, Any]) -> Settings[Any]:
        """Return the settings of a trial."""
        return resolve(self.algorithm, self.env, self.preset, **self.given, **chosen)

    @property
    def usual(self) -> Settings[Any]:
        """The settings that trials deviate from."""
        return self.settings({})


@dataclass(frozen=True)
class Trial:
    """A trial that has ended, or that a process works on."""

    number: int
    state: str  # complete, pruned, failed or running
    value: float  # NaN unless it is complete
    steps: int  # environment steps of its last evaluation
    chosen: dict[str, Any]  # its settings of the space


def search(task: Search, trials: int) -> None:
    """Work on a study until it has this number of trials; first continue those that another process has left."""
    usual = task.usual
    require(
        usual.eval_every <= usual.steps,
        f"trials of {usual.steps:,} steps end before their first evaluation at step {usual.eval_every:,}; lower "
        "--eval-every.",
    )
    for name in ("max_minutes", "stop_at"):
        flag = f"--{name.replace('_', '-')}"
        require(
            getattr(task.options, name) is None,
            f"{flag} would end trials at different steps, and then they cannot be compared: leave it out. Ctrl-C stops "
            "the search, and the same command continues it.",
        )
    refuse_unfit([usual])
    for name, domain in task.space.items():  # values that do not go together are refused before the first trial
        for value in domain.choices if isinstance(domain, Choices) else (domain.low, domain.high):
            task.settings({name: value})
    study, failures = _open(task), 0
    while True:
        with _claim(task, study, trials) as found:
            if found is None:
                return
            with Board(task.options.quiet) as board:
                error = _run(task, study, found, board)
        failures = failures + 1 if error else 0
        if error and failures >= MAX_FAILURES:
            raise SmrlError(f"{failures} trials failed one after the other, the last because {error}")


def read_trials(task: Search) -> list[Trial]:
    """Return all trials of a study, the best first, then those that are not complete."""
    states = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running"}
    found = []
    for one in _open(task).get_trials(deepcopy=False):
        if one.params.keys() == task.space.keys():
            chosen, state = _decode(task, one.params), states.get(one.state.name, "waiting")
            value = one.value if state == "complete" else np.nan
            steps = max(one.intermediate_values, default=0)
            found.append(Trial(one.number, state, value, steps, chosen))
    return sorted(found, key=lambda one: (np.isnan(one.value), -one.value, one.number))


def write_best(task: Search, best: Trial) -> Path:
    """Write the settings of a trial as a preset: all that differ from the preset ``paper``."""
    usual = flat(resolve(task.algorithm, task.env).to_json())
    mine = {name: value for name, value in flat(task.settings(best.chosen).to_json()).items() if value != usual[name]}
    title = f"{task.algorithm} on {task.env}: trial {best.number} of smrl tune, return {best.value:.6g}"
    lines = [f"title = {encode(title)}", "", "[[rows]]", f"algorithm = {encode(task.algorithm)}", "[rows.settings]"]
    lines += [f"{name} = {encode(value)}" for name, value in mine.items() if name not in ("seed", "steps")]
    path = task.folder / BEST
    with writing(path):
        write_atomically(path, "\n".join([*lines, ""]).encode())
    return path


def _open(task: Search) -> Any:
    """Open the study, or make it; refuse one that searches something else."""
    optuna: Any = import_module("optuna", INSTALL)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    usual = task.usual
    wanted = {"settings": flat(usual.to_json()), "space": as_toml(task.space)}
    file = task.folder / STUDY
    with writing(task.folder):
        (task.folder / LOCKS).mkdir(parents=True, exist_ok=True)
    with _locked(task, "study").acquire(), UserCode(partial(_unusable, file)):
        url = import_module("sqlalchemy", INSTALL).URL.create("sqlite", database=str(file.absolute()))
        storage = optuna.storages.RDBStorage(
            url.render_as_string(), engine_kwargs={"connect_args": {"timeout": SQLITE_SECONDS}}
        )
        pruner = optuna.pruners.MedianPruner(FIRST_TRIALS, n_warmup_steps=max(usual.warmup, usual.steps // 4))
        study = optuna.create_study(
            storage=storage, study_name=NAME, direction="maximize", load_if_exists=True, pruner=pruner
        )
        before = study.user_attrs.get("search")
        if before is None:
            study.set_user_attr("search", json.dumps(wanted))
    if before is not None:
        _refuse_other(task, json.loads(before), json.loads(json.dumps(wanted)))
    return study


def _refuse_other(task: Search, before: dict[str, Any], wanted: dict[str, Any]) -> None:
    advice = "give the same again, or another folder with --study."
    for name in before["settings"].keys() | wanted["settings"].keys():
        old, new = before["settings"].get(name), wanted["settings"].get(name)
        require(old == new, f"{task.folder} searches with {name} {old}, not {new}; {advice}")
    require(before["space"] == wanted["space"], f"{task.folder} searches another space; {advice}")


def _unusable(file: Path, error: BaseException) -> BaseException:
    if isinstance(error, SmrlError):
        return error
    return SmrlError(f"{file} cannot be used as a study ({in_words(error)}); move it elsewhere, or give --study.")


def _locked(task: Search, name: str) -> filelock.FileLock:
    return filelock.FileLock(task.folder / LOCKS / name)


@contextlib.contextmanager
def _claim(task: Search, study: Any, trials: int) -> Iterator[Any]:
    """Yield a trial that no other process works on, or None if the study has all trials or others work on the rest.

    What a new trial tries follows from the seed and the trials before it, whatever happened to processes. One without
    all of its values was never run: its process was killed before it began.
    """
    optuna: Any = import_module("optuna", INSTALL)
    with contextlib.ExitStack() as held:
        with _locked(task, "study").acquire():
            claimed = None
            for old in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
                lock = _locked(task, f"trial{old.number}")
                with contextlib.suppress(filelock.Timeout):
                    held.enter_context(lock.acquire(timeout=0))
                    if old.params.keys() == task.space.keys():
                        claimed = optuna.trial.Trial(study, old._trial_id)
                        break
                    study.tell(old.number, state=optuna.trial.TrialState.FAIL)
            index = sum(one.params.keys() == task.space.keys() for one in study.get_trials(deepcopy=False))
            if claimed is None and index < trials:
                seed = np.random.SeedSequence([task.usual.seed, index]).generate_state(1)[0]
                study.sampler = optuna.samplers.TPESampler(seed=int(seed))
                claimed = study.ask(_distributions(task))
                held.enter_context(_locked(task, f"trial{claimed.number}").acquire())
        yield claimed


def _run(task: Search, study: Any, trial: Any, board: Board) -> str | None:
    """Train the run of a trial, or continue it, until it is complete or pruned; return why it failed, if it did."""
    states = import_module("optuna", INSTALL).trial.TrialState
    name = f"trial {trial.number}"
    try:
        settings = task.settings(_decode(task, trial.params))  # values that do not go together are refused
        name = f"{name}, {label(settings.to_json(), list(task.space))}"
        record = _train(study, trial, settings, task.options, board.progress(name, settings.steps))
    except SmrlError as error:
        trial.set_user_attr("error", str(error))
        study.tell(trial, state=states.FAIL)
        board.notify(f"{name}: failed: {error}")
        return str(error)
    if record is None:
        study.tell(trial, state=states.PRUNED)
        board.notify(f"{name}: pruned")
    else:
        value = value_of(record)
        study.tell(trial, value)
        board.notify(f"{name}: return {value:,.1f}")
    return None


def _train(study: Any, trial: Any, settings: Settings[Any], options: RunOptions, progress: Progress) -> Record | None:
    """Train the run of a trial and report its evaluations; return its record, or None if the trial is pruned."""
    directory = RunDirectory.of(settings, options)
    reported = {*study.get_trials(deepcopy=False)[trial.number].intermediate_values}
    is_pruned = False

    def report(step: int, mean: float) -> None:
        if step not in reported:
            trial.report(mean, step)
            reported.add(step)

    def report_all(record: Record) -> None:
        for row in zip(record.steps.tolist(), record.returns.tolist(), strict=True):
            report(*row)

    def stops(step: int) -> bool:
        nonlocal is_pruned
        is_pruned = step + settings.eval_every <= settings.steps and bool(trial.should_prune())
        return is_pruned

    def on_evaluation(status: Status) -> bool:
        report(status.step, status.evaluation["mean"])
        return stops(status.step)

    with contextlib.suppress(SmrlError):  # the process was killed before it reported, or other trials are the same run
        report_all(read_run(directory.path))
        stops(max(reported))
    if is_pruned:
        return None
    wait_for_lock(directory, np.inf)
    run_training(settings, options, partial(make, settings.env), progress, Callbacks(on_evaluation=on_evaluation))
    record = read_run(directory.path)
    report_all(record)
    return None if is_pruned else record


def value_of(record: Record) -> float:
    """Return what trials are compared by: the mean return of the last fifth of the evaluations, at least one."""
    return float(record.returns[-max(1, len(record.returns) // LAST_PART) :].mean())


def _distributions(task: Search) -> dict[str, Any]:
    kinds: Any = import_module("optuna.distributions", INSTALL)
    found: dict[str, Any] = {}
    for name, domain in task.space.items():
        if isinstance(domain, Choices):
            found[name] = kinds.CategoricalDistribution([encode(value) for value in domain.choices])
        else:
            is_whole = isinstance(domain.low, int) and isinstance(domain.high, int)
            kind = kinds.IntDistribution if is_whole else kinds.FloatDistribution
            found[name] = kind(domain.low, domain.high, log=domain.log)
    return found


def _decode(task: Search, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for what a study has stored; four digits are enough, and short to read."""
    found: dict[str, Any] = {}
    for name, domain in task.space.items():
        if isinstance(domain, Choices):
            found[name] = {encode(value): value for value in domain.choices}[params[name]]
        elif isinstance(params[name], float):
            found[name] = min(max(float(f"{params[name]:.4g}"), domain.low), domain.high)
        else:
            found[name] = params[name]
    return found
