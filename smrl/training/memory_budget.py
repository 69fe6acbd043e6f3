"""The memory of a run: refuse what does not fit, and put a large replay memory on the disk."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from rich.filesize import decimal

from smrl.errors import require
from smrl.memory.replay import Replay
from smrl.settings import Settings
from smrl.types import Spec


def refuse_too_large(settings: Settings[Any], spec: Spec, rounds: int, memory: int | None = None) -> None:
    """Refuse a replay memory or batches that need more memory than this machine has."""
    memory = memory or _physical_memory()
    if memory is None:
        return
    rest = _rest_bytes(spec)
    stored = 0 if _is_on_disk(settings, spec, memory) else _obs_bytes(settings, spec)
    needs = {
        "capacity": settings.capacity * rest + stored,
        "batch_size": settings.batch_size * rounds * (2 * spec.obs.zeros().nbytes + rest),
    }
    for name, need in needs.items():
        require(
            need <= memory,
            f"{name} {getattr(settings, name):,} would take {decimal(need)}, but this machine has {decimal(memory)} of "
            f"memory; lower --{name.replace('_', '-')}.",
        )


def largest_data(settings: Settings[Any], spec: Spec, memory: int | None = None) -> int:
    """Return the bytes of data that fit beside the replay memory: a third, because loading takes copies of them."""
    memory = memory or _physical_memory() or 2**63
    stored = 0 if _is_on_disk(settings, spec, memory) else _obs_bytes(settings, spec)
    return max(0, memory - stored - settings.capacity * _rest_bytes(spec)) // 3


def refuse_large_networks(state: Any, memory: int | None = None) -> None:
    """Refuse networks and optimisers, given by their shapes, that need more than half of this machine's memory."""
    memory = memory or _physical_memory()
    need = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    require(
        memory is None or need <= memory / 2,
        f"the networks would take {decimal(need)}, more than half of this machine's {decimal(memory or 0)} of memory; "
        "make their layers smaller.",
    )


def replay_of(settings: Settings[Any], spec: Spec, run: Path, notify: Callable[[str], None]) -> Replay:
    """Return the empty replay memory of a run; frames that do not fit into memory are in a file in the run's folder."""
    is_on_disk = _is_on_disk(settings, spec, _physical_memory())
    if is_on_disk:
        size = decimal(_obs_bytes(settings, spec))
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
        hold_out=settings.held_out_rows if settings.holds_out else None,
    )


def _is_on_disk(settings: Settings[Any], spec: Spec, memory: int | None) -> bool:
    return spec.obs.stack > 1 and memory is not None and _obs_bytes(settings, spec) > memory / 2


def _obs_bytes(settings: Settings[Any], spec: Spec) -> int:
    """Return the bytes of all observations in the replay memory, where a frame is stored once."""
    return settings.capacity * (spec.obs.zeros().nbytes // spec.obs.stack)


def _rest_bytes(spec: Spec) -> int:
    """Return the bytes of a transition besides its observations."""
    return spec.action.array.zeros().nbytes + 8


def _physical_memory() -> int | None:
    """Return the bytes of memory; None if the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
