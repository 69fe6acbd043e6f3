"""Choosing M so that a run ends in time: `--reuse budget:2h`.

    M = (seconds left − other seconds per step × steps left) / (seconds per use × learning steps left)

A use is the updates of one learning step at M = 1. M is chosen again at the boundaries of blocks of environment steps,
on the host, from what was measured on this machine. It is recorded as a schedule, which is part of the checkpoint and
repeats the run exactly.
"""

import math
from typing import Any, NamedTuple

from smrl.settings import Settings
from smrl.smr.rules import LARGEST_REUSE, Budget, Schedule
from smrl.training.clock import Clock

BLOCKS = 50  # in which M is chosen, fewer than a schedule may have pieces
MIN_BLOCK = 100  # environment steps
TOLERANCE = 0.1  # fraction of the present M by which another must differ


class Times(NamedTuple):
    """What was done before the learning step at an environment step, and how long it took."""

    step: int
    seconds: float  # of the run
    learning: float  # seconds of them that were spent on updates
    uses: int  # sum of M over the learning steps


class ReuseBudget:
    """Chooses M at the boundaries of blocks, and keeps the schedule of what it has chosen."""

    def __init__(self, settings: Settings[Any], rule: Budget, clock: Clock, recorded: str | None = None) -> None:
        self.schedule = Schedule.read(recorded) if recorded else Schedule((1,))
        self._seconds, self._steps, self._clock = rule.seconds, settings.steps, clock
        self._block = max(MIN_BLOCK, math.ceil((settings.steps - settings.warmup) / BLOCKS))
        self._first: Times | None = None  # after the first learning step of this process, which waits for a compiler
        self._next = 0  # environment step of the next choice

    def is_due(self, env_step: int) -> bool:
        """Return whether M is chosen before the learning step at an environment step."""
        return env_step >= self._next

    def choose(self, now: Times) -> int:
        """Return M from the learning step at ``now.step`` on, and record it."""
        first, old = self._first, self.schedule
        present = old.values[-1]
        if first is None:
            if self._next:
                self._first = now
            self._next = now.step + (MIN_BLOCK if self._next else 1)
            return present
        self._next = now.step + self._block
        learning, steps = now.learning - first.learning, now.step - first.step
        remaining = len(self._clock.learned_at(self._steps)) - len(self._clock.learned_at(now.step - 1))
        other = (now.seconds - first.seconds - learning) / steps
        left = self._seconds - now.seconds - other * (self._steps - now.step)
        per_use = learning / max(now.uses - first.uses, 1)
        times = min(max(1, int(left / max(per_use * remaining, 1e-9))), LARGEST_REUSE)
        if abs(times - present) <= TOLERANCE * present or len(old.until) >= BLOCKS:
            return present
        self.schedule = Schedule((*old.values, times), (*old.until, now.step - 1))
        return times
