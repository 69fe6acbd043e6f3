"""One run from its settings: find its folder, lock it, see what is there already, and train what is missing."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from smrl import machine, runtime
from smrl.algorithms import registry
from smrl.envs.environment import Environment
from smrl.envs.make import EnvFactory
from smrl.errors import require
from smrl.runs import checkpoint
from smrl.runs.paths import RunDirectory, changes
from smrl.runs.repair import mend
from smrl.settings import RunOptions, Settings
from smrl.training.advice import cost_of_reuse
from smrl.training.loop import Callbacks, Trainer
from smrl.training.memory_budget import refuse_too_large
from smrl.training.progress import Progress, Unfailing
from smrl.training.run import Run
from smrl.training.signals import Interrupted, SignalHandler
from smrl.types import Spec


def run_training(
    settings: Settings[Any],
    options: RunOptions,
    make_env: Callable[..., Environment],
    progress: Progress,
    callbacks: Callbacks = Callbacks(),  # noqa: B008  # frozen
    env_source: str | None = None,
) -> Run:
    """Train a run in its folder, or continue it; a finished one is left alone.

    ``make_env`` takes the keywords of `smrl.envs.make.make`.
    """
    runs = options.runs.absolute()  # before an environment is made, which may change the working directory
    make_env, progress = EnvFactory(partial(make_env, **settings.env_options)), Unfailing(progress)
    with ExitStack() as resources:
        with closing(make_env()) as env:  # one that cannot be made is refused before anything is written
            spec, notes = env.spec, env.notes
        for note in (*notes, cost_of_reuse(settings)):
            if note:
                progress.notify(note)
        directory = RunDirectory.of(settings, runs)
        if not directory.path.exists():
            runtime.start(options.threads)
            _refuse_unfit(settings, spec)  # before anything is written
        resources.enter_context(directory.locked())
        for message in mend(directory.path):
            progress.notify(message)
        directory.refuse_another(settings, env_source)
        done = checkpoint.newest_step(directory.checkpoint) or 0
        if done >= settings.steps:
            progress.advance(done)
            progress.notify(f"finished already, {done:,} steps; see {directory.path}")
            return Run(directory.path, trust=True)
        _settle_threads(options.threads, directory)  # before anything starts JAX
        platform = runtime.platform_facts()
        for change in changes(directory.read_config(), platform) if directory.config.exists() else ():
            progress.notify(f"{change}, so the last bits may differ from a run that was never interrupted.")
        interruption = resources.enter_context(SignalHandler(progress.notify))
        _refuse_unfit(settings, spec)
        directory.write_config(settings, spec, env_source, machine.threads(), platform)
        trainer = Trainer(settings, options, directory, make_env, progress, callbacks, interruption, resources)
        reason = trainer.run()
        trainer.save()
        if interruption.signal is not None:
            message = f"stopped by {reason} at step {trainer.step:,} and saved; the same command continues it."
            raise Interrupted(interruption.signal, message)
        if reason:
            progress.notify(f"stopped at step {trainer.step:,} and saved: {reason}.")
    return Run(directory.path, trust=True)  # what it names was given by the caller


def _refuse_unfit(settings: Settings[Any], spec: Spec) -> None:
    """Refuse an algorithm that does not accept the environment, and sizes that do not fit into memory."""
    algorithm = registry.find(settings.algorithm).make(settings.hyper, spec)
    refuse_too_large(settings, spec, algorithm.rounds * settings.fresh_batches)


def _settle_threads(asked: int | None, directory: RunDirectory) -> None:
    """Compute with the threads that the run began with, because its last bits depend on them."""
    recorded = directory.read_config()["threads"] if directory.config.exists() else None
    require(
        recorded is None or asked in (None, recorded),
        f"{directory.path} was begun with {recorded} thread(s); leave --threads out to continue it.",
    )
    runtime.start(recorded or asked)
