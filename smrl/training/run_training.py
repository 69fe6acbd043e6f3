"""One run from its settings: find its folder, lock it, check what is in it, and train what is missing."""

import os
import re
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax

from smrl import machine, runtime
from smrl.algorithms import registry
from smrl.envs.environment import Environment
from smrl.envs.make import EnvFactory
from smrl.envs.suites import atari
from smrl.envs.workers import Env, Restarts, in_workers
from smrl.errors import require
from smrl.randomness import Purpose, key
from smrl.runs import checkpoint, doctor
from smrl.runs.atomic import writing
from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions, Settings
from smrl.smr.rules import ProbingRule, Schedule, rule_of
from smrl.training.agent import refuse_probing, reuse_rule
from smrl.training.bias import diagnostics
from smrl.training.inputs import keep_inputs, read_inputs
from smrl.training.loop import Callbacks, Trainer
from smrl.training.memory_budget import refuse_large_networks, refuse_too_large
from smrl.training.normaliser import statistics_of
from smrl.training.progress import Progress, Unfailing
from smrl.training.real_time import RealTimeTrainer, device_settings
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
    """Train a run in its folder, or continue it; a finished run is left alone.

    ``make_env`` takes the keywords of `smrl.envs.make.make`.
    """
    here = Path.cwd()  # an environment that is made may change it
    options = replace(options, runs=options.runs.absolute())
    progress = Unfailing(progress)
    require(
        options.stop_at is None or settings.eval_episodes > 0,
        "--stop-at waits for an evaluation, and --eval-episodes 0 makes none; leave one of them out.",
    )
    require(
        not (options.diagnostics and settings.real_time),
        "--diagnostics measures while the environment waits, which a device does not: leave it out with --real-time.",
    )
    with ExitStack() as resources:
        settings, spec, open_env, restarts = _open(
            settings, options, make_env, progress.notify, resources, sends_info=callbacks.are_given
        )
        directory = RunDirectory.of(settings, options)
        inputs: dict[str, Any] | None = None
        if not directory.path.exists():  # refuse what does not fit before anything is written
            runtime.start(_threads(settings, options))
            _refuse_unfit(settings, spec)
            inputs = read_inputs(settings, spec, here, directory.path, progress.notify)
        resources.enter_context(directory.locked())
        config = _config_to_continue(directory, settings, options.name, env_source, progress.notify)
        done = checkpoint.newest_step(directory.checkpoint) or 0
        if done >= settings.steps:
            progress.advance(done)
            progress.inform(f"finished already, {done:,} steps")
            return Run(directory.path, trust=True)
        threads = config["threads"] if config else _threads(settings, options)  # a run's last bits depend on them
        require(
            options.threads in (None, threads),
            f"{directory.path} was started with {threads} thread(s); leave --threads out to continue it.",
        )
        runtime.start(threads)
        platform = runtime.platform_facts()
        for change in directory.changes(config, platform) if config else ():
            progress.notify(f"{change}, so the last bits may differ from a run that was never interrupted.")
        signals = resources.enter_context(SignalHandler(progress.notify))
        if inputs is None:  # the folder was there already
            _refuse_unfit(settings, spec)
        if config:
            checksums = config.get("inputs", {})
        else:
            if inputs is None:
                inputs = read_inputs(settings, spec, here, directory.path, progress.notify)
            checksums = keep_inputs(directory, inputs, progress.notify)
            del inputs
        config = directory.write_config(settings, spec, env_source, machine.threads(), platform, checksums)
        with writing(directory.checkpoint):
            directory.checkpoint.mkdir(exist_ok=True)  # its absence now means that it was deleted
        kind = RealTimeTrainer if settings.real_time else Trainer
        trainer = kind(
            settings=settings,
            options=options,
            directory=directory,
            config=config,
            make_env=open_env,
            restarts=restarts,
            progress=progress,
            callbacks=callbacks,
            signals=signals,
            resources=resources,
        )
        reason = trainer.train()
        trainer.finish()
        if signals.signal is not None:
            message = f"stopped by {reason} at step {trainer.step:,} and saved; the same command continues it."
            raise Interrupted(signals.signal, message)
        if reason:
            progress.inform(f"stopped at step {trainer.step:,} and saved: {reason}.")
    return Run(directory.path, trust=True)  # the caller has named its modules


def _config_to_continue(
    directory: RunDirectory,
    settings: Settings[Any],
    name: str | None,
    env_source: str | None,
    notify: Callable[[str], None],
) -> dict[str, Any] | None:
    """Return the config of a run that is there already, with its files restored; refuse another run's."""
    config = doctor.restore_files(directory.path, notify)
    if config:
        directory.check_same_run(config, settings, env_source)
        if name and not directory.path.parent.name.endswith(f"-{name}"):
            notify(f"these settings have their run already, without the name {name}.")
    if not checkpoint.checkpoints(directory.checkpoint) and doctor.recorded_steps(directory):
        notify(f"{directory.path} was stopped before its first checkpoint; it starts again at step 0.")
    return config


class _Opened(NamedTuple):
    settings: Settings[Any]  # with the control period of a device
    spec: Spec
    make_env: Callable[..., Env]
    restarts: Restarts


def _open(
    settings: Settings[Any],
    options: RunOptions,
    make_env: Callable[..., Environment],
    notify: Callable[[str], None],
    resources: ExitStack,
    sends_info: bool,
) -> _Opened:
    """Make one environment to learn its spec, so that one that cannot be made is refused before anything is written.

    It is closed again, unless it is a device, of which no other is ever made.
    """
    make_here, restarts = partial(make_env, **settings.env_options), Restarts(options.env_restarts, notify)
    opened: Callable[..., Env] = EnvFactory(make_here)
    if options.env_workers == "process":
        require(not settings.real_time, "--real-time drives its device in this process: leave --env-workers out.")
        opened = in_workers(make_here, settings.env, restarts, options.env_timeout, sends_info)
    with ExitStack() as first:
        env = first.enter_context(closing(opened(training=settings.real_time)))
        for note in env.notes:
            notify(f"{note.what}. {note.meaning}")
        settings = device_settings(settings, env)
        if cost := cost_of_reuse(settings):
            notify(cost)
        if settings.real_time:
            resources.push(first.pop_all())
            opened = lambda **options: env  # noqa: E731
        return _Opened(settings, env.spec, opened, restarts)


def cost_of_reuse(settings: Settings[Any]) -> str | None:
    """Return a warning about the cost of reuse on Atari, where the paper advises against it; None elsewhere."""
    rule = rule_of(settings.reuse, settings.real_time)
    times = max(rule.values) if isinstance(rule, Schedule) else 2
    if times == 1 or not re.fullmatch(atari.IDS, settings.env.rpartition(":")[2]):
        return None
    factor = f"{times} times" if isinstance(rule, Schedule) else "many times"
    return (
        f"reuse makes up to {factor} the updates, and the paper advises against it on Atari for its cost: with reuse "
        "10 its DQN took 8.7 times as long on Pong. --reuse 1 is plain DQN."
    )


def _threads(settings: Settings[Any], options: RunOptions) -> int | None:
    """Return the threads to compute with in a new run, None for the default; one core is left to drive a device."""
    if options.threads is None and settings.real_time and not os.environ.get(machine.THREADS):
        return max(1, min(machine.cores() - 1, machine.MAX_THREADS))
    return options.threads


def _refuse_unfit(settings: Settings[Any], spec: Spec) -> None:
    """Refuse an algorithm, normalisation or diagnostic that is unfit for the environment, and sizes beyond memory."""
    algorithm = registry.find(settings.algorithm).make(settings.hyper, spec)
    statistics_of(settings, spec)
    refuse_too_large(settings, spec, algorithm.rounds * settings.fresh_batches)
    refuse_large_networks(jax.eval_shape(algorithm.init, key(settings.seed, Purpose.INITIALISE)))
    if settings.bias_every:
        diagnostics(algorithm, settings.algorithm)
    rule = reuse_rule(settings)
    if isinstance(rule, ProbingRule):
        refuse_probing(algorithm, rule, spec)
