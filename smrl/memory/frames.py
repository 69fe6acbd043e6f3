"""How observations are stored: as they are, or every frame of a stack once, from which stacks are built again.

A frame is stored by its planes, as (channels, pixels), though a stack has its channels last: to copy a plane into a
stack is several times as fast as to copy the few channels of one pixel after the other.
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

BLOCK = 16  # stacks that are built at a time, for they fit into the processor's cache


@dataclass(frozen=True)
class Plain:
    """Observations that are stored as they are."""

    obs: ArraySpec

    @property
    def stored(self) -> ArraySpec:
        """What is stored of one observation."""
        return self.obs

    def newest(self, obs: np.ndarray) -> np.ndarray:
        """What is stored of an observation, as a view."""
        return obs

    def joined(self, stored: np.ndarray, slots: Sequence[np.ndarray]) -> np.ndarray:
        """A batch of observations from their slots."""
        (slot,) = slots
        return stored.take(slot, axis=0)

    def replace(self, observations: np.ndarray, index: int, frame: np.ndarray) -> None:
        """Put a frame into the place of the newest one of an observation."""
        observations[index] = frame


@dataclass(frozen=True)
class Stacked:
    """Observations that are stacks of frames, of which the newest is stored."""

    obs: ArraySpec

    @property
    def stored(self) -> ArraySpec:
        """What is stored of one observation: the planes of its newest frame."""
        *space, channels = self.obs.shape
        return ArraySpec((channels // self.obs.stack, math.prod(space)), self.obs.dtype)

    def newest(self, obs: np.ndarray) -> np.ndarray:
        """The planes of an observation's newest frame, as a view."""
        channels, pixels = self.stored.shape
        return obs.reshape(pixels, -1)[:, -channels:].T

    def joined(self, stored: np.ndarray, slots: Sequence[np.ndarray]) -> np.ndarray:
        """A batch of observations from the slots of their frames, the oldest first."""
        of_each, channels = np.stack(slots, axis=1), self.obs.shape[-1]
        observations = np.empty((len(of_each), self.stored.shape[-1], channels), self.obs.dtype)
        for start in range(0, len(of_each), BLOCK):
            block = observations[start : start + BLOCK]
            planes = stored.take(of_each[start : start + BLOCK], axis=0).reshape(len(block), channels, -1)
            for plane in range(channels):
                block[:, :, plane] = planes[:, plane]
        return observations.reshape(-1, *self.obs.shape)

    def replace(self, observations: np.ndarray, index: int, frame: np.ndarray) -> None:
        """Put a frame into the place of the newest one of an observation."""
        channels, _ = frame.shape
        observations[index].reshape(-1, self.obs.shape[-1])[:, -channels:] = frame.T


def allocate(spec: ArraySpec, count: int, folder: Path | None) -> np.ndarray:
    """Zeros for ``count`` observations: in memory, or in a file without a name in a folder.

    Of the file the system keeps in memory what there is room for. It is gone when the process ends, however it ends.
    """
    if folder is None:
        return spec.zeros(count)
    size = count * spec.zeros().nbytes
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                # Where the disk has no room for a page of the file, writing to it would kill the process.
                os.posix_fallocate(file.fileno(), 0, size)
            else:  # macOS, Windows
                file.truncate(size)
            room = mmap.mmap(file.fileno(), size)
    except OSError as error:
        need = f"the replay memory needs {size / 1e9:,.1f} GB of disk in {folder}"
        raise SmrlError(f"{need}, which cannot be had ({error.strerror}): make room, or lower --capacity.") from error
    return np.frombuffer(room, spec.dtype).reshape(count, *spec.shape)
