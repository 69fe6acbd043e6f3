"""How fast a slow simulator is trained on in several worker processes.

The simulator sleeps for 30 ms, as one does that waits for a licence server, a renderer or a device, so that the number
of cores does not matter. What is timed is a round of the collector, in which every environment acts once.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from benchmarks.harness import Record, interleaved, median_of, ratio
from smrl.envs.make import make
from smrl.envs.workers import Env, Restarts, in_workers
from smrl.memory.replay import Replay
from smrl.settings import make_settings
from smrl.training.collector import Collector

SECTION = "Simulators of 30 ms per step, in worker processes"
CORES = (2,)
STEP_SECONDS = 0.03
COUNTS = (4, 8)
TARGET = 0.8  # of the number of workers


class Sleeping(gymnasium.Env[Any, Any]):
    """Sleeps in every step."""

    observation_space = Box(-1, 1, (17,), np.float32)
    action_space = Box(-1, 1, (6,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(17, np.float32), {}

    def step(self, action: Any) -> Any:
        time.sleep(STEP_SECONDS)
        return np.zeros(17, np.float32), 0.0, False, False, {}


def measure(quick: bool) -> list[Record]:
    made = partial(make, Sleeping)
    in_processes = in_workers(made, "Sleeping", Restarts(0, print), None)
    with contextlib.ExitStack() as stack:
        calls = {"1": _round([stack.enter_context(contextlib.closing(made()))])}
        for count in COUNTS:
            envs = [stack.enter_context(contextlib.closing(in_processes())) for _ in range(count)]
            calls[str(count)] = _round(envs)
        taken = interleaved(calls, limit=30)
    records = [median_of("steps per second of one environment", [1 / seconds for seconds in taken["1"]], "steps/s")]
    for count in COUNTS:
        theirs = [count * seconds for seconds in taken["1"]]  # as many steps, one after the other
        name = f"{count} workers: times as many steps per second as one environment"
        records.append(ratio(theirs, taken[str(count)], name, TARGET * count))
    return records


def _round(envs: Sequence[Env]) -> Callable[[], None]:
    """Return a function that collects one step of each environment."""
    settings = make_settings("sac", "Sleeping", envs=len(envs))
    collector = Collector(settings, envs, Replay(1_000, envs[0].spec, gamma=0.99, envs=len(envs)))
    collector.start()
    return partial(collector.collect, lambda obs, step: None, 0)  # uniformly random actions, as in the warm-up
