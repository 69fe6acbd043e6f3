"""One run from its settings: find its folder, lock it, see what is there already, and train what is missing."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from smrl import machine
from smrl.algorithms import registry
from smrl.envs.environment import Environment
from smrl.envs.make import Distinct
from smrl.errors import require
from smrl.runs import checkpoint, runtime
from smrl.runs.directory import RunDirectory
from smrl.runs.repair import mend
from smrl.runs.run import Run
from smrl.runs.settings import Settings
from smrl.training.advice import cost_of_reuse
from smrl.training.interruption import Interrupted, Interruption
from smrl.training.loop import Hooks, Trainer
from smrl.training.progress import Meter, Unfailing
from smrl.training.room import refuse_too_large
from smrl.training.session import Session
from smrl.types import Spec


def carry_out(
    settings: Settings[Any],
    session: Session,
    make_env: Callable[..., Environment],
    meter: Meter,
    hooks: Hooks = Hooks(),  # noqa: B008  # frozen
    env_source: str | None = None,
) -> Run:
    """Train a run in its folder, or continue it; a finished one is left alone.

    ``make_env`` takes the keywords of `smrl.envs.make.make`.
    """
    runs = session.runs.absolute()  # before an environment is made, which may change the working directory
    make_env, meter = Distinct(partial(make_env, **settings.env_options)), Unfailing(meter)
    with ExitStack() as resources:
        with closing(make_env()) as env:  # one that cannot be made is refused before anything is written
            spec, notes = env.spec, env.notes
        for note in (*notes, cost_of_reuse(settings)):
            if note:
                meter.say(note)
        directory = RunDirectory.of(settings, runs)
        if not directory.path.exists():
            runtime.start(session.threads)
            _refuse_unfit(settings, spec)  # before anything is written
        resources.enter_context(directory.locked())
        for sentence in mend(directory.path):
            meter.say(sentence)
        directory.refuse_another(settings, env_source)
        done = checkpoint.newest_step(directory.checkpoint) or 0
        if done >= settings.steps:
            meter.advance(done)
            meter.say(f"finished already, {done:,} steps; see {directory.path}")
            return Run(directory.path, trust=True)
        _settle_threads(session.threads, directory)  # before anything starts JAX
        for change in directory.changes():
            meter.say(f"{change}, so the last bits may differ from a run that was never interrupted.")
        interruption = resources.enter_context(Interruption(meter.say))
        _refuse_unfit(settings, spec)
        directory.write_config(settings, spec, env_source, machine.threads())
        trainer = Trainer(settings, session, directory, make_env, meter, hooks, interruption, resources)
        reason = trainer.run()
        trainer.save()
        if interruption.signal is not None:
            sentence = f"stopped by {reason} at step {trainer.step:,} and saved; the same command continues it."
            raise Interrupted(interruption.signal, sentence)
        if reason:
            meter.say(f"stopped at step {trainer.step:,} and saved: {reason}.")
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
