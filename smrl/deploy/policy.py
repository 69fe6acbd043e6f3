"""The greedy policy of a trained run in NumPy alone: ``action = Policy.load(folder)(observation)``.

``smrl export RUN --to numpy`` writes this file beside policy.npz, which holds the layers and their weights.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

FUNCTIONS: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky-relu": lambda x: np.maximum(x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x))),
    "silu": lambda x: 0.5 * x * (1 + np.tanh(0.5 * x)),  # x / (1 + exp(−x)) without overflow
    "tanh": np.tanh,
}


def normalise(x: Any, mean: Any, scale: Any, limit: float) -> Any:
    """Normalise observations by the statistics of the training."""
    with np.errstate(over="ignore"):  # what overflows is clipped
        return np.clip((x - mean) * scale, -limit, limit)


def convolution(x: Any, weights: Any, bias: Any, stride: int) -> Any:
    """Convolve images (…, height, width, channels) without padding."""
    side, _, channels, filters = weights.shape
    *leading, height, width, _ = x.shape
    rows, columns, run = (height - side) // stride + 1, (width - side) // stride + 1, side * channels
    # A row of a window is contiguous, so that windows are copied and multiplied row by row.
    windows = sliding_window_view(x.reshape(*leading, height, -1), run, axis=-1)[..., :: stride * channels, :]
    y = np.zeros((*leading, rows, columns, filters), x.dtype)
    for k in range(side):
        part = windows[..., k : k + stride * (rows - 1) + 1 : stride, :, :]
        y += (part.reshape(-1, run) @ weights[k].reshape(run, filters)).reshape(y.shape)
    return y + bias


def layer_norm(x: Any, scale: Any, bias: Any, epsilon: float) -> Any:
    """Normalise over the last axis."""
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * scale + bias


def actor_values(x: Any, actors: Any, critics: Any, own_critic: bool) -> Any:
    """Return the value of every actor's action."""
    pairs = [np.concatenate([x, actor(x)], -1) for actor in actors]
    values = [[critic(pair)[..., 0] for critic in critics] for pair in pairs]
    return np.stack([some[k] if own_critic else np.maximum.reduce(some) for k, some in enumerate(values)], -1)


def best_actor(x: Any, actors: Any, **critics: Any) -> Any:
    """Return the action that the critics value most."""
    best = actor_values(x, actors, **critics).argmax(-1)
    return np.take_along_axis(np.stack([actor(x) for actor in actors], -2), best[..., None, None], -2)[..., 0, :]


LAYERS: dict[str, Any] = {
    "flatten": lambda x, axes: x.reshape(*x.shape[:-axes], -1),
    "pad": lambda x, zeros: np.concatenate([x, np.zeros((*x.shape[:-1], zeros), x.dtype)], -1),
    "normalise": normalise,
    "image": lambda x, centre: x.astype(np.float32) / 255 - centre,
    "dense": lambda x, weights, bias: x @ weights + bias,
    "convolution": convolution,
    "activation": lambda x, function: FUNCTIONS[function](x),
    "layer_norm": layer_norm,
    "residual": lambda x, branches: x + sum(branch(x) for branch in branches),
    "actor_values": actor_values,
    "best_actor": best_actor,
    "argmax": lambda x, start: x.argmax(-1) + start,
    "rescale": lambda x, reach, centre, low, high: np.minimum(np.maximum(x * reach + centre, low), high),
}


class Network:
    """Layers that are applied in turn."""

    def __init__(self, layers: list[dict[str, Any]], arrays: dict[str, Any]) -> None:
        def found(value: Any) -> Any:
            if isinstance(value, list):
                return [Network(part, arrays) for part in value]
            return arrays.get(value, value) if isinstance(value, str) else value

        options = [{name: found(value) for name, value in layer.items()} for layer in layers]
        self.steps = [partial(LAYERS[some.pop("layer")], **some) for some in options]

    def __call__(self, x: Any) -> Any:
        for step in self.steps:
            x = step(x)
        return x


class Policy:
    """A greedy policy: observations and actions are as the environment has them; see contract.json."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        facts = json.loads(str(arrays["policy"]))
        self.network = Network(facts["layers"], arrays)
        self.obs_shape, self.obs_dtype = tuple(facts["observation"]["shape"]), np.dtype(facts["observation"]["dtype"])
        self.action_shape, self.action_dtype = tuple(facts["action"]["shape"]), np.dtype(facts["action"]["dtype"])

    @classmethod
    def load(cls, folder: Any) -> "Policy":
        """Read policy.npz from a folder."""
        with np.load(Path(folder) / "policy.npz", allow_pickle=False) as arrays:
            return cls(dict(arrays))

    def __call__(self, obs: Any) -> Any:
        """Return the action for an observation, or the actions for several, which have one more leading axis."""
        x = np.asarray(obs)
        extra = x.ndim - len(self.obs_shape)
        if extra not in (0, 1) or x.shape[extra:] != self.obs_shape:
            raise ValueError(f"the policy takes observations of shape {self.obs_shape}, not {x.shape}")
        if self.obs_dtype == np.uint8 and x.dtype != np.uint8:
            raise ValueError(f"the policy takes images of uint8, not {x.dtype}")
        x = x.astype(self.obs_dtype, copy=False)
        if not np.isfinite(x).all():
            raise ValueError("the observation has values that are not finite")
        return self.network(x).astype(self.action_dtype, copy=False).reshape(x.shape[:extra] + self.action_shape)[()]
