"""Collecting experience: environments, the episodes in progress, and how to continue them after a restart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from smrl.envs.environment import EnvironmentFault, Step, success_of
from smrl.envs.workers import Env, WorkerDied, insist
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.randomness import Purpose, Stream, environment_seed
from smrl.settings import Settings
from smrl.training.normaliser import Statistics

Result = TypeVar("Result")
Act = Callable[[np.ndarray, int], Any]  # observations of all environments, step → actions


@dataclass
class Episode:
    """An episode in progress, with everything needed to replay it."""

    number: int
    seed: int
    obs: np.ndarray
    actions: bytearray  # those taken so far; a compact array that grows, because an endless episode has millions
    total: float = 0.0  # sum of the rewards
    over: bool = False
    length: int = 0  # agent steps


class EndedEpisode(NamedTuple):
    """A training episode that has ended."""

    total: float  # its return, the sum of its rewards
    length: int  # agent steps
    info: Mapping[str, Any]  # of its last step


@dataclass
class EpisodeMeans:
    """Sums over training episodes, whose means training.csv has."""

    count: int = 0  # of the episodes since the last `take`
    total: float = 0.0
    length: int = 0
    judged: int = 0  # episodes that say whether they have succeeded
    successes: int = 0

    def add(self, total: float, length: int, success: bool | None) -> None:
        """Count an episode that has ended."""
        self.count, self.total, self.length = self.count + 1, self.total + total, self.length + length
        if success is not None:
            self.judged, self.successes = self.judged + 1, self.successes + success

    def take(self) -> dict[str, float | None]:
        """Return the means since the last call, None without an episode.

        The success rate is over the episodes that say whether they have succeeded, and is left out if none does.
        """
        seen = EpisodeMeans(**vars(self))
        vars(self).update(vars(EpisodeMeans()))
        means = {"episode_return": seen.total, "episode_length": float(seen.length)}
        rate = {"success_rate": seen.successes / seen.judged} if seen.judged else {}
        return {name: value / seen.count if seen.count else None for name, value in means.items()} | rate


def require_finite(actions: np.ndarray, step: int) -> None:
    """Refuse to take actions that are not finite."""
    if not np.isfinite(actions).all():  # not require, which would format the message at every step
        raise SmrlError(
            f"the policy's action at step {step + 1:,} is not finite: training has diverged; lower the learning rates "
            "or the reuse."
        )


class Collector:
    """Plays training episodes in one or more environments and stores their transitions."""

    def __init__(
        self,
        settings: Settings[Any],
        envs: Sequence[Env],
        replay: Replay,
        check_interrupt: Callable[[], None] = lambda: None,
        statistics: Statistics | None = None,
    ) -> None:
        """``check_interrupt`` is called between the steps of a replayed episode; it may raise to stop there.

        ``statistics`` are updated by every round that is stored.
        """
        self.settings, self.envs, self.replay, self.check_interrupt = settings, envs, replay, check_interrupt
        self.statistics = statistics
        self.spec = envs[0].spec
        self._warm_up = Stream(settings.seed, Purpose.WARM_UP)
        self.means = EpisodeMeans()
        self.episodes: list[Episode] = []
        self.ended: list[EndedEpisode] = []  # by the last call of `collect`
        self.last_ended: EndedEpisode | None = None

    def start(self) -> None:
        """Start an episode in every environment."""
        self.episodes = list(self._new_episodes({index: index for index in range(len(self.envs))}).values())

    def collect(self, act: Act, step: int) -> None:
        """Act once in every environment; if an environment fails, nothing is stored."""
        if over := [index for index, episode in enumerate(self.episodes) if episode.over]:
            following = 1 + max(episode.number for episode in self.episodes)
            numbers = {index: following + place for place, index in enumerate(over)}
            for index, episode in self._new_episodes(numbers).items():
                self.episodes[index] = episode
        actions = list(self._choose(act, step))
        begun = [env.begin_step(action) for env, action in zip(self.envs, actions, strict=True)]
        results = []
        for index, finish in enumerate(begun):
            again = partial(self._begin_again, index, act, step, actions)
            results.append(insist(finish, again, "its episode counts as truncated"))
        if self.statistics:
            _, rewards, *ends = zip(*results, strict=True)
            self.statistics.update(self._observations(), np.array(rewards), np.any(ends, axis=0))
        self.ended = []
        for env, episode, action, result in zip(self.envs, self.episodes, actions, results, strict=True):
            next_obs, reward, terminated, truncated = result
            reward_in_units = self.settings.reward_scale * reward
            self.replay.add(episode.obs, action, reward_in_units, next_obs, terminated, truncated, episode.number)
            episode.obs = next_obs
            episode.actions += np.asarray(action, self.spec.action.array.dtype).tobytes()
            episode.total += reward
            episode.length += 1
            episode.over = env.over  # losing a life terminates the MDP but not the episode
            if episode.over:
                self.last_ended = EndedEpisode(episode.total, episode.length, env.info)
                self.ended.append(self.last_ended)
                self.means.add(episode.total, episode.length, success_of(env.info))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint keeps of the episodes in progress as arrays."""
        kept: dict[str, np.ndarray] = {}
        spec = self.spec.action.array
        for index, episode in enumerate(self.episodes):
            kept[f"episode{index}.obs"] = episode.obs
            kept[f"episode{index}.actions"] = np.frombuffer(bytes(episode.actions), spec.dtype).reshape(-1, *spec.shape)
        return kept

    def facts(self) -> list[dict[str, Any]]:
        """Return what a checkpoint keeps of the episodes in progress as JSON."""
        names = ("number", "seed", "total", "over")
        return [{name: getattr(episode, name) for name in names} for episode in self.episodes]

    def restore(
        self, arrays: dict[str, np.ndarray], facts: list[dict[str, Any]], notify: Callable[[str], None]
    ) -> None:
        """Restore the environments: reset each with the seed of its episode and repeat the actions."""
        if len(facts) != len(self.envs):
            raise ValueError(f"{len(facts)} episodes instead of {len(self.envs)}")
        for index, fact in enumerate(facts):
            actions = bytearray(arrays[f"episode{index}.actions"].tobytes())
            length = len(arrays[f"episode{index}.actions"])
            self.episodes.append(Episode(obs=arrays[f"episode{index}.obs"], actions=actions, length=length, **fact))
        following = 1 + max(fact["number"] for fact in facts)
        changed = [index for index, is_repeated in enumerate(self._repeat(arrays)) if not is_repeated]
        for _ in changed:
            notify(
                "the environment did not repeat its episode (it is not deterministic); a new episode starts, "
                "and the run will differ from one that was never interrupted."
            )
        for index, episode in self._new_episodes({index: following + index for index in changed}).items():
            self._cut(index)
            self.episodes[index] = episode

    def _choose(self, act: Act, step: int) -> np.ndarray:
        settings = self.settings
        if step < settings.warmup and settings.warmup_actions == "uniform":
            return self.spec.action.random(self._warm_up.at(step), len(self.envs))
        actions = np.asarray(act(self._observations(), step))
        require_finite(actions, step)
        return actions

    def _observations(self) -> np.ndarray:
        return np.array([episode.obs for episode in self.episodes])

    def _new_episodes(self, numbers: Mapping[int, int]) -> dict[int, Episode]:
        """Start an episode in each of these environments, which are given with the episodes' numbers."""
        seed = self.settings.seed
        seeds = {index: environment_seed(seed, Purpose.EPISODE, number) for index, number in numbers.items()}
        begun = {index: self.envs[index].begin_reset(seed) for index, seed in seeds.items()}
        first = {index: insist(begun[index], partial(self.envs[index].begin_reset, seeds[index])) for index in seeds}
        return {index: Episode(numbers[index], seeds[index], obs, bytearray()) for index, obs in first.items()}

    def _begin_again(self, index: int, act: Act, step: int, actions: list[np.ndarray]) -> Callable[[], Step]:
        """Begin a step of a new episode, in an environment whose episode cannot be continued."""
        following = 1 + max(episode.number for episode in self.episodes)
        self._cut(index)
        self.episodes[index] = self._new_episodes({index: following})[index]
        actions[index] = self._choose(act, step)[index]
        return self.envs[index].begin_step(actions[index])

    def _cut(self, index: int) -> None:
        """End an environment's episode after its newest row, as a time-out would."""
        self.replay.cut(index)
        if self.statistics:
            self.statistics.cut(index)

    def _repeat(self, arrays: dict[str, np.ndarray]) -> list[bool]:
        """Replay all episodes; return whether each led to the same observation, and ended only if it had ended."""
        actions = [arrays[f"episode{index}.actions"] for index in range(len(self.envs))]
        resets = [env.begin_reset(episode.seed) for env, episode in zip(self.envs, self.episodes, strict=True)]
        seen = [self._attempt(finish) for finish in resets]  # what each environment observes; None once it differs
        for number in range(max(map(len, actions))):
            self.check_interrupt()
            steps: dict[int, Callable[[], Step]] = {}
            for index, env in enumerate(self.envs):
                if seen[index] is not None and number < len(actions[index]):
                    if env.over:
                        seen[index] = None
                    else:
                        steps[index] = env.begin_step(actions[index][number])
            for index, finish in steps.items():
                result = self._attempt(finish)
                seen[index] = None if result is None else result[0]
        return [
            obs is not None and env.over == episode.over and np.array_equal(obs, episode.obs)
            for obs, env, episode in zip(seen, self.envs, self.episodes, strict=True)
        ]

    def _attempt(self, finish: Callable[[], Result]) -> Result | None:
        """Return the result of a call in a replayed episode; None if the environment fails."""
        try:
            return finish()
        except EnvironmentFault as fault:
            self.check_interrupt()  # a signal may have ended processes of the environment
            if isinstance(fault, WorkerDied):
                fault.worker.replace(fault, "its episode is not continued")
            return None
