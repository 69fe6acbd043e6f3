"""Every random number as a pure function of (seed, purpose, step): there is no generator state to save."""

from enum import IntEnum

import jax
import numpy as np

from smrl.types import Array, Key


class Purpose(IntEnum):
    """What random numbers are used for; each purpose has an independent stream."""

    INITIALISE = 0
    WARM_UP = 1
    EXPLORE = 2
    REPLAY = 3
    LEARN = 4
    EPISODE = 5
    EVALUATE = 6
    BIAS = 7


def generator(seed: int, purpose: Purpose, step: int) -> np.random.Generator:
    """A counter-based (Philox) generator for one step; the streams of two steps are 2¹⁹² blocks apart."""
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, 0, step]))


def environment_seed(seed: int, purpose: Purpose, episode: int) -> int:
    """Seed to reset an environment with, for one episode."""
    return int(generator(seed, purpose, episode).integers(2**31))


def key(seed: int, purpose: Purpose) -> Key:
    """JAX key of a seed and purpose; `at` derives the key of a step from it."""
    return jax.random.fold_in(jax.random.key(seed), purpose)


def at(root: Key, step: Array | int) -> Key:
    """Fold a step into a key."""
    return jax.random.fold_in(root, step)
