"""How long runs will take on this machine, from a short measurement."""

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from smrl.algorithms import registry
from smrl.envs.make import make
from smrl.runs import identity
from smrl.settings import Settings
from smrl.smr import loop
from smrl.smr.rules import Schedule, rule_of
from smrl.training.clock import Clock

STEPS, UPDATES = 100, 3  # that are timed
EPISODE = 1_000  # environment steps of an evaluation's episode, as in the paper's tasks
SHARED = ("env", "seed", "reuse", "steps", "warmup", "eval_every", "eval_episodes")  # that hardly change an update


@dataclass(frozen=True)
class Speed:
    """Seconds of one agent step in the environment, and of all updates of a learning step at reuse 1."""

    agent_step: float
    learning_step: float
    learn_every: int


def core_hours(several: Iterable[Settings[Any]], notify: Callable[[str], None] = lambda _: None) -> float:
    """Hours of all runs, one thread each; algorithm and sizes are timed once, on the first of their tasks."""
    speeds: dict[str, Speed] = {}
    total = 0.0
    for settings in several:
        kind = identity.canonical({name: value for name, value in settings.to_json().items() if name not in SHARED})
        if kind not in speeds:
            notify(f"{identity.algorithm_words(settings.algorithm)} on {settings.env}")
            speeds[kind] = measure(settings)
        total += seconds(settings, speeds[kind])
    return total / 3600


def seconds(settings: Settings[Any], speed: Speed) -> float:
    """Seconds of a run: acting, learning and evaluating."""
    repeat = settings.action_repeat
    learned = Clock(settings.envs, repeat, settings.warmup, speed.learn_every).learned_at(settings.steps)
    rule = rule_of(settings.reuse)
    # A rule of one's own is unknown before it has run: it counts as 1.
    times = rule.times((), np.asarray(learned)) if isinstance(rule, Schedule) else 1
    updates = float(np.broadcast_to(times, len(learned)).sum())
    played = settings.steps + settings.steps // settings.eval_every * settings.eval_episodes * EPISODE
    return played / repeat * speed.agent_step + updates * speed.learning_step


def measure(settings: Settings[Any]) -> Speed:
    """Time some random actions and, once compiled, some updates on a batch of zeros."""
    with contextlib.closing(make(settings.env, **settings.env_options)) as env:
        spec = env.spec
        actions = spec.action.random(np.random.default_rng(0), STEPS)
        env.reset(0)
        begun = time.perf_counter()
        for action in actions:
            env.step(action)
            if env.over:
                env.reset(0)
        agent_step = (time.perf_counter() - begun) / STEPS
    algorithm = registry.find(settings.algorithm).make(settings.hyper, spec)
    rule, key = Schedule((1,)), jax.random.key(0)
    learn = jax.jit(loop.learner(algorithm, rule, settings.fresh_batches), donate_argnums=0)
    rounds = algorithm.rounds * settings.fresh_batches
    example = spec.example(settings.batch_size)
    batches = type(example)(*(np.broadcast_to(part, (rounds, *part.shape)) for part in example))
    learned = jax.jit(lambda key: loop.initial_state(algorithm, rule, key))(key)  # compiled, no two parts share memory
    learned, _ = jax.block_until_ready(learn(learned, batches, 1, 1, key))
    begun = time.perf_counter()
    for step in range(2, 2 + UPDATES):
        learned, _ = jax.block_until_ready(learn(learned, batches, step, step, key))
    return Speed(agent_step, (time.perf_counter() - begun) / UPDATES, algorithm.learn_every)
