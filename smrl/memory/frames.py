"""Storage of observations: unchanged, or each frame of a stack once, with stacks rebuilt when they are sampled.

A frame is stored as planes, (channels, pixels), although a stack has its channels last: copying a plane into a stack is
several times faster than copying the few channels of one pixel after another.
"""

import math
import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smrl.errors import SmrlError
from smrl.types import ArraySpec

BLOCK = 16  # stacks that are built at a time, few enough to fit into the processor's cache


@dataclass(frozen=True)
class PlainFrames:
    """Observations that are stored unchanged."""

    obs: ArraySpec

    @property
    def stored(self) -> ArraySpec:
        """Return the spec of what is stored per observation."""
        return self.obs

    def newest(self, obs: np.ndarray) -> np.ndarray:
        """Return the part of an observation that is stored, as a view."""
        return obs

    def build(self, stored: np.ndarray, slots: Sequence[np.ndarray]) -> np.ndarray:
        """Gather a batch of observations from their slots."""
        (slot,) = slots
        return stored.take(slot, axis=0)

    def replace(self, observations: np.ndarray, index: int, frame: np.ndarray) -> None:
        """Overwrite the newest frame of one observation of a batch."""
        observations[index] = frame


@dataclass(frozen=True)
class StackedFrames:
    """Observations that are stacks of frames, of which only the newest is stored."""

    obs: ArraySpec

    @property
    def stored(self) -> ArraySpec:
        """Return the spec of what is stored per observation: the planes of its newest frame."""
        *space, channels = self.obs.shape
        return ArraySpec((channels // self.obs.stack, math.prod(space)), self.obs.dtype)

    def newest(self, obs: np.ndarray) -> np.ndarray:
        """Return the planes of an observation's newest frame, as a view."""
        channels, pixels = self.stored.shape
        return obs.reshape(pixels, -1)[:, -channels:].T

    def build(self, stored: np.ndarray, slots: Sequence[np.ndarray]) -> np.ndarray:
        """Build a batch of observations from the slots of their frames, given from the oldest to the newest."""
        by_observation, channels = np.stack(slots, axis=1), self.obs.shape[-1]
        observations = np.empty((len(by_observation), self.stored.shape[-1], channels), self.obs.dtype)
        for start in range(0, len(by_observation), BLOCK):
            block = observations[start : start + BLOCK]
            planes = stored.take(by_observation[start : start + BLOCK], axis=0).reshape(len(block), channels, -1)
            for plane in range(channels):
                block[:, :, plane] = planes[:, plane]
        return observations.reshape(-1, *self.obs.shape)

    def replace(self, observations: np.ndarray, index: int, frame: np.ndarray) -> None:
        channels, _ = frame.shape
        observations[index].reshape(-1, self.obs.shape[-1])[:, -channels:] = frame.T


def allocate(spec: ArraySpec, count: int, folder: Path | None) -> np.ndarray:
    """Return zeros for ``count`` observations, in memory or in an unnamed file in a folder.

    The operating system keeps as much of the file in memory as fits. The file disappears when the process ends, even
    if it is killed.
    """
    if folder is None:
        return spec.zeros(count)
    size = count * spec.zeros().nbytes
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                # Without it, writing to a page that no longer fits on the disk would kill the process.
                os.posix_fallocate(file.fileno(), 0, size)
            else:  # macOS, Windows
                file.truncate(size)
            mapped = mmap.mmap(file.fileno(), size)
    except OSError as error:
        raise SmrlError(
            f"the replay memory needs {size / 1e9:,.1f} GB of disk in {folder}, which are not available "
            f"({error.strerror}): make room, or lower --capacity."
        ) from error
    return np.frombuffer(mapped, spec.dtype).reshape(count, *spec.shape)
