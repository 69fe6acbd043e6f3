"""The memory of a run: refuse what does not fit, and put a large replay memory on the disk."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smrl.errors import require
from smrl.memory.replay import Replay
from smrl.settings import Settings
from smrl.types import ArraySpec, Spec


def refuse_too_large(settings: Settings[Any], spec: Spec, rounds: int, memory: int | None = None) -> None:
    """Refuse a replay memory or batches that need more memory than this machine has."""
    memory = memory or _physical_memory()
    rest = _bytes(spec.action.array) + 8
    stored = 0 if _is_on_disk(settings, spec, memory) else _bytes(spec.obs) // spec.obs.stack  # a frame is stored once
    needs = {
        "capacity": settings.capacity * (stored + rest),
        "batch_size": settings.batch_size * rounds * (2 * _bytes(spec.obs) + rest),
    }
    for name, need in needs.items():
        require(
            memory is None or need <= memory,
            f"{name} {getattr(settings, name):,} would take {_in_words(need)}, but this machine has "
            f"{_in_words(memory or 0)} of memory; lower --{name.replace('_', '-')}.",
        )


def replay_of(settings: Settings[Any], spec: Spec, run: Path, notify: Callable[[str], None]) -> Replay:
    """Return the empty replay memory of a run; frames that do not fit into memory are in a file in the run's folder."""
    is_on_disk = _is_on_disk(settings, spec, _physical_memory())
    if is_on_disk:
        size = _in_words(settings.capacity * _bytes(spec.obs) // spec.obs.stack)
        notify(
            f"the replay memory of {size} is more than half of this machine's, so its frames are in a file in {run}."
        )
    return Replay(
        settings.capacity,
        spec,
        gamma=settings.gamma,
        n_step=settings.n_step,
        envs=settings.envs,
        windows=settings.windows,
        folder=run if is_on_disk else None,
    )


def _is_on_disk(settings: Settings[Any], spec: Spec, memory: int | None) -> bool:
    frames = settings.capacity * _bytes(spec.obs) // spec.obs.stack
    return spec.obs.stack > 1 and memory is not None and frames > memory / 2


def _bytes(array: ArraySpec) -> int:
    return math.prod(array.shape) * array.zeros().itemsize


def _physical_memory() -> int | None:
    """Return the bytes of memory; None if the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _in_words(size: int) -> str:
    """Write a number of bytes for people.

    >>> _in_words(123_000_000), _in_words(4_500_000_000_000)
    ('0.1 GB', '4,500.0 GB')
    """
    return f"{size / 1e9:,.1f} GB"
