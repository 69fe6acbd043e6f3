"""A policy as layers, from an observation as the environment returns it to an action as the environment takes it."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from smrl.errors import SmrlError, require
from smrl.layers import Argmax, Flatten, Layer, Pad, describe
from smrl.types import Continuous, Entry, Spec


@dataclass(frozen=True)
class Description:
    """The layers of a policy with the shapes and dtypes of its observations and actions."""

    layers: tuple[Layer, ...]
    spec: Spec
    settings: dict[str, Any]  # of the run, as JSON

    @cached_property
    def described(self) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
        """The layers as JSON and their arrays."""
        return describe(self.layers)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The parts of an observation in the order in which they are joined."""
        return self.spec.entries or (Entry((), self.spec.obs.shape),)

    @property
    def is_plain(self) -> bool:
        """Whether the environment returns one array; a Dict or Tuple of arrays is joined by the caller."""
        return self.entries[0].path == ()

    @property
    def is_image(self) -> bool:
        """Whether observations are images."""
        return self.spec.obs.dtype == "uint8"

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        size = sum(math.prod(entry.shape) for entry in self.entries)
        return (self.is_plain and self.entries[0].shape) or (size,)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of one action."""
        action = self.spec.action
        return (action.shape or (action.size,)) if isinstance(action, Continuous) else ()

    @property
    def action_dtype(self) -> str:
        """Dtype of an action."""
        return self.spec.action.dtype if isinstance(self.spec.action, Continuous) else "int64"

    @property
    def facts(self) -> dict[str, Any]:
        """The layers, shapes and dtypes as JSON."""
        return {
            "observation": {"shape": self.obs_shape, "dtype": self.spec.obs.dtype},
            "action": {"shape": self.action_shape, "dtype": self.action_dtype},
            "layers": self.described[0],
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the layers and their arrays."""
        digest = hashlib.sha256(repr(self.facts).encode())
        for name, array in self.described[1].items():
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
        return digest.hexdigest()

    def as_observed(self, obs: np.ndarray) -> Any:
        """Return a batch of observations with the entries that the environment has."""
        if self.is_plain:
            return obs.reshape(-1, *self.entries[0].shape)
        nested: dict[str, Any] = {}
        start = 0
        for entry in self.entries:
            size, place = math.prod(entry.shape), nested
            for key in entry.path[:-1]:
                place = place.setdefault(key, {})
            place[entry.path[-1]] = obs[:, start : start + size].reshape(-1, *entry.shape)
            start += size
        return nested


def describe_policy(network: Sequence[Layer], spec: Spec, algorithm: str, settings: dict[str, Any]) -> Description:
    """Add what lies between the environment and the network: joined axes, appended zeros and the units of actions."""
    require(
        all(isinstance(layer, Layer) for layer in network) and len(network) > 0,
        f"network of the algorithm {algorithm} must return layers of smrl.layers; see docs/extend.md.",
    )
    *body, last = network
    plain = Description((), spec, settings)
    before: list[Layer] = []
    if not plain.is_image:
        shape = plain.obs_shape
        before += [Flatten(len(shape))] * (len(shape) > 1)
        zeros = math.prod(spec.obs.shape) - math.prod(shape)
        before += [Pad(zeros)] * (zeros > 0)
    if isinstance(spec.action, Continuous):
        rescale = spec.action.rescale
        after: list[Layer] = [last] if rescale is None else [last, rescale]
    elif isinstance(last, Argmax):
        after = [replace(last, start=spec.action.start)]
    else:
        raise SmrlError(f"network of the algorithm {algorithm} must end with smrl.layers.Argmax for discrete actions.")
    description = replace(plain, layers=(*before, *body, *after))
    for name, array in description.described[1].items():
        require(
            array.dtype.kind == "f" and bool(np.isfinite(array).all()),
            f"the policy has weights that are not finite numbers ({name}): the training has diverged; export an "
            "earlier policy, such as that of --best.",
        )
    return description
