"""How often a batch is reused, as a function of the step: `10`, or `10:300000,1` for a warm-up use."""

from dataclasses import dataclass

import jax.numpy as jnp

from smrl.errors import SmrlError
from smrl.types import Array


@dataclass(frozen=True)
class Schedule:
    """A step function: ``values[i]`` until step ``until[i]``, the last value for ever after.

    >>> Schedule.of("10:300000,1")
    Schedule(values=(10, 1), until=(300000,))
    """

    values: tuple[int, ...]
    until: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(value < 1 for value in self.values):
            raise SmrlError(f"reuse must be at least 1, not {min(self.values)}; 1 is the base algorithm.")
        if list(self.until) != sorted(set(self.until)) or any(step < 1 for step in self.until):
            raise SmrlError(f"the steps of reuse schedule '{self}' must be positive and increase.")

    @classmethod
    def of(cls, source: "int | str | Schedule") -> "Schedule":
        """Read ``10``, ``"10"`` or ``"10:300000,1"``."""
        if isinstance(source, Schedule):
            return source
        *pieces, last = str(source).split(",")
        try:
            pairs = [tuple(int(number) for number in piece.split(":")) for piece in pieces]
            values, until = zip(*pairs, strict=True) if pairs else ((), ())
            return cls((*values, int(last)), until)
        except ValueError:
            raise SmrlError(
                f"'{source}' is not a reuse schedule; write a number (10) or numbers with the step they "
                "last until (10:300000,1)."
            ) from None

    def at(self, step: Array | int) -> Array:
        """The value in force at a step (counted from 1), traceable."""
        boundaries = jnp.asarray(self.until, jnp.int32)
        return jnp.asarray(self.values, jnp.int32)[(boundaries < step).sum()]

    def total(self, steps: int) -> int:
        """The sum of the values over the first steps.

        >>> Schedule.of("10:3,1").total(5)
        32
        """
        ends = [min(step, steps) for step in (*self.until, steps)]
        return sum(value * (end - start) for value, start, end in zip(self.values, [0, *ends], ends, strict=False))

    def in_learning_steps(self, warmup: int, learn_every: int) -> "Schedule":
        """The same schedule of environment steps, counted in the steps that learn.

        >>> Schedule.of("10:300000,1").in_learning_steps(warmup=5000, learn_every=1)
        Schedule(values=(10, 1), until=(295000,))
        """
        kept = [index for index, step in enumerate(self.until) if step > warmup]
        until = tuple((self.until[index] - warmup - 1) // learn_every + 1 for index in kept)
        return Schedule((*(self.values[index] for index in kept), self.values[-1]), until)

    def __str__(self) -> str:
        pieces = [f"{value}:{step}" for value, step in zip(self.values, self.until, strict=False)]
        return ",".join([*pieces, str(self.values[-1])])
