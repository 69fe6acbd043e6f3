"""What smrl makes of Gymnasium's spaces: a `Spec`, or the sentence that says why there is none."""

import math
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from smrl.types import ArraySpec, Continuous, Discrete, Spec

ACTIONS = "smrl needs a bounded Box of floats or a Discrete action space"


def spec(observations: Any, actions: Any, stack: int = 1) -> Spec:
    """The spec of a Box of observations and a space of actions, for both of which there is no `unfit` sentence.

    Images are stacks of so many frames.
    """
    return Spec(_observation(observations, stack), _action(actions))


def _observation(space: spaces.Box, stack: int) -> ArraySpec:
    return ArraySpec(space.shape, "uint8", stack) if is_image(space) else ArraySpec((math.prod(space.shape),))


def _action(space: spaces.Box | spaces.Discrete[Any]) -> Continuous | Discrete:
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n), int(space.start))
    low, high = (tuple(bound.reshape(-1).tolist()) for bound in (space.low, space.high))
    return Continuous(len(low), low, high, space.shape, str(space.dtype))


def is_image(space: Any) -> bool:
    """Whether observations are bytes with three axes; all others become vectors of float32."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3


def is_nested(space: Any) -> bool:
    """Whether observations have entries that must be flattened into one vector."""
    return isinstance(space, spaces.Dict | spaces.Tuple)


def shown(value: object) -> str:
    """A value as one short line for a message."""
    return textwrap.shorten(repr(value), 80, placeholder=" …")


def unfit(observations: Any, actions: Any, name: str) -> str | None:
    """Why smrl cannot train with these spaces, in one sentence."""
    return _unfit_actions(actions, name) or _unfit_observations(observations, name)


def _unfit_actions(space: Any, name: str) -> str | None:
    if isinstance(space, spaces.Discrete):
        return None if space.n > 1 else f"{name} has only one action, {shown(space)}: there is nothing to choose"
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f" or 0 in space.shape:
        return f"{ACTIONS}, {name} has {shown(space)}: wrap it in a gymnasium.ActionWrapper that has one"
    with np.errstate(all="ignore"):
        widths = space.high - space.low  # infinite or NaN also for the largest numbers, meant as no bound
    if not (np.isfinite(widths) & (widths > 0)).all():
        return f"{ACTIONS}, {name} has {shown(space)}: give its action_space finite bounds with low < high"
    return None


def _unfit_observations(space: Any, name: str) -> str | None:
    if space is None:
        return f"{name} has no observation_space: set it to a gymnasium.spaces.Box in its constructor"
    for leaf in _leaves(space):
        if not isinstance(leaf, spaces.Box):
            where = f"{type(space).__name__} observations with {shown(leaf)}" if leaf is not space else shown(space)
            fits = getattr(space, "is_np_flattenable", False)  # Gymnasium cannot flatten sequences and graphs
            advice = "wrap it in gymnasium.wrappers.FlattenObservation" if fits else "observe a Box of numbers"
            return f"smrl observes a Box, or a Dict or Tuple of them, {name} has {where}: {advice}"
    if sum(math.prod(leaf.shape) for leaf in _leaves(space)) == 0:
        return f"{name} has observations without a number in them, {shown(space)}: there is nothing to observe"
    return None


def _leaves(space: Any) -> Iterator[Any]:
    if not is_nested(space):
        yield space
        return
    for entry in space.values() if isinstance(space, spaces.Dict) else space:
        yield from _leaves(entry)
