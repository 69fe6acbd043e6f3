"""A rule that chooses M from how well the critic generalises to experience that it is not trained on.

    g = ½ log(loss on held-out rows / loss on trained rows)        the loss is a mean of squared TD errors
    ḡ ← ḡ + β (g − ḡ)
    M ← 1.3 M where ḡ < low, M / 1.3 where ḡ > high, within [1, ceiling]; at every second measurement
    M ← M / 2 where mean Q > R + 0.2 |R| + max(α H, 0) / (1 − γ), R the largest discounted return seen

Both losses are those of the same networks, targets and random numbers, so the growth of Q over training cancels in g.
docs/reuse-auto.md has the reasons and what else was tried. Arrays bring their own functions along (the array API
standard), so reading a rule needs no JAX.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from smrl.errors import SmrlError, require, short_repr

CHANGE_EVERY = 2  # measurements between two changes of M
FACTOR = 1.3  # of one change
MARGIN = 0.2  # by which the mean of Q may exceed the largest return


class Probe(NamedTuple):
    """What a rule measures on: batches of rows that are trained on and of rows that never are, of the same age."""

    trained: Any
    held_out: Any
    largest_return: Any = np.inf  # largest discounted return seen so far, in the units of Q; infinite where unknown


class AutoState(NamedTuple):
    """The carry of `Auto`."""

    times: Any  # M before rounding
    gap: Any  # ḡ
    measured: Any  # measurements so far
    largest_return: Any  # R


@dataclass(frozen=True)
class Auto:
    """Choose M by the ratio of TD errors on held-out and on trained rows.

    The update must report its loss under the name ``loss``, and may report ``q``, the mean of its values. Give `learn`
    of `smrl.reuse` a `Probe` whenever `is_due`.

    >>> Auto.read("auto:40").ceiling, str(Auto())
    (40, 'auto:20')
    """

    NAME: ClassVar[str] = "auto"

    ceiling: int = 20
    start: float = 10.0
    low: float = 0.15
    high: float = 0.25
    weight: float = 0.25  # β
    every: int = 250  # learning steps between two measurements
    gamma: float = 0.99
    loss: str = "critic_loss"

    def __post_init__(self) -> None:
        is_number = isinstance(self.ceiling, int) and not isinstance(self.ceiling, bool)
        require(
            is_number and 1 <= self.ceiling <= 1_000,
            f"the largest reuse of {self.NAME} must be a whole number from 1 to 1,000, not {short_repr(self.ceiling)}.",
        )
        require(
            self.low <= self.high,
            f"low must not be above high, but {short_repr(self.low)} is above {short_repr(self.high)}.",
        )

    @classmethod
    def read(cls, text: str) -> "Auto | None":
        """Read ``auto`` or ``auto:20``; return None for any other text."""
        name, colon, ceiling = text.partition(":")
        if name != cls.NAME or (colon and not ceiling.isdecimal()):
            return None
        return cls(int(ceiling[:10])) if colon else cls()

    def __str__(self) -> str:
        return f"{self.NAME}:{self.ceiling}"

    def init(self) -> AutoState:
        """Return the carry before the first step."""
        start = np.float32(min(self.start, self.ceiling))
        return AutoState(start, np.float32(0), np.int32(0), np.float32(-np.inf))

    def times(self, carry: AutoState, step: Any) -> Any:
        """Return M, rounded."""
        return (carry.times + 0.5).astype(np.int32)

    def observe(self, carry: AutoState, report: Any) -> AutoState:
        """Return the carry unchanged: the loss on a batch depends on the updates that were made on it."""
        return carry

    def is_due(self, step: int) -> bool:
        """Return whether to measure after a learning step, counted from 1."""
        return step % self.every == 0

    def compare(self, carry: AutoState, trained: Any, held_out: Any, largest_return: Any) -> AutoState:
        """Return the next carry, given what an update reports on each kind of rows."""
        for report in (trained, held_out):
            if not (isinstance(report, Mapping) and self.loss in report):
                raise SmrlError(
                    f"reuse {self} compares the loss of the critic on held-out rows, and the update reports no "
                    f"{self.loss!r}: let it report one, or give a number as reuse."
                )
        xp = carry.times.__array_namespace__()
        found = 0.5 * xp.log(held_out[self.loss] / trained[self.loss])
        is_known = xp.isfinite(found)  # not where an update did not compute it
        weight = xp.where(carry.measured == 0, 1.0, self.weight)
        gap = xp.where(is_known, carry.gap + weight * (xp.where(is_known, found, 0.0) - carry.gap), carry.gap)
        measured = carry.measured + is_known.astype(np.int32)

        is_change = is_known & (measured % CHANGE_EVERY == 0)
        factor = xp.where(gap < self.low, FACTOR, xp.where(gap > self.high, 1 / FACTOR, 1.0))
        times = carry.times * xp.where(is_change, factor, 1.0)

        largest = xp.maximum(carry.largest_return, largest_return)
        if "q" in trained:
            bonus = trained["alpha"] * trained["entropy"] if {"alpha", "entropy"} <= trained.keys() else 0.0 * largest
            limit = largest + MARGIN * abs(largest) + xp.maximum(bonus, 0.0) / max(1 - self.gamma, 1e-6)
            is_too_large = xp.isfinite(largest) & (trained["q"] > limit)
            times = xp.where(is_too_large, carry.times / 2, times)
        times = xp.clip(times, 1.0, float(self.ceiling))
        kinds = AutoState(np.float32, np.float32, np.int32, np.float32)
        new = AutoState(times, gap, measured, largest)
        return AutoState(*(value.astype(kind) for value, kind in zip(new, kinds, strict=True)))
