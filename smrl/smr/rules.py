"""Rules that choose M, the number of updates per batch.

A number (``10``) and a schedule (``10:300000,1``: ten until environment step 300,000, then one) have no memory. Other
rules may keep a carry, a pytree that is part of the agent's state and of its checkpoint, and change it by what the
updates report, or by measurements on rows that are not trained on (`smrl.smr.auto`). Reading a rule needs no JAX.
"""

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from smrl import plugins
from smrl.errors import SmrlError, require, short_repr
from smrl.smr.auto import Auto

LARGEST_REUSE = 1_000_000  # updates per batch; the paper makes 100,000 on the first one in one of its studies
SECONDS = {"h": 3600, "m": 60, "s": 1}
LONGEST_BUDGET = 100_000 * 3600  # seconds
MAX_PIECES = 100  # of a schedule, which is compiled piece by piece


@runtime_checkable
class Rule(Protocol):
    """Chooses M for every learning step. All three functions are pure and traceable by JAX."""

    def init(self) -> Any:
        """Return the carry before the first step."""

    def times(self, carry: Any, step: Any) -> Any:
        """Return M at an environment step, counted from 1."""

    def observe(self, carry: Any, report: Any) -> Any:
        """Return the next carry, given the mean report of the updates of a learning step."""


@runtime_checkable
class ProbingRule(Rule, Protocol):
    """A rule that measures on held-out rows."""

    def is_due(self, step: int) -> bool:
        """Return whether to measure after a learning step, counted from 1."""

    def compare(self, carry: Any, trained: Any, held_out: Any, largest_return: Any) -> Any:
        """Return the next carry, given what an update reports on rows that are trained on and on held-out rows."""


@dataclass(frozen=True)
class Schedule:
    """Use ``values[i]`` until environment step ``until[i]``, and the last value from then on.

    >>> Schedule.read("10:300000,1")
    Schedule(values=(10, 1), until=(300000,))
    """

    values: tuple[int, ...]
    until: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(value < 1 for value in self.values):
            raise SmrlError(f"reuse must be at least 1, not {short_repr(min(self.values))}; 1 is the base algorithm.")
        if any(value > LARGEST_REUSE for value in self.values):
            raise SmrlError(f"reuse must be at most {LARGEST_REUSE:,}, not {short_repr(max(self.values))}.")
        if len(self.until) > MAX_PIECES or any(step >= 2**31 for step in self.until):
            raise SmrlError(f"a reuse schedule has at most {MAX_PIECES} pieces, and steps below 2^31.")
        if list(self.until) != sorted(set(self.until)) or any(step < 1 for step in self.until):
            raise SmrlError(f"the steps of the reuse schedule '{self}' must be positive and increase.")

    @classmethod
    def read(cls, text: str) -> "Schedule":
        """Read ``10`` or ``10:300000,1``."""
        *pieces, last = text.split(",")
        try:
            pairs = [tuple(int(number) for number in piece.split(":")) for piece in pieces]
            values, until = zip(*pairs, strict=True) if pairs else ((), ())
            return cls((*values, int(last)), until)
        except ValueError:
            raise SmrlError(
                f"{short_repr(text)} is not a reuse rule; write a number (10), numbers with the step they last until "
                "(10:300000,1), auto, auto:20 (at most 20), budget:2h (or m, s) or a custom rule (my_module:my_rule)."
            ) from None

    def init(self) -> tuple[()]:
        """Return no carry."""
        return ()

    def times(self, carry: tuple[()], step: Any) -> Any:
        """Return the value in force at a step, counted from 1."""
        times: Any = self.values[0]
        for before, value, until in zip(self.values, self.values[1:], self.until, strict=False):
            times = times + (value - before) * (step > until)
        return times

    def observe(self, carry: tuple[()], report: Any) -> tuple[()]:
        """Return the carry unchanged."""
        return carry

    def __str__(self) -> str:
        pieces = [f"{value}:{step}" for value, step in zip(self.values, self.until, strict=False)]
        return ",".join([*pieces, str(self.values[-1])])


class WrittenReuse:
    """M is the carry, which the run writes."""

    def init(self) -> np.ndarray:
        """Return M of the first learning step."""
        return np.ones((), np.int32)

    def times(self, carry: Any, step: Any) -> Any:
        """Return M as it was last written into the carry."""
        return carry

    def observe(self, carry: Any, report: Any) -> Any:
        """Return the carry unchanged."""
        return carry


@dataclass(frozen=True)
class FittedReuse(WrittenReuse):
    """``realtime``: as many updates as fit into the control period."""

    NAME: ClassVar[str] = "realtime"


@dataclass(frozen=True)
class Budget(WrittenReuse):
    """``budget:2h``: as many updates as fit into the time of the run.

    >>> Budget.read("budget:90m"), str(Budget(7200.0))
    (Budget(seconds=5400.0), 'budget:2h')
    """

    NAME: ClassVar[str] = "budget"

    seconds: float

    def __post_init__(self) -> None:
        require(
            0 < self.seconds <= LONGEST_BUDGET,
            f"the {self.NAME} of a run must be more than 0 s and at most {LONGEST_BUDGET / 3600:,.0f} h.",
        )

    @classmethod
    def read(cls, text: str) -> "Budget | None":
        """Read ``budget:2h``, ``budget:30m`` or ``budget:90s``; return None for any other text."""
        found = re.fullmatch(rf"{cls.NAME}:(\d{{1,9}}(?:\.\d{{1,6}})?)([hms])", text, re.ASCII)
        return cls(float(found[1]) * SECONDS[found[2]]) if found else None

    def __str__(self) -> str:
        unit = next((unit for unit, size in SECONDS.items() if self.seconds % size == 0), "s")
        return f"{self.NAME}:{self.seconds / SECONDS[unit]:g}{unit}"


def is_built_in(text: str) -> bool:
    """Return whether a text is a number, a schedule or a rule of smrl, so that reading it imports nothing."""
    try:
        return text == FittedReuse.NAME or bool(Auto.read(text) or Budget.read(text) or Schedule.read(text))
    except SmrlError:
        return False


def rule_of(source: int | str | Rule, real_time: bool = False) -> Rule:
    """Return the rule for a number, the text of a schedule, ``auto`` or ``module:name``; return a rule unchanged.

    ``realtime`` is a rule only of runs in real time.
    """
    if isinstance(source, str):
        if source == FittedReuse.NAME:
            require(real_time, f"reuse {source} needs a control period: add --real-time, or give a number.")
            return FittedReuse()
        if found := Auto.read(source) or Budget.read(source):
            return found
        module, _, name = source.partition(":")
        if module[:1].isdigit() or not name.isidentifier():
            return Schedule.read(source)
        loaded = plugins.load(source, "a reuse rule")
        source = loaded() if isinstance(loaded, type) else loaded
    if isinstance(source, Rule):
        return source
    if isinstance(source, int) and not isinstance(source, bool):
        return Schedule((source,))
    raise SmrlError(
        f"reuse must be a number, a schedule such as '10:300000,1', auto or a rule, not {short_repr(source)}."
    )
