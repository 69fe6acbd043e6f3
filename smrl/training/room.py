"""Whether a run fits into this machine's memory."""

import math
import os
from typing import Any

from smrl.errors import require
from smrl.runs.settings import Settings
from smrl.types import ArraySpec, Spec


def refuse_too_large(settings: Settings[Any], spec: Spec, rounds: int, memory: int | None = None) -> None:
    """Refuse a replay memory or batches that would take more than the memory of this machine."""
    memory = memory or _physical_memory()
    transition = 2 * _bytes(spec.obs) + _bytes(spec.action.array) + 8
    needs = {
        "capacity": settings.capacity * (transition - _bytes(spec.obs)),  # an observation is stored once
        "batch_size": settings.batch_size * rounds * transition,
    }
    for name, need in needs.items():
        require(
            memory is None or need <= memory,
            f"{name} {getattr(settings, name):,} would take {_in_words(need)}, but this machine has "
            f"{_in_words(memory or 0)} of memory; lower --{name.replace('_', '-')}.",
        )


def _bytes(array: ArraySpec) -> int:
    return math.prod(array.shape) * array.zeros().itemsize


def _physical_memory() -> int | None:
    """Bytes of memory; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _in_words(size: int) -> str:
    """A number of bytes for people.

    >>> _in_words(123_000_000), _in_words(4_500_000_000_000)
    ('0.1 GB', '4,500.0 GB')
    """
    return f"{size / 1e9:,.1f} GB"
