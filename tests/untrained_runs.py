"""Runs with untrained networks and a few rows of replay memory, made without training."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from written_runs import FACTS, make_config

import smrl
from smrl.algorithms import registry
from smrl.envs.make import make
from smrl.memory.replay import Replay
from smrl.presets import resolve
from smrl.runs import checkpoint
from smrl.runs.checkpoint import Saved
from smrl.runs.paths import CONFIG
from smrl.training.agent import to_arrays
from smrl.training.normaliser import statistics_of
from smrl.types import Algorithm, Spec

ROWS = 30  # of the replay memory
SMALL: dict[str, Any] = {"actor_hidden": (16, 12), "critic_hidden": (16, 12)}
IMAGES: dict[str, Any] = {"filters": (4, 6), "kernels": (3, 3), "strides": (2, 1)}


def write_untrained(
    path: Path, algorithm: str, env: str, spec: Spec | None = None, factor: float = 1.0, **settings: Any
) -> smrl.Run:
    """Write a run of step 7 with weights multiplied by a factor; by default its spec is that of the environment.

    The best policy, of step 3, has half the weights of the newest.
    """
    resolved = resolve(algorithm, env, **settings)
    spec = spec or make(env, **resolved.env_options).spec
    made = registry.find(algorithm).make(resolved.hyper, spec)
    state = random_state(made, factor)
    best = jax.tree.map(lambda leaf: leaf / 2, made.policy_params(state))
    arrays = to_arrays({"algorithm": state}) | to_arrays({"best": best})
    statistics = statistics_of(resolved, spec)
    if statistics is not None:  # those of a few observations that are far from standardised
        for obs in 5 * observations(spec, np.random.default_rng(3), 20) + 4:
            statistics.update(obs[None], np.ones(1), np.zeros(1, bool))
        arrays |= statistics.arrays() | (statistics.normaliser.arrays() if statistics.normaliser else {})
    replay = Replay(10_000, spec, gamma=0.9)
    draw = np.random.default_rng(5)
    for row in range(ROWS):
        obs = observations(spec, draw, 2)
        replay.add(obs[0], spec.action.random(draw, 1)[0], 0.0, obs[1], False, row % 10 == 9)
    path.mkdir(parents=True)
    (path / CONFIG).write_text(json.dumps(make_config(resolved.to_json(), spec=spec.to_json())))
    checkpoint.save(path / "checkpoint", Saved(7, arrays, FACTS | {"best": {"mean": 1.0, "step": 3}}), replay)
    return smrl.load(path)


def random_state(algorithm: Algorithm[Any], factor: float = 1.0) -> Any:
    """Return a state of random weights, multiplied by a factor, for which nothing is compiled."""
    draw = np.random.default_rng(1)

    def leaf(path: Any, like: Any) -> np.ndarray:
        inputs = 200 if "bias" in str(path) else max(1, np.prod(like.shape[:-1]))
        if like.dtype.kind != "f":
            return np.zeros(like.shape, like.dtype)
        values = factor * draw.standard_normal(like.shape) * (2 / inputs) ** 0.5
        return np.asarray(0.5 + abs(values) if "'var'" in str(path) else values, like.dtype)  # variances are positive

    return jax.tree_util.tree_map_with_path(leaf, jax.eval_shape(algorithm.init, jax.random.key(0)))


def observations(spec: Spec, draw: np.random.Generator, count: int) -> np.ndarray:
    """Draw observations as the replay memory stores them."""
    shape = (count, *spec.obs.shape)
    if spec.obs.dtype == "uint8":
        return draw.integers(0, 256, shape, np.uint8)
    return draw.standard_normal(shape, np.float32)
