"""Encoders of images and updates with them, against other libraries: `python -m benchmarks.convolutions`.

Everything runs on one core in one process, in turns. Seconds are those that the process computed, so what else the
machine runs slows it down but is not counted. The rows of peers that are not installed say so.
"""

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import image_peers
from benchmarks.image_peers import ENCODERS, Layers
from smrl.algorithms import registry
from smrl.nn.encoders import Encoder, side_after
from smrl.runs import runtime
from smrl.smr.loop import learner, start
from smrl.smr.rules import rule_of
from smrl.types import ArraySpec, Continuous, Discrete, Spec, Transition

REUSE = 4
TURNS = {32: 5, 256: 2}  # by size of the batch
Timed = dict[str, list[float] | str]  # seconds of every turn, or why there are none
UPDATES: dict[str, tuple[Spec, dict[str, Any]]] = {
    # the peers' DQN has 64 filters in its last convolution
    "dqn": (Spec(ArraySpec((84, 84, 4), "uint8", 4), Discrete(6)), {"filters": (32, 64, 64)}),
    "drqv2": (Spec(ArraySpec((84, 84, 9), "uint8", 3), Continuous(6)), {}),
}


def in_turns(turns: int, calls: dict[str, Callable[[], Any] | str]) -> Timed:
    """Seconds of every call: A, B, …, A, B, …, after one turn that compiles and is not counted."""
    timed: Timed = {name: [] if callable(call) else call for name, call in calls.items()}
    for turn in range(turns + 1):
        for name, call in calls.items():
            seconds = timed[name]
            if callable(call) and isinstance(seconds, list):
                began = time.process_time()
                call()
                if turn > 0:
                    seconds.append(time.process_time() - began)
    return timed


def flop(channels: int, layers: Layers, batch: int) -> float:
    """Multiplications and additions of an encoder's gradient; nobody asks for the gradient of the images."""
    total, side = 0.0, image_peers.SIDE
    for index, (filters, kernel, stride) in enumerate(layers):
        side = side_after(side, (kernel,), (stride,))
        once = 2 * batch * side**2 * kernel**2 * channels * filters
        total += once * (3 if index else 2)
        channels = filters
    return total


def multiplication() -> Callable[[], Any]:
    """A large matrix multiplication: the peak."""
    matrix = jnp.ones((1024, 1024)) / 1024
    multiply = jax.jit(lambda a, b: a @ b)
    return lambda: jax.block_until_ready(multiply(matrix, matrix))


def encoder_gradient(channels: int, layers: Layers, batch: int) -> Callable[[], Any]:
    """REUSE gradients of the mean square of the features, each followed by a step, in a compiled loop."""
    encoder = Encoder(*zip(*layers, strict=True))
    images = jnp.asarray(image_peers.random_images(batch, channels))

    def loop(params: Any, images: Any) -> Any:
        def step(_: Any, params: Any) -> Any:
            slope = jax.grad(lambda params: (encoder.apply(params, images) ** 2).mean())(params)
            return jax.tree.map(lambda value, part: value - 1e-4 * part, params, slope)

        return jax.lax.fori_loop(0, REUSE, step, params)

    compiled, box = jax.jit(loop), [encoder.init(jax.random.key(0), images[:1])]

    def call() -> None:
        box[0] = jax.block_until_ready(compiled(box[0], images))

    return call


def updates(name: str, batch: int) -> Callable[[], Any]:
    """REUSE updates of smrl's algorithm on one batch."""
    spec, changes = UPDATES[name]
    entry, key, rule = registry.find(name), jax.random.key(0), rule_of(REUSE)
    algorithm = entry.make(entry.config(**changes), spec)
    learn, box = learner(algorithm, rule), [jax.jit(lambda: start(algorithm, rule, key))()]
    images = image_peers.random_images(2 * batch, spec.obs.shape[-1]).reshape(2, 1, batch, *spec.obs.shape)
    draw = np.random.default_rng(1)
    action: Any = draw.uniform(-1, 1, (1, batch, 6)).astype(np.float32)
    if isinstance(spec.action, Discrete):
        action = draw.integers(0, 6, (1, batch)).astype(np.int32)
    reward = draw.standard_normal((1, batch), np.float32)
    batches: Any = Transition(images[0], action, reward, np.full((1, batch), 0.99, np.float32), images[1])

    def call() -> None:
        box[0], _ = learn(box[0], batches, 1, 1, key)
        jax.block_until_ready(box[0])

    return call


def of_peer(make: Callable[..., Callable[[], Any]], *arguments: Any) -> Callable[[], Any] | str:
    """A peer's call, or a sentence if the peer is not installed."""
    try:
        return make(*arguments)
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed"


def cells(timed: Timed, name: str, flop: float) -> tuple[str, str, str]:
    """Milliseconds of one gradient or update, GFLOP/s where FLOP are known, and smrl's speed over this one's."""
    seconds, ours = timed[name], timed["smrl"]
    if isinstance(seconds, str) or isinstance(ours, str):
        return str(seconds), "", ""
    middle = statistics.median(seconds) / REUSE
    ratios = sorted(their / our for their, our in zip(seconds, ours, strict=True))
    ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} … {ratios[-1]:.2f})"
    return f"{middle * 1e3:.1f}", f"{flop / middle / 1e9:.1f}" if flop else "", "" if name == "smrl" else ratio


def encoders(batch: int) -> Table:
    table = Table("encoder", "by", "ms", "GFLOP/s", "of peak", "smrl is × as fast", title=f"gradients, batch {batch}")
    for encoder, (channels, layers) in ENCODERS.items():
        timed = in_turns(
            TURNS[batch],
            {
                "multiplication": multiplication(),
                "smrl": encoder_gradient(channels, layers, batch),
                "PyTorch": of_peer(image_peers.encoder_gradient, channels, layers, batch, REUSE, False),
                "PyTorch, channels last": of_peer(image_peers.encoder_gradient, channels, layers, batch, REUSE, True),
            },
        )
        best, work = timed.pop("multiplication"), flop(channels, layers, batch)
        assert isinstance(best, list)
        peak = 2 * 1024**3 / statistics.median(best)
        for name, seconds in timed.items():
            share = "" if isinstance(seconds, str) else f"{work * REUSE / statistics.median(seconds) / peak:.0%}"
            milliseconds, speed, ratio = cells(timed, name, work)
            table.add_row(encoder, name, milliseconds, speed, share, ratio)
    return table


def algorithms(batch: int) -> Table:
    table = Table("algorithm", "by", "ms", "smrl is × as fast", title=f"updates, batch {batch}")
    for algorithm, peers in image_peers.PEERS.items():
        calls: dict[str, Callable[[], Any] | str] = {"smrl": updates(algorithm, batch)}
        timed = in_turns(TURNS[batch], calls | {name: of_peer(make, batch, REUSE) for name, make in peers.items()})
        for name in timed:
            milliseconds, _, ratio = cells(timed, name, 0)
            table.add_row(algorithm, name, milliseconds, ratio)
    return table


if __name__ == "__main__":
    runtime.start(1)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    console = Console(width=110)
    for batch in TURNS:
        console.print(encoders(batch))
        console.print(algorithms(batch))
