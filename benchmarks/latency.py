"""Microseconds that a policy takes for one observation, as a controller calls it: exported, and in JAX."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.harness import Record, interleaved, median_of
from benchmarks.ours import CASES
from smrl.deploy import c_header
from smrl.deploy.description import describe_policy
from smrl.deploy.export import TARGETS

SECTION = "Latency of exported policies: one observation of 17 numbers, or one image of 84 × 84 × 9"
CORES = (1,)
LIMITS = {("sac", "numpy"): 60.0, ("sac", "c"): 15.0}  # microseconds
REPEATS = 1_000  # calls of the compiled policy in one, because calling C from Python takes longer than the policy


def measure(quick: bool) -> list[Record]:
    return [record for name in ("sac", "darc", "drqv2") for record in latencies(name)]


def latencies(name: str) -> list[Record]:
    """Measure the policy of a case in JAX and in every target that computes."""
    case = CASES[name]
    algorithm, spec = case.make(), case.spec
    policy = algorithm.policy_params(jax.jit(algorithm.init)(jax.random.key(0)))
    description = describe_policy(algorithm.network(jax.device_get(policy)), spec, name, {})
    draw, shape = np.random.default_rng(0), (1, *spec.obs.shape)
    obs: Any = draw.standard_normal(shape, np.float32) if len(shape) == 2 else draw.integers(0, 256, shape, np.uint8)
    exploit = jax.jit(algorithm.exploit)
    calls: dict[str, Callable[[], Any]] = {"JAX": lambda: np.asarray(exploit(policy, obs))}
    with tempfile.TemporaryDirectory() as folder:
        for target in ("numpy", "onnx", *(() if description.is_image else ("c",))):
            TARGETS[target].write(Path(folder), description)
            act, _ = TARGETS[target].load(Path(folder), description)
            given = {"numpy": obs[0], "c": np.repeat(obs, REPEATS, axis=0)}
            calls[target] = call(act, given.get(target, obs))
    times = interleaved(calls, limit=10)
    repeats = {"c": REPEATS} if c_header.find_compiler() else {}
    return [
        median_of(
            f"{name}: {who}",
            [1e6 * seconds / repeats.get(who, 1) for seconds in values],
            "µs",
            LIMITS.get((name, who)),
            at_most=True,
        )
        for who, values in times.items()
    ]


def call(act: Callable[[np.ndarray], Any], obs: np.ndarray) -> Callable[[], Any]:
    return lambda: act(obs)
