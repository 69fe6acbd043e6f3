"""What a run will do, and an estimate of how long it takes on this machine."""

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from smrl.algorithms import registry
from smrl.envs.environment import Environment
from smrl.envs.make import make
from smrl.envs.workers import Env
from smrl.runs.identity import algorithm_words, canonical, reuse_words
from smrl.settings import Settings
from smrl.smr import loop
from smrl.smr.auto import Auto
from smrl.smr.rules import Budget, Schedule, rule_of
from smrl.training.clock import Clock

TIMED_STEPS, TIMED_UPDATES = 100, 3
EPISODE = 1_000  # environment steps of an evaluation episode without a shorter limit
SAME_SPEED = ("env", "seed", "reuse", "steps", "warmup", "eval_every", "eval_episodes")  # hardly change update time
LIVE_SECONDS, LIVE_ROUNDS = 3.0, 1_000  # of learning after which a run in progress is estimated


@dataclass(frozen=True)
class Speed:
    """Seconds of one agent step in the environment, and of all updates of a learning step at reuse 1."""

    agent_step: float
    learning_step: float
    learn_every: int
    episode: int = EPISODE  # environment steps of an evaluation episode


def core_seconds(several: Iterable[Settings[Any]]) -> list[float]:
    """Estimate the seconds of each run with one thread, timing each algorithm and size on its first task."""
    speeds: dict[str, Speed] = {}
    seconds = []
    for settings in several:
        kind = canonical({name: value for name, value in settings.to_json().items() if name not in SAME_SPEED})
        if kind not in speeds:
            speeds[kind] = measure_speed(settings)
        seconds.append(run_seconds(settings, speeds[kind]))
    return seconds


def run_seconds(settings: Settings[Any], speed: Speed) -> float:
    """Estimate the seconds of a run: acting, learning and evaluating."""
    repeat = settings.action_repeat
    learned = Clock(settings.envs, repeat, settings.warmup, speed.learn_every).learned_at(settings.steps)
    rule = rule_of(settings.reuse)
    if isinstance(rule, Budget):
        return rule.seconds
    # What a rule will choose is unknown before it has run: auto counts as its start, a custom rule as 1.
    times: Any = min(rule.start, rule.ceiling) if isinstance(rule, Auto) else 1
    if isinstance(rule, Schedule):
        times = rule.times((), np.asarray(learned))
    updates = float(np.broadcast_to(times, len(learned)).sum())
    played = settings.steps + settings.steps // settings.eval_every * settings.eval_episodes * speed.episode
    return played / repeat * speed.agent_step + updates * speed.learning_step


def measure_speed(settings: Settings[Any]) -> Speed:
    """Time some random actions and some compiled updates on a batch of zeros."""
    with contextlib.closing(make(settings.env, **settings.env_options)) as env:
        spec, episode = env.spec, episode_steps(env)
        actions = spec.action.random(np.random.default_rng(0), TIMED_STEPS)
        env.reset(0)
        begun = time.perf_counter()
        for action in actions:
            env.step(action)
            if env.over:
                env.reset(0)
        agent_step = (time.perf_counter() - begun) / TIMED_STEPS
    algorithm = registry.find(settings.algorithm).make(settings.hyper, spec)
    rule, key = Schedule((1,)), jax.random.key(0)
    learn = jax.jit(loop.learner(algorithm, rule, settings.fresh_batches), donate_argnums=0)
    rounds = algorithm.rounds * settings.fresh_batches
    example = spec.example(settings.batch_size)
    batches = type(example)(*(np.broadcast_to(part, (rounds, *part.shape)) for part in example))
    # The state is made by one compiled function, so that no two parts of it share memory.
    learned = jax.jit(lambda key: loop.initial_state(algorithm, rule, key))(key)
    learned, _ = jax.block_until_ready(learn(learned, batches, 1, 1, key))
    begun = time.perf_counter()
    for step in range(2, 2 + TIMED_UPDATES):
        learned, _ = jax.block_until_ready(learn(learned, batches, step, step, key))
    return Speed(agent_step, (time.perf_counter() - begun) / TIMED_UPDATES, algorithm.learn_every, episode)


def episode_steps(env: Env) -> int:
    """Return the environment steps of an evaluation episode, as far as they are known."""
    spec = env.env.spec if isinstance(env, Environment) else None
    return min(EPISODE, (spec.max_episode_steps if spec else None) or EPISODE)


class Stopwatch:
    """Times the first rounds of a run, acting and then learning, and estimates the remaining time."""

    def __init__(self, settings: Settings[Any], clock: Clock, episode: int) -> None:
        self._settings, self._clock, self._episode = settings, clock, episode
        self._acting, self._learning, self._updates = [0.0, 0], [0.0, 0], 0  # seconds and rounds; updates before them
        self._has_learned = False

    def add(self, step: int, seconds: float, updates: Callable[[], int]) -> float | None:
        """Add a round that began at a step; return the seconds that are left, once that can be estimated.

        ``updates`` counts those at reuse 1 that were made so far; it may take long and is asked only twice.
        """
        if step + self._clock.stride <= self._settings.warmup:
            part = self._acting
        elif self._has_learned:
            part = self._learning
        else:  # the first learning round waits for the compilation
            self._has_learned, self._updates = True, updates()
            return None
        part[0], part[1] = part[0] + seconds, part[1] + 1
        if part is self._acting or (part[0] < LIVE_SECONDS and part[1] < LIVE_ROUNDS):
            return None
        rounds = self._acting[1] * self._settings.envs
        agent_step = self._acting[0] / rounds if rounds else 0.0
        learned = max(part[0] - part[1] * self._settings.envs * agent_step, 0.0)
        speed = Speed(agent_step, learned / max(updates() - self._updates, 1), self._clock.learn_every, self._episode)
        settings = self._settings
        return run_seconds(settings, speed) * max(settings.steps - step, 0) / settings.steps


def plan(several: Sequence[Settings[Any]]) -> str:
    """Return what runs will do.

    >>> from smrl.settings import make_settings
    >>> plan([make_settings("sac", "Hopper-v4")])
    'SAC with reuse 10; --reuse 1 is plain SAC; 300,000 steps'
    >>> plan([make_settings(name, "Hopper-v4", reuse=reuse) for name in ("sac", "td3") for reuse in (1, 10)])
    '4 runs: SAC and TD3 with reuse 1 and 10 on Hopper-v4; 300,000 steps each'
    """
    algorithms = list(dict.fromkeys(algorithm_words(one.algorithm) for one in several))
    reuse = list(dict.fromkeys(reuse_words(str(one.reuse)) for one in several))
    tasks = list(dict.fromkeys(one.env for one in several))
    steps = {one.steps for one in several}
    count = f"{min(steps):,} steps" if len(steps) == 1 else f"{min(steps):,} to {max(steps):,} steps"
    what = f"{_listed(algorithms)} with reuse {_listed(reuse)}"
    if len(several) == 1:
        hint = f"; --reuse 1 is plain {algorithms[0]}" if reuse != ["1"] else ""
        return f"{what}{hint}; {count}"
    return f"{len(several)} runs: {what} on {tasks[0] if len(tasks) == 1 else f'{len(tasks)} tasks'}; {count} each"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
