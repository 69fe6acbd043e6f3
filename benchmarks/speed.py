"""How fast smrl is on this machine: `make bench`.

For one thread and for all cores, each in a process of its own: the peak of the machine's matrix multiplication,
milliseconds per update and their share of that peak, and what a step costs besides its updates.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from smrl.algorithms import registry
from smrl.algorithms.acting import Reader
from smrl.envs import make as envs
from smrl.runs import runtime
from smrl.runs.directory import RunDirectory
from smrl.smr.loop import learner, start
from smrl.smr.rules import rule_of
from smrl.studies.presets import resolve
from smrl.training.evaluator import Evaluator
from smrl.training.interruption import Interruption
from smrl.training.loop import Hooks, Trainer
from smrl.training.progress import Board
from smrl.training.session import Session
from smrl.types import ArraySpec, Continuous, Spec, Tick, Transition

SPEC = Spec(ArraySpec((17,)), Continuous(6))  # HalfCheetah and Walker2d
ALGORITHMS = ("ddpg", "td3", "sac", "darc", "tqc", "redq")  # of vectors
BATCH = 256
REPEATS = 5


def best_seconds(call: Callable[[], Any], number: int) -> float:
    """Seconds per call: the best of several repeats, since whatever else the machine does only adds to it."""
    call()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(number):
            call()
        times.append((time.perf_counter() - began) / number)
    return min(times)


def peak() -> float:
    """FLOP/s of a large float32 matrix multiplication."""
    size = 2048
    matrix = jnp.ones((size, size)) / size
    multiply = jax.jit(lambda a, b: a @ b)
    return 2 * size**3 / best_seconds(lambda: jax.block_until_ready(multiply(matrix, matrix)), 1)


def random_batches(count: int) -> Transition:
    draw = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return draw.standard_normal((count, BATCH, *shape), np.float32)

    discount: Any = np.full((count, BATCH), 0.99, np.float32)
    return Transition(normal(17), np.tanh(normal(6)), normal(), discount, normal(17))


def update_speed(name: str, reuse: int) -> tuple[float, float]:
    """Seconds of one update and its share of the peak, in the mean over a step with `reuse` of them per fresh batch.

    The peak is taken right before and after: what else the machine does slows both down.
    """
    entry, fresh_batches = registry.find(name), resolve(name, "").fresh_batches
    algorithm, key = entry.make(entry.config(), SPEC), jax.random.key(0)
    rounds = algorithm.rounds * fresh_batches
    rule, batches = rule_of(reuse), random_batches(rounds)
    learn, box = learner(algorithm, rule, fresh_batches), [jax.jit(lambda: start(algorithm, rule, key))()]
    state = jax.eval_shape(algorithm.init, key)

    def flop(index: int) -> float:
        # constants, so that XLA knows which branch is taken
        tick = Tick(jnp.asarray(2), jnp.asarray(index), rounds, key, jnp.asarray(1))
        update = jax.jit(lambda state, batch: algorithm.update(state, batch, tick, key))
        cost: Any = update.lower(state, jax.tree.map(lambda field: field[0], batches)).compile().cost_analysis()
        return float(cost["flops"])

    mean_flop = (flop(0) * (rounds - 1) + flop(rounds - 1)) / rounds  # REDQ's actor learns in the last round only

    def call() -> None:
        box[0], _ = learn(box[0], batches, 2, 2, key)  # an even step, on which TD3's actor learns too
        jax.block_until_ready(box[0])

    updates, before = reuse * rounds, peak()
    seconds = best_seconds(call, max(1, 30 // updates)) / updates
    return seconds, mean_flop / seconds / max(before, peak())


@contextlib.contextmanager
def training(env_name: str, reuse: int) -> Iterator[Trainer]:
    """A run of SAC that has begun to learn and will neither evaluate nor save by itself."""
    settings = resolve("sac", env_name, reuse=reuse, warmup=1000, eval_every=10**9)
    make_env = partial(envs.make, env_name)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as resources:
        session = Session(runs=Path(folder), quiet=True, checkpoint_seconds=1e9)
        directory = RunDirectory.of(settings, session.runs)
        resources.enter_context(directory.locked())
        with contextlib.closing(make_env()) as env:
            directory.write_config(settings, env.spec, None, runtime.threads())
        meter = Board(quiet=True).meter("", 1)
        trainer = Trainer(settings, session, directory, make_env, meter, Hooks(), Interruption(meter.say), resources)
        for _ in range(settings.warmup + 10):
            trainer.advance()
        yield trainer


def around_updates(env_name: str) -> dict[str, float]:
    """Steps per second; seconds of a step without its updates, of its environment alone, and of a checkpoint."""
    speeds = {}
    for reuse in (1, 10):
        with training(env_name, reuse) as trainer:
            speeds[f"steps per second, reuse {reuse}"] = 1 / best_seconds(trainer.advance, 100 // reuse)
    with training(env_name, 1) as trainer:
        trainer.learner._learn = lambda learned, batches, step, env_step: (learned, {})  # type: ignore[assignment]
        step = best_seconds(trainer.advance, 1000)
        began = time.perf_counter()
        trainer.save()
        save = time.perf_counter() - began
    milliseconds = {
        "step without updates, ms": step,
        "environment alone, ms": bare_step(partial(envs.make, env_name)),
        "checkpoint, ms": save,
    }
    return speeds | {name: 1e3 * seconds for name, seconds in milliseconds.items()}


def bare_step(make_env: Callable[[], Any]) -> float:
    """Seconds of a step of the Gymnasium environment alone, with resets."""
    env = make_env().env
    env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(
        env.action_space.low, env.action_space.high, (1000, *env.action_space.shape)
    )

    def play() -> None:
        for action in actions.astype(np.float32):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return best_seconds(play, 1) / len(actions)


def evaluation_ratio(env_name: str) -> float:
    """The cost of an evaluation of 10 episodes over that of stepping its environments with the same actions."""
    make_env = partial(envs.make, env_name)
    evaluator = Evaluator(make_env, 10, seed=0)
    entry = registry.find("sac")
    algorithm = entry.make(entry.config(), evaluator.envs[0].spec)
    state = jax.jit(algorithm.init)(jax.random.key(0))
    exploit = Reader(algorithm.exploit, state, evaluator.envs[0].spec.example().obs).bind(state)
    played: list[np.ndarray] = []

    def policy(obs: np.ndarray) -> np.ndarray:
        played.append(np.asarray(exploit(obs)))
        return played[-1]

    episodes, seeds = evaluator(policy), evaluator.seeds()
    assert episodes is not None
    lengths = episodes.lengths
    # The same actions as the environments take them, decoded beforehand.
    actions = evaluator.envs[0].spec.action.decoder()(np.stack(played, axis=1))

    def bare() -> None:
        for index, length in enumerate(lengths):
            env = evaluator.envs[index].env
            env.reset(seed=seeds[index])
            for action in actions[index][:length]:
                env.step(action)

    def whole() -> None:
        evaluator(lambda obs: np.asarray(exploit(obs)))

    return best_seconds(whole, 1) / best_seconds(bare, 1)


def measure() -> dict[str, Any]:
    """All measurements of one process."""
    paper = {name: int(resolve(name, "").reuse) for name in ALGORITHMS}
    updates = {f"{name} reuse {reuse}": update_speed(name, reuse) for name in ALGORITHMS for reuse in (1, paper[name])}
    return {
        "threads": runtime.threads(),
        "peak": peak(),
        "updates": updates,
        "around": {name: around_updates(name) for name in ("Pendulum-v1", "Hopper-v4")},
        "evaluation": {name: evaluation_ratio(name) for name in ("Pendulum-v1", "Hopper-v4")},
    }


def show(results: list[dict[str, Any]]) -> None:
    out = Console(width=110)
    heads = [f"{result['threads']} thread(s)" for result in results]
    table = Table("", *heads, title="updates: 17 observations, 6 actions, batch 256; milliseconds (share of peak)")
    table.add_row("peak, GFLOP/s", *(f"{result['peak'] / 1e9:.0f}" for result in results))
    for name in results[0]["updates"]:
        cells = [result["updates"][name] for result in results]
        table.add_row(name, *(f"{seconds * 1e3:.2f} ({share:.0%})" for seconds, share in cells))
    out.print(table)
    table = Table("", *heads, title="training SAC, end to end")
    for name in results[0]["around"]:
        for part in results[0]["around"][name]:
            table.add_row(f"{name}: {part}", *(f"{result['around'][name][part]:.3g}" for result in results))
        ratios = [result["evaluation"][name] for result in results]
        table.add_row(f"{name}: evaluation / bare stepping", *(f"{ratio:.2f}" for ratio in ratios))
    out.print(table)


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        runtime.start()
        print(json.dumps(measure()))
    else:
        counts = sorted({1, len(os.sched_getaffinity(0))})
        command = [sys.executable, "-m", "benchmarks.speed", "worker"]
        outputs = [subprocess.check_output(command, env=os.environ | {runtime.THREADS: str(n)}) for n in counts]
        show([json.loads(output) for output in outputs])
