"""The clock: which learning steps, evaluations and resets are due after a number of environment steps."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Moment(NamedTuple):
    """One learning step."""

    step: int  # learning steps, from 1
    env_step: int  # environment steps, from 1
    draw: int  # number of the batch's random stream


@dataclass(frozen=True)
class Clock:
    """Counts environment steps; agent steps and learning steps follow from them."""

    envs: int
    action_repeat: int
    warmup: int  # environment steps
    learn_every: int  # agent steps

    @property
    def stride(self) -> int:
        """Environment steps per round, in which every environment acts once."""
        return self.envs * self.action_repeat

    def learning_steps(self, step: int) -> Iterator[Moment]:
        """Yield the learning steps that are due once all environments have acted after ``step`` environment steps.

        >>> [moment.step for moment in Clock(envs=3, action_repeat=1, warmup=3, learn_every=2).learning_steps(3)]
        [1, 2]
        """
        for index in range(self.envs):
            agent_steps = (step - self.warmup) // self.action_repeat + index
            if agent_steps >= 0 and agent_steps % self.learn_every == 0:
                env_step = self.warmup + agent_steps * self.action_repeat + 1
                yield Moment(agent_steps // self.learn_every + 1, env_step, step + index)

    def learned_at(self, step: int) -> range:
        """Return the environment steps of all learning steps among the first ``step`` environment steps."""
        agent_steps = max(0, (step - self.warmup) // self.action_repeat)
        first, spacing = self.warmup + 1, self.learn_every * self.action_repeat
        return range(first, first + agent_steps * self.action_repeat, spacing)

    def is_due(self, step: int, every: int | None) -> bool:
        """Return whether the last stride reached or passed a multiple of ``every``."""
        return every is not None and step // every > max(step - self.stride, 0) // every
