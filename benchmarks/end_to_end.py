"""Environment steps per second of SAC on HalfCheetah-v4: acting, storing, drawing batches, learning, and evaluating.

All begin to learn after 1,000 steps, make M updates after each step, and evaluate 10 episodes every 1,000 steps. An
evaluation is timed by itself and added in its share, since a thousand steps at M = 10 take too long for many turns.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from benchmarks.harness import Call, Record, cores, interleaved, median_of, ratio
from benchmarks.peers import LIBRARIES, peers
from smrl import machine, runtime
from smrl.envs import make as envs
from smrl.envs.workers import Restarts
from smrl.presets import resolve
from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions
from smrl.training.evaluator import Evaluator
from smrl.training.loop import Callbacks, Trainer
from smrl.training.progress import Board
from smrl.training.signals import SignalHandler

SECTION = "End to end: SAC on HalfCheetah-v4"
CORES = (2,)
ENV, WARMUP, EVAL_EVERY, EPISODES = "HalfCheetah-v4", 1_000, 1_000, 10
STEPS = {1: 150, 10: 30}  # of a turn, by M
TARGETS = {("SBX", 1): 1.3, ("SBX", 10): 1.35}


@contextlib.contextmanager
def training(reuse: int) -> Iterator[Trainer]:
    """Yield a run of SAC that has begun to learn, without evaluations or checkpoints."""
    settings = resolve("sac", ENV, reuse=reuse, warmup=WARMUP, eval_every=10**9)
    make_env = partial(envs.make, ENV)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as resources:
        session = RunOptions(runs=Path(folder), quiet=True, checkpoint_seconds=1e9)
        directory = RunDirectory.of(settings, session)
        resources.enter_context(directory.locked())
        with contextlib.closing(make_env()) as env:
            platform = runtime.platform_facts()
            config = directory.write_config(settings, env.spec, None, machine.threads(), platform)
        progress = Board(quiet=True).progress("", 1)
        trainer = Trainer(
            settings=settings,
            options=session,
            directory=directory,
            config=config,
            make_env=make_env,
            restarts=Restarts(0, progress.notify),
            progress=progress,
            callbacks=Callbacks(),
            signals=SignalHandler(progress.notify),
            resources=resources,
        )
        advance(trainer, WARMUP + 10)
        yield trainer


def advance(trainer: Trainer, steps: int) -> None:
    for _ in range(steps):
        trainer.advance()


def measure(quick: bool) -> list[Record]:
    reuses = (10,) if quick else (1, 10)
    return [record for reuse in reuses for record in compare(reuse, quick)] + outside_updates()


def compare(reuse: int, quick: bool) -> list[Record]:
    """Measure steps per second of smrl and its peers, with and without evaluations."""
    steps, title = STEPS[reuse], f"M = {reuse}, {cores()}"
    makers = {
        who: ("end_to_end", "sac", package, ENV, WARMUP, EPISODES, reuse, steps) for who, package in LIBRARIES.items()
    }
    with peers(makers) as others, training(reuse) as trainer:
        calls: dict[str, Call] = {"smrl": partial(advance, trainer, steps)}
        times = interleaved(calls | {who: run.part("train") for who, run in others.items()}, limit=50)
        alone = {who: [seconds / steps for seconds in values] for who, values in times.items()}
        records = speeds(title, alone, reuse)
        if not quick:
            calls = {"smrl": evaluation(trainer)} | {who: run.part("evaluate") for who, run in others.items()}
            means = {who: sum(values) / len(values) for who, values in interleaved(calls, limit=20).items()}
            whole = {who: [seconds + means[who] / EVAL_EVERY for seconds in values] for who, values in alone.items()}
            records += speeds(f"{title}, with evaluations", whole, reuse)
    return records


def speeds(title: str, seconds: dict[str, list[float]], reuse: int) -> list[Record]:
    """Return records of steps per second, and of smrl's ratio to each peer."""
    records = [median_of(f"{title}: {who}", [1 / value for value in seconds[who]], "steps/s") for who in seconds]
    return records + [
        ratio(seconds[who], seconds["smrl"], f"{title}: times as fast as {who}", TARGETS.get((who, reuse)))
        for who in list(seconds)[1:]
    ]


def evaluation(trainer: Trainer) -> Callable[[], Any]:
    """Return a call that evaluates as the trainer does."""
    evaluator = Evaluator(trainer.make_env, EPISODES, seed=0)
    return lambda: evaluator(trainer.agent.exploit)


def outside_updates() -> list[Record]:
    """Measure the milliseconds of a step without updates, and of the Gymnasium environment alone."""
    bare = gymnasium.make(ENV)
    bare.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (1_000, 6)).astype(np.float32)

    def play() -> None:
        for action in actions:
            if any(bare.step(action)[2:4]):
                bare.reset()

    with training(1) as trainer:
        trainer.agent.take_metrics()  # those to come have no names
        trainer.agent._learn = lambda learned, batches, step, env_step: (learned, {})  # type: ignore[assignment]
        calls: dict[str, Callable[[], Any]] = {"step": partial(advance, trainer, len(actions)), "environment": play}
        times = {
            who: [value * 1e3 / len(actions) for value in values] for who, values in interleaved(calls, 10).items()
        }
    return [
        median_of(f"a step outside the updates, {cores()}", times["step"], "ms", 0.4, at_most=True),
        median_of(f"a step of the environment alone, {cores()}", times["environment"], "ms"),
    ]
