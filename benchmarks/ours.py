"""smrl's side of the benchmarks: the cases, a call that learns, and its floating-point operations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from smrl.algorithms import registry
from smrl.kernels import convolution, library
from smrl.smr.loop import initial_state, learner
from smrl.smr.rules import rule_of
from smrl.types import ArraySpec, Continuous, Discrete, Spec, Transition, UpdateContext

VECTORS = Spec(ArraySpec((17,)), Continuous(6))  # HalfCheetah and Walker2d
IMAGES = Spec(ArraySpec((84, 84, 9), "uint8", 3), Continuous(6))
SIDE = 2048  # of the matrices whose multiplication is the peak


@dataclass(frozen=True)
class Case:
    """An algorithm with the sizes at which it is measured."""

    algorithm: str
    spec: Spec = VECTORS
    batch: int = 256
    changes: Mapping[str, Any] = field(default_factory=dict)  # of its hyperparameters
    fresh_batches: int = 1
    steps: int = 1  # learning steps of one call

    def make(self) -> Any:
        entry = registry.find(self.algorithm)
        return entry.make(entry.config(**self.changes), self.spec)

    def updates(self, reuse: int) -> int:
        """Return the number of updates per call."""
        return reuse * self.make().rounds * self.fresh_batches * self.steps


CASES = {
    "ddpg": Case("ddpg"),
    "td3": Case("td3", steps=2),  # one with the actor and one without
    "sac": Case("sac"),
    "darc": Case("darc"),
    "tqc": Case("tqc"),
    "tqc, 2 critics": Case("tqc", changes={"critics": 2}),  # SBX has no other number
    "redq": Case("redq", fresh_batches=20),
    "dqn": Case("dqn", Spec(ArraySpec((17,)), Discrete(6)), 32, {"hidden": (256, 256)}),  # SBX has two hidden layers
    # the peers' DQN has 64 filters in its last convolution
    "dqn from images": Case(
        "dqn", Spec(ArraySpec((84, 84, 4), "uint8", 4), Discrete(6)), 32, {"filters": (32, 64, 64)}
    ),
    "sac_pixels": Case("sac_pixels", IMAGES),
    "drqv2": Case("drqv2", IMAGES),
}


def random_batches(spec: Spec, rounds: int, batch: int) -> Any:
    draw = np.random.default_rng(0)

    def observations() -> Any:
        shape = (rounds, batch, *spec.obs.shape)
        is_image = spec.obs.dtype == "uint8"
        return draw.integers(0, 256, shape, np.uint8) if is_image else draw.standard_normal(shape, np.float32)

    action = spec.action.random(draw, rounds * batch).reshape(rounds, batch, *spec.action.array.shape)
    reward: Any = draw.standard_normal((rounds, batch), np.float32)
    discount: Any = np.full((rounds, batch), 0.99, np.float32)
    return Transition(observations(), action, reward, discount, observations())


def learning(case: Case, reuse: int) -> Callable[[], None]:
    """Return a call that makes the case's learning steps, each with M updates on every fresh batch."""
    algorithm, key, rule = case.make(), jax.random.key(0), rule_of(reuse)
    batches = random_batches(case.spec, algorithm.rounds * case.fresh_batches, case.batch)
    learn = jax.jit(learner(algorithm, rule, case.fresh_batches), donate_argnums=0)
    box = [jax.jit(lambda: initial_state(algorithm, rule, key))()]

    def call() -> None:
        for step in range(1, case.steps + 1):
            box[0], _ = learn(box[0], batches, step, step, key)
        jax.block_until_ready(box[0])

    return call


def flop(case: Case) -> float:
    """Return the mean floating-point operations of an update, as XLA counts them.

    Convolutions are counted in their plain form: the form that runs on CPUs multiplies by some zeros.
    """
    algorithm, key = case.make(), jax.random.key(0)
    rounds = algorithm.rounds * case.fresh_batches
    state = jax.eval_shape(algorithm.init, key)
    batch = jax.tree.map(lambda values: values[0], random_batches(case.spec, 1, case.batch))

    def count(step: int, index: int) -> float:
        # constants, so that XLA knows which branch is taken
        context = UpdateContext(jnp.asarray(step), jnp.asarray(index), rounds, key, jnp.asarray(1))
        update = jax.jit(lambda state, batch: algorithm.update(state, batch, context, key))
        with (
            mock.patch.object(convolution, "convolve_folded", convolution.convolve_by_xla),
            mock.patch.object(library, "supports", return_value=False),
        ):
            cost: Any = update.lower(state, batch).compile().cost_analysis()
        return float(cost["flops"])

    totals = [
        count(step, rounds - 1) + (count(step, 0) * (rounds - 1) if rounds > 1 else 0)  # REDQ's last round differs
        for step in range(1, case.steps + 1)
    ]
    return sum(totals) / (rounds * case.steps)


def multiplication() -> Callable[[], Any]:
    """Return a large float32 matrix multiplication by NumPy's OpenBLAS, the fastest known here: the peak."""
    matrix = np.full((SIDE, SIDE), 1 / SIDE, np.float32)
    return lambda: matrix @ matrix


def peak(seconds: float) -> float:
    """Return the FLOP/s of a multiplication that took this many seconds."""
    return 2 * SIDE**3 / seconds
