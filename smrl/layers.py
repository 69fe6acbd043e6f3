"""Layers of a greedy policy, as data: an algorithm describes its policy by them, and `smrl export` writes them.

An observation goes through the layers in order; arrays are NumPy's. `smrl/deploy/policy.py` computes every layer in a
few lines and is their definition. A description by `describe` is what exported files hold.
"""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Function = Literal["relu", "leaky-relu", "elu", "gelu", "silu", "tanh"]


@dataclass(frozen=True)
class Flatten:
    """Join the last axes to one."""

    axes: int = 3


@dataclass(frozen=True)
class Pad:
    """Append zeros to a vector."""

    zeros: int


@dataclass(frozen=True)
class Normalise:
    """clip((x − mean) · scale, ±limit), the normalisation of observations by running statistics."""

    mean: np.ndarray
    scale: np.ndarray
    limit: float


@dataclass(frozen=True)
class Image:
    """x / 255 − centre, for bytes."""

    centre: float = 0.0


@dataclass(frozen=True)
class Dense:
    """x W + b, with W of shape (inputs, outputs)."""

    weights: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True)
class Convolution:
    """Convolve images (height, width, channels) without padding, with weights (side, side, channels, filters)."""

    weights: np.ndarray
    bias: np.ndarray
    stride: int


@dataclass(frozen=True)
class Activation:
    """Apply a function to every number."""

    function: Function


@dataclass(frozen=True)
class LayerNorm:
    """(x − mean) / sqrt(variance + epsilon) · scale + bias, with the mean and the variance over the last axis."""

    scale: np.ndarray
    bias: np.ndarray
    epsilon: float


@dataclass(frozen=True)
class Residual:
    """x + Σ branch(x), where the layers of every branch keep the size of x."""

    branches: tuple[Sequence["Layer"], ...]


@dataclass(frozen=True)
class BestActor:
    """Return the action of the actor that critics of (x, action) value most, or of the first one of these.

    The value is the largest of all critics, or with ``own_critic`` that of the critic in the actor's place.
    """

    actors: tuple[Sequence["Layer"], ...]
    critics: tuple[Sequence["Layer"], ...]
    own_critic: bool


@dataclass(frozen=True)
class Argmax:
    """Return the index of the largest number, counted from ``start``; of the first one where several are."""

    start: int = 0


@dataclass(frozen=True)
class Rescale:
    """clip(x · reach + centre, low, high), which maps [−1, 1] to the bounds of actions."""

    reach: np.ndarray
    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray


Layer = (
    Flatten
    | Pad
    | Normalise
    | Image
    | Dense
    | Convolution
    | Activation
    | LayerNorm
    | Residual
    | BestActor
    | Argmax
    | Rescale
)


def describe(layers: Sequence[Layer], place: str = "") -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return layers as JSON, in which arrays are named by their place, and the arrays by these names.

    >>> description, arrays = describe([Dense(np.zeros((2, 1)), np.zeros(1)), Activation("tanh")])
    >>> description
    [{'layer': 'dense', 'weights': '0.weights', 'bias': '0.bias'}, {'layer': 'activation', 'function': 'tanh'}]
    >>> list(arrays)
    ['0.weights', '0.bias']
    """
    description: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    for index, layer in enumerate(layers):
        entry: dict[str, Any] = {"layer": _name(layer)}
        for field in dataclasses.fields(layer):
            value, name = getattr(layer, field.name), f"{place}{index}.{field.name}"
            if isinstance(value, np.ndarray):
                arrays[name] = np.ascontiguousarray(value)
                value = name
            elif isinstance(value, tuple):
                parts = [describe(part, f"{name}.{number}.") for number, part in enumerate(value)]
                arrays |= {key: array for _, found in parts for key, array in found.items()}
                value = [part for part, _ in parts]
            entry[field.name] = value
        description.append(entry)
    return description, arrays


def _name(layer: Layer) -> str:
    """Return the name of a kind of layer, such as ``best_actor``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(layer).__name__).lower()
