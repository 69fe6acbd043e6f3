"""One hundred updates from images at the paper's sizes: `python -m benchmarks.full_size`.

Batches are drawn from a replay memory of frames, as in a run, so that the share of sampling is seen too.
"""

import os
import time
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from smrl.algorithms import registry
from smrl.memory.replay import Replay
from smrl.runs import runtime
from smrl.smr.loop import learner, start
from smrl.smr.rules import rule_of
from smrl.studies.presets import resolve
from smrl.types import ArraySpec, Continuous, Discrete, Spec

UPDATES = 100
FRAMES = 2_000  # stored
TASKS = {
    "dqn": ("PongNoFrameskip-v4", Spec(ArraySpec((84, 84, 4), "uint8", 4), Discrete(6))),
    "sac_pixels": ("dmc-pixels/cheetah-run", Spec(ArraySpec((84, 84, 9), "uint8", 3), Continuous(6))),
    "drqv2": ("dmc-pixels/cheetah-run", Spec(ArraySpec((84, 84, 9), "uint8", 3), Continuous(6))),
}


def filled(spec: Spec, settings: Any) -> Replay:
    """A replay memory of random frames in episodes of 250 steps."""
    memory = Replay(FRAMES, spec, gamma=settings.gamma, n_step=settings.n_step, windows=settings.windows)
    draw, channels = np.random.default_rng(0), spec.obs.shape[-1] // spec.obs.stack
    obs = spec.obs.zeros()
    for step in range(FRAMES):
        frame = draw.integers(0, 256, (*spec.obs.shape[:-1], channels), np.uint8)
        following = np.concatenate([obs[..., channels:], frame], axis=-1)
        is_last = step % 250 == 249
        memory.add(obs, spec.action.random(draw, 1)[0], 1.0, following, False, is_last)
        obs = spec.obs.zeros() if is_last else following
    return memory


def measure(name: str) -> tuple[float, float]:
    """Seconds of an update, and of drawing a batch."""
    env, spec = TASKS[name]
    settings = resolve(name, env)
    times, rule = int(settings.reuse), rule_of(settings.reuse)
    algorithm, key = registry.find(name).make(settings.hyper, spec), jax.random.key(0)
    memory, learn = filled(spec, settings), learner(algorithm, rule, action_repeat=settings.action_repeat)
    learned, drawing, computing = jax.jit(lambda: start(algorithm, rule, key))(), 0.0, 0.0
    for step in range(1 + UPDATES // times):  # the first one compiles and is not counted
        began = time.perf_counter()
        batches = memory.sample(np.random.default_rng(step), 1, settings.batch_size)
        drawn = time.perf_counter()
        learned, _ = learn(learned, batches, step + 1, step + 1, key)
        jax.block_until_ready(learned)
        if step:
            drawing, computing = drawing + drawn - began, computing + time.perf_counter() - drawn
    return computing / UPDATES, drawing * times / UPDATES


def main() -> None:
    runtime.start(int(os.environ.get(runtime.THREADS, "1")))
    table = Table("algorithm", "batch", "M", "ms per update", "ms per batch drawn", "drawing, share of its updates")
    for name, (env, _) in TASKS.items():
        settings, (update, draw) = resolve(name, env), measure(name)
        share = draw / (int(settings.reuse) * update)
        cells = (name, settings.batch_size, settings.reuse, f"{1e3 * update:.0f}", f"{1e3 * draw:.1f}", f"{share:.1%}")
        table.add_row(*map(str, cells))
    Console().print(table)


if __name__ == "__main__":
    main()
