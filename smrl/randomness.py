"""Every random number as a pure function of (seed, purpose, step): there is no generator state to save."""

from enum import IntEnum

import jax
import numpy as np

from smrl.types import Array, Key


class Purpose(IntEnum):
    """What randomness is for; the streams of two purposes never meet."""

    INITIALISE = 0
    WARM_UP = 1
    EXPLORE = 2
    REPLAY = 3
    LEARN = 4
    EPISODE = 5
    EVALUATE = 6
    BIAS = 7


def generator(seed: int, purpose: Purpose, step: int) -> np.random.Generator:
    """A fresh counter-based generator; its counter starts at the step, 2¹⁹² numbers from the next one's."""
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, 0, step]))


def environment_seed(seed: int, purpose: Purpose, episode: int) -> int:
    """The seed to reset an environment with."""
    return int(generator(seed, purpose, episode).integers(2**31))


def key(seed: int, purpose: Purpose) -> Key:
    """The root of the device's random numbers for a purpose; fold the step into it."""
    return jax.random.fold_in(jax.random.key(seed), purpose)


def at(root: Key, step: Array | int) -> Key:
    """The key of a step."""
    return jax.random.fold_in(root, step)
