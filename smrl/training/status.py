"""What callbacks see of a run in progress."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, SupportsFloat

from smrl.training.collector import EndedEpisode
from smrl.training.run import Policy, Run


@dataclass(frozen=True, eq=False)
class Status:
    """A run in progress: the argument of callbacks.

    ``losses`` are the means of the last row of training.csv with losses; before the first one they are empty.
    """

    run: Run
    step: int  # environment steps so far
    evaluation: Mapping[str, float]  # mean, sd, min and max of the returns; empty in on_step
    ended: tuple[EndedEpisode, ...]  # training episodes that this step has ended; several environments may end theirs
    last_episode: EndedEpisode | None  # the training episode that ended last; None before the first
    infos: tuple[Mapping[str, Any], ...] = field(repr=False)  # of the last step of each environment
    losses: Mapping[str, float] = field(repr=False)
    copy_policy: Callable[[], Policy] = field(repr=False)
    write: Callable[[str, SupportsFloat], None] = field(repr=False)  # see `log`

    @property
    def episode_return(self) -> float | None:
        """The return of the training episode that ended last; None before the first."""
        return self.last_episode.total if self.last_episode else None

    @property
    def episode_length(self) -> int | None:
        """The agent steps of the training episode that ended last; None before the first."""
        return self.last_episode.length if self.last_episode else None

    @property
    def info(self) -> Mapping[str, Any]:
        """The info of the last step of the environment, or of the first of several."""
        return self.infos[0]

    @cached_property
    def policy(self) -> Policy:
        """A copy of the present policy, which training does not change later."""
        return self.copy_policy()

    def log(self, name: str, value: SupportsFloat) -> None:
        """Add a value to the next row of training.csv, TensorBoard and Weights & Biases.

        A row has the mean of the values since the row before.

        >>> status.log("grasps", status.info["grasps"])                           # doctest: +SKIP
        """
        self.write(name, value)
