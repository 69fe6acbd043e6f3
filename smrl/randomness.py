"""Random numbers as pure functions of (seed, purpose, step): there is no generator state to save."""

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
    HOLD_OUT = 8


class Stream:
    """A counter-based (Philox) generator that is moved from step to step, which is ten times faster than making one.

    The numbers of two steps are 2¹⁹² blocks apart.
    """

    def __init__(self, seed: int, purpose: Purpose) -> None:
        philox = np.random.Philox(key=[seed, purpose])
        self._generator = np.random.Generator(philox)
        self._fresh = philox.state  # of a generator that has drawn nothing

    def at(self, step: int) -> np.random.Generator:
        """Return the generator at the start of a step; the next call moves it."""
        self._fresh["state"]["counter"][3] = step
        self._generator.bit_generator.state = self._fresh
        return self._generator


def environment_seed(seed: int, purpose: Purpose, episode: int) -> int:
    """Return the seed to reset an environment with for an episode."""
    return int(Stream(seed, purpose).at(episode).integers(2**31))


def key(seed: int, purpose: Purpose) -> Key:
    """Return the JAX key of a seed and purpose; `at` derives the key of a step from it."""
    return jax.random.fold_in(jax.random.key(seed), purpose)


def at(root: Key, step: Array | int) -> Key:
    """Fold a step into a key."""
    return jax.random.fold_in(root, step)
