"""Encoders of images and updates with them, on one core: GFLOP/s, fraction of peak, and the speed over peers.

The target of DQN's updates is about the libraries; eager PyTorch is shown beside them. At batch 256 SBX is left out:
its convolutions take many times as long as those of the others.
"""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import ours
from benchmarks.harness import Call, Record, interleaved, median_of, ratio
from benchmarks.peers import LIBRARIES, peers
from smrl.nn.vision import ImageEncoder, side_after
from smrl.types import ArraySpec, Continuous, Spec

SECTION = "Images of 84 × 84, one core"
CORES = (1,)
REUSE = {32: 4, 256: 1}  # gradients or updates of a call, by size of the batch
Layers = tuple[tuple[int, int, int], ...]  # filters, kernel, stride
ENCODERS: dict[str, tuple[int, Layers]] = {  # channels of the images, convolutions
    "DrQ-v2": (9, ((32, 3, 2), (32, 3, 1), (32, 3, 1), (32, 3, 1))),
    "DQN": (4, ((32, 8, 4), (64, 4, 2), (32, 3, 1))),
    "SAC": (9, ((32, 7, 2), (32, 5, 2), (32, 3, 2), (32, 3, 2))),
}
ORDERS = {"PyTorch": False, "PyTorch, channels last": True}


def measure(quick: bool) -> list[Record]:
    records = []
    for batch in REUSE:
        for name in ENCODERS:
            records += encoder(name, batch)
        for name in ("dqn from images", "drqv2"):
            records += update(name, batch)
    return records


def encoder(name: str, batch: int) -> list[Record]:
    """Measure gradients of an encoder."""
    (channels, layers), reuse = ENCODERS[name], REUSE[batch]
    calls: dict[str, Call] = {"smrl": gradient(channels, layers, batch, reuse), "peak": ours.multiplication()}
    makers = {who: ("images", "encoder_gradient", channels, layers, batch, reuse, last) for who, last in ORDERS.items()}
    with peers(makers) as others:
        times = interleaved(calls | others, limit=15)
    peak = ours.peak(statistics.median(times.pop("peak")))
    title, work, records = f"{name}'s encoder, batch {batch}", flop(channels, layers, batch) * reuse, list[Record]()
    for who, values in times.items():
        speeds = [work / seconds for seconds in values]
        records.append(median_of(f"{title}: {who}", [speed / 1e9 for speed in speeds], "GFLOP/s"))
        records.append(median_of(f"{title}: {who}, fraction of peak", [speed / peak for speed in speeds], ""))
    return records + over_peers(title, times, ORDERS)


def update(name: str, batch: int) -> list[Record]:
    """Measure updates of an algorithm."""
    case, reuse = replace(ours.CASES[name], batch=batch), REUSE[batch]
    makers: dict[str, tuple[Any, ...]] = {
        who: ("images", case.algorithm, last, batch, reuse) for who, last in ORDERS.items()
    }
    if case.algorithm == "dqn":
        sizes: tuple[Any, ...] = ("dqn-images", case.spec, {}, 1, batch, reuse)
        makers["SB3"] = ("libraries", "training", "stable_baselines3", *sizes)
        if batch == 32:
            makers["SBX"] = ("libraries", "training", "sbx", *sizes)
    with peers(makers) as others:
        times = interleaved({"smrl": ours.learning(case, reuse), **others}, limit=20)
    title = f"update of {name}, batch {batch}"
    records = [median_of(f"{title}: {who}", [1e3 * value / reuse for value in times[who]], "ms") for who in times]
    return records + over_peers(title, times, LIBRARIES if case.algorithm == "dqn" else ORDERS)


def over_peers(title: str, times: dict[str, list[float]], judged: Iterable[str]) -> list[Record]:
    """Return smrl's speed over each peer, and over the fastest of the peers that the target names."""
    records = [ratio(times[who], times["smrl"], f"{title}: times as fast as {who}") for who in list(times)[1:]]
    if rivals := [who for who in judged if who in times]:
        fastest = min(rivals, key=lambda who: statistics.median(times[who]))
        records.append(
            ratio(times[fastest], times["smrl"], f"{title}: times as fast as the fastest peer, {fastest}", 1.2)
        )
    return records


def flop(channels: int, layers: Layers, batch: int) -> float:
    """Return the floating-point operations of an encoder's gradient, without that of the images."""
    total, side = 0.0, 84
    for index, (filters, kernel, stride) in enumerate(layers):
        side = side_after(side, (kernel,), (stride,))
        once = 2 * batch * side**2 * kernel**2 * channels * filters
        total += once * (3 if index else 2)
        channels = filters
    return total


def gradient(channels: int, layers: Layers, batch: int, reuse: int) -> Callable[[], Any]:
    """Return a compiled loop of gradient steps on the mean square of the features."""
    network = ImageEncoder(*zip(*layers, strict=True))
    spec = Spec(ArraySpec((84, 84, channels), "uint8"), Continuous(6))
    images = jnp.asarray(ours.random_batches(spec, 1, batch).obs[0])

    def loop(params: Any, images: Any) -> Any:
        def step(_: Any, params: Any) -> Any:
            slope = jax.grad(lambda params: (network.apply(params, images) ** 2).mean())(params)
            return jax.tree.map(lambda value, part: value - 1e-4 * part, params, slope)

        return jax.lax.fori_loop(0, reuse, step, params)

    compiled, box = jax.jit(loop), [network.init(jax.random.key(0), images[:1])]

    def call() -> None:
        box[0] = jax.block_until_ready(compiled(box[0], images))

    return call
