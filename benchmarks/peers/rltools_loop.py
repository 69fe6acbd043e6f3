"""RLtools' SAC and TD3 with the networks and batches of smrl's; every update comes with one step of an environment.

RLtools compiles its loop for these sizes, with MKL if the packages mkl and mkl-include are installed. Its layers
include the output layer, so that its three layers are our two hidden ones. It has no reuse: M updates are M steps.
"""

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.ours import VECTORS

SIZES = {
    f"{network}_{size}": value
    for network in ("ACTOR", "CRITIC")
    for size, value in (("HIDDEN_DIM", 256), ("NUM_LAYERS", 3))
}
LIMIT = 10_000_000  # steps, more than a benchmark takes


class Space:
    """What RLtools reads of a space."""

    def __init__(self, size: int) -> None:
        self.shape, self.low, self.high = (size,), -np.ones(size, np.float32), np.ones(size, np.float32)


class Still:
    """An environment that returns the next of some random observations, and nothing else."""

    spec = SimpleNamespace(max_episode_steps=1000)

    def __init__(self) -> None:
        self.observation_space = Space(VECTORS.obs.shape[0])
        self.action_space = Space(VECTORS.action.array.shape[0])
        self.observations = np.random.default_rng(0).standard_normal((1000, VECTORS.obs.shape[0]), np.float32)
        self.count = 0

    def reset(self, **_: Any) -> Any:
        return self.observations[0], {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self.observations[self.count % 1000], 1.0, False, False, {}


def training(name: str, batch_size: int, updates: int) -> Callable[[], None]:
    """Make a number of steps, each with an update of the critics; in TD3 every second one has one of the actor."""
    batch = dict.fromkeys(("ACTOR_BATCH_SIZE", "CRITIC_BATCH_SIZE"), batch_size)
    loop = {"STEP_LIMIT": LIMIT, "REPLAY_BUFFER_CAP": 10_000, "N_WARMUP_STEPS": batch_size}
    make: Any = getattr(importlib.import_module("rltools"), name.upper())
    module = make(Still, enable_evaluation=False, interface_name=f"smrl_{name}", **SIZES, **batch, **loop)
    state = module.State(0)
    for _ in range(batch_size + 10):  # before the replay memory has a batch, there are no updates
        state.step()

    def call() -> None:
        for _ in range(updates):
            state.step()

    return call
