"""`smrl.train`: one run from Python."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import gymnasium

from smrl.envs.identify import identify
from smrl.envs.make import make
from smrl.settings import RunOptions
from smrl.studies.presets import resolve
from smrl.training.loop import Callbacks
from smrl.training.progress import Board
from smrl.training.run import NAMED, Run
from smrl.training.run_training import run_training


def train(
    algorithm: str,
    env: str | Callable[[], gymnasium.Env[Any, Any]],
    *,
    preset: str = "paper",
    env_name: str | None = None,
    on_step: Callable[[Run, int], Any] | None = None,
    on_evaluation: Callable[[Run, int, dict[str, float]], Any] | None = None,
    **settings: Any,
) -> Run:
    """Train, or continue where an earlier call was interrupted; a finished run is left alone.

    Every flag of ``smrl train`` is a keyword. ``env`` may be a function that makes an environment; a lambda or a
    partial needs an ``env_name``, by which its runs are found. ``on_step(run, step)`` and ``on_evaluation(run, step,
    values)`` are called on the way; one that returns True stops the run, which is saved.

    >>> run = train("sac", "Hopper-v4", reuse=10, steps=300_000, seed=0)          # doctest: +SKIP
    >>> run.policy(obs)                                                           # doctest: +SKIP
    """
    option_names = {field.name for field in fields(RunOptions)}
    options = RunOptions(**{name: value for name, value in settings.items() if name in option_names})
    name, source = identify(env, env_name)
    rest = {name: value for name, value in settings.items() if name not in option_names}
    chosen = resolve(algorithm, name, preset, **rest)
    source = source if isinstance(env, str) else source or NAMED
    with Board(options.quiet) as board:
        progress = board.progress(chosen.title, chosen.steps)
        make_env = partial(make, env)
        return run_training(chosen, options, make_env, progress, Callbacks(on_step, on_evaluation), source)
