"""`smrl.train` and `smrl.register`."""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, Unpack

import gymnasium

from smrl import presets
from smrl.algorithms import registry
from smrl.algorithms.registry import Make
from smrl.envs.identify import identify
from smrl.envs.make import make
from smrl.errors import require, short_repr
from smrl.keywords import Keywords
from smrl.presets import Preset
from smrl.runs.identity import title
from smrl.settings import RunOptions, without_aliases
from smrl.training.loop import Callbacks
from smrl.training.progress import Board, LoggingBoard
from smrl.training.run import NAMED, Run
from smrl.training.run_training import run_training
from smrl.training.status import Status
from smrl.validation import Name, convert, documentation

OWN_PRESETS = tuple(presets.PRESETS)


def train(
    algorithm: str,
    env: str | Callable[[], gymnasium.Env[Any, Any]],
    *,
    preset: str = "paper",
    env_name: str | None = None,
    on_step: Callable[[Status], Any] | None = None,
    on_evaluation: Callable[[Status], Any] | None = None,
    **keywords: Unpack[Keywords],
) -> Run:
    """Train a run, or continue one that was interrupted; a finished run is left alone.

    A training changes the process that it runs in: it fixes the number of JAX's threads, because the last bits of its
    results depend on them, and sets JAX's dispatch, compilation cache and memory allocator for speed.

    >>> run = train("sac", "Hopper-v4", reuse=10, steps=300_000, seed=0)          # doctest: +SKIP
    >>> run.policy(obs)                                                           # doctest: +SKIP

    Arguments:
        algorithm: Name of the algorithm, or module:function for a custom one.
        env: Gymnasium id, or a function that makes an environment.
        preset: Named settings that the keywords are laid over.
        env_name: Name for the environment of a function; needed for a lambda or a partial.
        on_step: Called with a `Status` after every step; if it returns True, the run is saved and stopped.
        on_evaluation: Called with a `Status` after every evaluation, in the same way.

    Keywords, each with the default of the preset:
    """
    return train_on(
        LoggingBoard,
        algorithm,
        env,
        preset=preset,
        env_name=env_name,
        on_step=on_step,
        on_evaluation=on_evaluation,
        **keywords,
    )


def train_on(
    show: Callable[[bool], Board],
    algorithm: str,
    env: str | Callable[[], gymnasium.Env[Any, Any]],
    *,
    preset: str = "paper",
    env_name: str | None = None,
    on_step: Callable[[Status], Any] | None = None,
    on_evaluation: Callable[[Status], Any] | None = None,
    **keywords: Any,
) -> Run:
    """Train as `train` does, with a display that is made for being quiet or not."""
    algorithm, preset = convert("algorithm", algorithm, Name), convert("preset", preset, Name)
    for hook, function in {"on_step": on_step, "on_evaluation": on_evaluation}.items():
        require(
            function is None or _takes_one(function),
            f"{hook} must be a function of one argument, the status of the run, not {short_repr(function)}.",
        )
    values = without_aliases(algorithm, keywords)
    run_options = RunOptions(**{item.name: values.pop(item.name) for item in fields(RunOptions) if item.name in values})
    name, source = identify(env, env_name)
    settings = presets.resolve(algorithm, name, preset, **values)
    source = source if isinstance(env, str) else source or NAMED
    with show(run_options.quiet) as board:
        progress = board.progress(title(settings.to_json()), settings.steps)
        callbacks = Callbacks(on_step, on_evaluation)
        return run_training(settings, run_options, partial(make, env), progress, callbacks, source)


def _takes_one(function: Any) -> bool:
    """Return whether something can be called with one argument, as far as Python knows it."""
    try:
        inspect.signature(function).bind(None)
    except ValueError:  # C code
        return callable(function)
    except TypeError:
        return False
    return True


def _with_keywords(text: str) -> str:
    """Return the docstring of `train` with the keywords and their meanings."""
    wrap = partial(textwrap.wrap, width=112, subsequent_indent=" " * 12)
    lines = [line for name, meaning in documentation(Keywords).items() for line in wrap(f"        {name}: {meaning}")]
    return "\n".join([text.rstrip(), *lines, "    "])


train.__doc__ = _with_keywords(train.__doc__ or "")


def register(name: str, what: Make | Preset, title: str = "") -> None:
    """Register an algorithm or a preset under a name in this process.

    An algorithm is a function ``(config, spec) → Algorithm``; see docs/extend.md. Packages use the entry-point groups
    ``smrl.algorithms`` and ``smrl.presets`` instead, and the command line also takes ``module:name``.

    >>> register("quick", Preset("a short run", (presets.Row("*", {"steps": 20_000}),)))
    >>> presets.resolve("sac", "Hopper-v4", "quick").steps
    20000
    """
    name, title = convert("name", name, Name), convert("title", title, Name)
    if not isinstance(what, Preset):
        registry.register(name, what, title)
        return
    require(bool(name.strip()), "a preset needs a name.")
    require(name not in OWN_PRESETS, f"{name} is a preset of smrl; register yours under another name.")
    presets.PRESETS[name] = what
