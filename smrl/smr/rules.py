"""How often a batch is updated on: the rules that choose M.

A number (``10``) and a schedule (``10:300000,1``: ten until environment step 300,000, then one) are rules without
memory. A rule of one's own may keep a carry, a pytree that becomes part of the learner's state and of its checkpoint,
and change it by what the updates report. Reading a rule needs no JAX.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from smrl import plugins
from smrl.errors import SmrlError


@runtime_checkable
class Rule(Protocol):
    """Chooses M for every learning step; all three functions are pure and traceable."""

    def init(self) -> Any:
        """The carry before the first step."""

    def times(self, carry: Any, step: Any) -> Any:
        """M at an environment step, counted from 1."""

    def observe(self, carry: Any, report: Any) -> Any:
        """The next carry, from what the updates of a learning step reported on average."""


@dataclass(frozen=True)
class Schedule:
    """``values[i]`` until environment step ``until[i]``, the last value from then on; one value is a constant.

    >>> Schedule.read("10:300000,1")
    Schedule(values=(10, 1), until=(300000,))
    """

    values: tuple[int, ...]
    until: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(value < 1 for value in self.values):
            raise SmrlError(f"reuse must be at least 1, not {min(self.values)}; 1 is the base algorithm.")
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
                f"'{text}' is not a reuse rule; write a number (10), numbers with the step they last until "
                "(10:300000,1) or a rule of your own (my_module:my_rule)."
            ) from None

    def init(self) -> tuple[()]:
        """No carry."""
        return ()

    def times(self, carry: tuple[()], step: Any) -> Any:
        """The value in force at a step, counted from 1."""
        times: Any = self.values[0]
        for before, value, until in zip(self.values, self.values[1:], self.until, strict=False):
            times = times + (value - before) * (step > until)
        return times

    def observe(self, carry: tuple[()], report: Any) -> tuple[()]:
        """Nothing to remember."""
        return carry

    def __str__(self) -> str:
        pieces = [f"{value}:{step}" for value, step in zip(self.values, self.until, strict=False)]
        return ",".join([*pieces, str(self.values[-1])])


def rule_of(source: int | str | Rule) -> Rule:
    """The rule that a number, a schedule's text or ``module:name`` stands for; a rule stands for itself."""
    if isinstance(source, str):
        module, _, name = source.partition(":")
        if module[:1].isdigit() or not name.isidentifier():
            return Schedule.read(source)
        found = plugins.load(source, "a reuse rule")
        source = found() if isinstance(found, type) else found
    if isinstance(source, Rule):
        return source
    if isinstance(source, int) and not isinstance(source, bool):
        return Schedule((source,))
    raise SmrlError(f"reuse must be a number, a schedule such as '10:300000,1' or a rule, not {source!r}.")
