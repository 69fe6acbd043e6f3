"""Translate Gymnasium's spaces into a `Spec`, or explain why smrl cannot train with them."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from smrl.errors import short_repr
from smrl.plugins import in_words
from smrl.types import ArraySpec, Continuous, Discrete, Entry, Spec

NEEDED = "smrl needs a bounded Box of floats or a Discrete action space"
MANY = 1_000  # numbers of an observation with several axes from which on it is probably an image


def spec(observations: Any, actions: Any, stack: int = 1) -> Spec:
    """Return the spec of two supported spaces; image observations are stacks of ``stack`` frames."""
    image = is_image(observations)
    obs = ArraySpec(observations.shape, "uint8", stack) if image else ArraySpec((math.prod(observations.shape),))
    if isinstance(actions, spaces.Discrete):
        return Spec(obs, Discrete(int(actions.n), int(actions.start)))
    low, high = (tuple(bound.reshape(-1).tolist()) for bound in (actions.low, actions.high))
    return Spec(obs, Continuous(len(low), low, high, actions.shape, str(actions.dtype)))


def entries(space: Any) -> tuple[Entry, ...]:
    """Return the Boxes of an observation space in the order in which Gymnasium flattens them."""
    return tuple(Entry(path, box.shape) for path, box in _leaves(space))


def is_image(space: Any) -> bool:
    """Return whether observations are bytes with three axes; all others become float32 vectors."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3


def is_nested(space: Any) -> bool:
    """Return whether observations have several entries, to be flattened into one vector."""
    return isinstance(space, spaces.Dict | spaces.Tuple)


def doubts(space: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield what is probably wrong with the images of an observation space, and what to do."""
    for _, box in _leaves(space):
        size = math.prod(box.shape)
        if is_image(box) and box.shape[0] < min(box.shape[1:]):
            what = f"the images of {name} have the shape {box.shape}, as if the channels came first"
            advice = "np.moveaxis(image, 0, -1) in a gymnasium.wrappers.TransformObservation"
            yield what, f"smrl takes them for (height, width, channels): move the channels to the end by {advice}."
        elif not is_image(box) and len(box.shape) > 1 and size >= MANY:
            what = f"observations of {name}, {box.shape} of {box.dtype}, become vectors of {size:,} numbers"
            advice = "a stack of them is made by smrl.envs.wrappers.FrameStack"
            yield what, f"Only uint8 with the axes (height, width, channels) is seen as an image; {advice}."


def unsupported(env: Any, name: str) -> str | None:
    """Return an error message if smrl cannot train with the spaces of an environment."""
    try:
        observations, actions = getattr(env, "observation_space", None), getattr(env, "action_space", None)
        return _unsupported_actions(actions, name) or _unsupported_observations(observations, name)
    except Exception as error:  # a space may be a property, which can raise anything
        return f"{name} failed to return its spaces, with {in_words(error)}"


def _unsupported_actions(space: Any, name: str) -> str | None:
    if isinstance(space, spaces.Discrete):
        return None if space.n > 1 else f"{name} has only one action, {short_repr(space)}: there is nothing to choose"
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f" or 0 in space.shape:
        return f"{NEEDED}, {name} has {short_repr(space)}: wrap it in a gymnasium.ActionWrapper that has one"
    with np.errstate(all="ignore"):
        widths = space.high - space.low  # infinite or NaN also for the largest numbers, which stand for no bound
    if not (np.isfinite(widths) & (widths > 0)).all():
        return f"{NEEDED}, {name} has {short_repr(space)}: give its action_space finite bounds with low < high"
    return None


def _unsupported_observations(space: Any, name: str) -> str | None:
    if space is None:
        return f"{name} has no observation_space: set it to a gymnasium.spaces.Box in its constructor"
    for _, leaf in _leaves(space):
        if not isinstance(leaf, spaces.Box):
            nested = f"{type(space).__name__} observations with {short_repr(leaf)}"
            has = short_repr(space) if leaf is space else nested
            flattens = getattr(space, "is_np_flattenable", False)  # Gymnasium cannot flatten sequences and graphs
            advice = "wrap it in gymnasium.wrappers.FlattenObservation" if flattens else "observe a Box of numbers"
            return f"smrl observes a Box, or a Dict or Tuple of them, {name} has {has}: {advice}"
    for path, leaf in _leaves(space):
        if path and is_image(leaf):
            what = f"{name} observes a {type(space).__name__} with the image {'.'.join(path)} {leaf.shape}"
            advice = "observe only the image, or only the others, by gymnasium.wrappers.TransformObservation"
            vector = f"or one vector of all {spaces.flatdim(space):,} numbers by FlattenObservation"
            return f"{what}, and smrl one image or a vector: {advice}, {vector}"
    if spaces.flatdim(space) == 0:
        return f"{name} has empty observations, {short_repr(space)}: there is nothing to observe"
    return None


def _leaves(space: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the spaces in nested Dicts and Tuples, each with its keys and indices."""
    if not is_nested(space):
        yield path, space
        return
    for key, entry in space.items() if isinstance(space, spaces.Dict) else enumerate(space):
        yield from _leaves(entry, (*path, str(key)))
