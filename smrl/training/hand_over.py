"""What the acting thread of a run in real time hands to the learning thread, and what that one keeps of it."""

import contextlib
import statistics
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from smrl.envs.workers import Env
from smrl.errors import require
from smrl.memory.replay import Replay
from smrl.settings import Settings
from smrl.training.agent import ActingParams
from smrl.training.collector import Collector, Episode
from smrl.training.normaliser import Statistics

LATE = 1 / 4  # of the control period: a step is late if it comes this much later than it should
MANY_LATE, ENOUGH = 0.01, 500  # share of late steps to warn of, and steps before it is judged


class ActingPolicy(NamedTuple):
    """Parameters to act with, which nothing changes, and the number of learning steps that they have had."""

    version: int
    params: ActingParams


class ActedStep(NamedTuple):
    """A step of the device; its arrays belong to it alone."""

    episode: int  # number
    seed: int
    obs: np.ndarray
    action: np.ndarray
    reward: float
    next_obs: np.ndarray
    terminated: bool
    truncated: bool
    over: bool  # whether the episode has ended
    policy: ActingPolicy
    is_greedy: bool
    success: bool | None  # of an episode that has ended, if it says so
    late: float  # seconds by which the step came too late; NaN for the first of an episode
    latency: float  # seconds from the observation to the action
    taken: float  # seconds that the environment took


class HandOver:
    """All that the actor and the learner share while both run. A reader sees a policy or a step completely, or not."""

    def __init__(self, policy: ActingPolicy) -> None:
        self._policy = policy
        self._steps: SimpleQueue[ActedStep | None] = SimpleQueue()

    @property
    def policy(self) -> ActingPolicy:
        """The newest policy."""
        return self._policy

    def publish(self, policy: ActingPolicy) -> None:
        """Replace the policy, whose parameters must be copies; replacing one reference is atomic."""
        self._policy = policy

    def send(self, step: ActedStep | None) -> None:
        """Add a step, or None after the last one; never waits."""
        self._steps.put(step)

    def receive(self, wait_seconds: float) -> Iterator[ActedStep | None]:
        """Yield all steps that are there; wait for the first one."""
        with contextlib.suppress(Empty):
            yield self._steps.get(timeout=wait_seconds) if wait_seconds else self._steps.get_nowait()
            while True:
                yield self._steps.get_nowait()


@dataclass
class LearningLog:
    """What timing decided about each learning step; with the replay memory it allows learning to be repeated."""

    rows: "array[int]" = field(default_factory=lambda: array("i"))  # in the replay memory when the batch was drawn
    reuse: "array[int]" = field(default_factory=lambda: array("i"))  # updates per batch

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies for a checkpoint."""
        return {f"real_time.{name}": np.array(getattr(self, name), np.int32) for name in ("rows", "reuse")}

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray]) -> "LearningLog":
        """Return the log that a checkpoint holds."""
        found = [arrays.get(f"real_time.{name}", np.zeros(0)) for name in ("rows", "reuse")]
        is_log = all(values.dtype == np.int32 and values.shape == (len(found[0]),) for values in found)
        require(is_log, "the checkpoint does not hold the log of a real-time run; restore its files from a copy.")
        return cls(*(array("i", values.tobytes()) for values in found))


class Timing:
    """How well the control period was kept."""

    def __init__(self, period: float) -> None:
        self.period = period
        self._late: list[float] = []  # since the last row of training.csv
        self._latency: list[float] = []
        self._counted = self._too_late = 0  # since the run was started or continued
        self._recent: deque[tuple[float, float]] = deque(maxlen=1_000)  # latency, and seconds of the environment

    def add(self, step: ActedStep) -> None:
        """Count a step."""
        self._latency.append(step.latency)
        self._recent.append((step.latency, step.taken))
        if not np.isnan(step.late):
            self._late.append(step.late)
            self._counted += 1
            self._too_late += step.late > LATE * self.period

    def take(self) -> dict[str, float]:
        """Return lateness in ms since the last call, for training.csv."""
        late, latency = (np.array(values or [np.nan]) * 1e3 for values in (self._late, self._latency))
        self._late, self._latency = [], []
        shares = {"late_p50_ms": 50, "late_p99_ms": 99, "late_max_ms": 100}
        values = {name: float(np.percentile(late, share)) for name, share in shares.items()}
        return values | {"latency_p99_ms": float(np.percentile(latency, 99))}

    def warning(self) -> str | None:
        """Return a message if too many steps were late."""
        if self._counted < ENOUGH or self._too_late <= MANY_LATE * self._counted:
            return None
        latency, taken = (1e3 * statistics.median(values) for values in zip(*self._recent, strict=True))
        return (
            f"the control period of {1e3 * self.period:g} ms is not kept: {self._too_late / self._counted:.1%} of "
            f"{self._counted:,} steps were more than {1e3 * LATE * self.period:g} ms late. The environment takes "
            f"{taken:.1f} ms per step and choosing an action {latency:.1f} ms (medians); see docs/robots.md."
        )


class Intake(Collector):
    """Stores the steps that the actor sends. The learner owns it."""

    def __init__(
        self, settings: Settings[Any], envs: Sequence[Env], replay: Replay, statistics: Statistics | None
    ) -> None:
        super().__init__(settings, envs, replay, statistics=statistics)
        self.greedy: list[float] = []  # returns of greedy episodes since they were last recorded

    def start(self) -> None:
        """Begin without an episode: the device is reset when everything is compiled."""

    def store(self, step: ActedStep) -> float | None:
        """Store a step; return the return of a greedy episode that it ends."""
        reward = self.settings.reward_scale * step.reward
        if self.statistics:
            is_end = step.terminated or step.truncated
            self.statistics.update(step.obs[None], np.array([step.reward]), np.array([is_end]))
        self.replay.add(step.obs, step.action, reward, step.next_obs, step.terminated, step.truncated)
        if not self.episodes or self.episodes[0].number != step.episode:
            self.episodes = [Episode(step.episode, step.seed, step.next_obs, bytearray())]
        episode = self.episodes[0]
        episode.total, episode.over = episode.total + step.reward, step.over
        episode.length += 1
        if not step.over:
            return None
        if step.is_greedy:
            self.greedy.append(episode.total)
            return episode.total
        self.means.add(episode.total, episode.length, step.success)
        return None

    def take_greedy(self) -> np.ndarray:
        """Return the returns of the greedy episodes since the last call."""
        greedy, self.greedy = self.greedy, []
        return np.array(greedy)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return nothing, because no action is ever replayed."""
        return {}

    def restore(self, arrays: Any, facts: list[dict[str, Any]], notify: Any) -> None:
        """End the episode that was interrupted; the device starts a new one."""
        self.episodes = [Episode(obs=np.zeros(0), actions=bytearray(), **fact) for fact in facts[:1]]
        self._cut(0)
        notify("it goes on with a new episode; no action is repeated.")
