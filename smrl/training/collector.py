"""The collector: environments, the episodes that are being played in them, and how to continue those."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smrl.envs.environment import Environment, EnvironmentFault
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.randomness import Purpose, Stream, environment_seed
from smrl.settings import Settings
from smrl.types import ArraySpec

Act = Callable[[np.ndarray, int], Any]  # observations of all environments, step → actions


class Actions:
    """The actions of an episode, in one array that grows; an episode without end has millions of them."""

    def __init__(self, spec: ArraySpec, actions: np.ndarray | None = None) -> None:
        self._count = 0 if actions is None else len(actions)
        self._room = spec.zeros(max(16, 2 * self._count))
        if actions is not None and self._count:
            self._room[: self._count] = actions

    def append(self, action: np.ndarray) -> None:
        """Add an action."""
        if self._count == len(self._room):
            self._room = np.concatenate([self._room, np.zeros_like(self._room)])
        self._room[self._count] = action
        self._count += 1

    def array(self) -> np.ndarray:
        """All actions, as a copy."""
        return self._room[: self._count].copy()


@dataclass
class Episode:
    """An episode so far, with all that is needed to play it again."""

    number: int
    seed: int
    obs: np.ndarray
    actions: Actions
    total: float = 0.0  # sum of the rewards
    over: bool = False


class Collector:
    """Plays training episodes in one or more environments and stores what happens."""

    def __init__(
        self,
        settings: Settings[Any],
        envs: Sequence[Environment],
        replay: Replay,
        check_interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        """``check_interrupt`` is called between the steps of a replayed episode, and raises to stop there."""
        self.settings, self.envs, self.replay, self.check_interrupt = settings, envs, replay, check_interrupt
        self.spec = envs[0].spec
        self._warm_up = Stream(settings.seed, Purpose.WARM_UP)
        self._ended, self._returned = 0, 0.0  # episodes since the mean was last taken, and the sum of their returns
        self.episodes: list[Episode] = []

    def start(self) -> None:
        """Begin an episode in every environment."""
        self.episodes = [self._new_episode(env, number) for number, env in enumerate(self.envs)]

    def collect(self, act: Act, step: int) -> None:
        """One action in every environment; where an environment fails, nothing has changed since the step before."""
        for index, env in enumerate(self.envs):
            if self.episodes[index].over:
                self.episodes[index] = self._new_episode(env, self._next_number())
        actions = self._choose(act, step)
        results = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        for env, episode, action, result in zip(self.envs, self.episodes, actions, results, strict=True):
            next_obs, reward, terminated, truncated = result
            self.replay.add(episode.obs, action, self.settings.reward_scale * reward, next_obs, terminated, truncated)
            episode.obs = next_obs
            episode.actions.append(action)
            episode.total += reward
            episode.over = env.over  # a lost life terminates, but the game goes on
            if episode.over:
                self._ended += 1
                self._returned += episode.total

    def take_mean_return(self) -> float | None:
        """The mean return of the training episodes that ended since the last call; None if none did."""
        mean = self._returned / self._ended if self._ended else None
        self._ended, self._returned = 0, 0.0
        return mean

    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps of the running episodes as arrays."""
        kept: dict[str, np.ndarray] = {}
        for index, episode in enumerate(self.episodes):
            kept[f"episode{index}.obs"] = episode.obs
            kept[f"episode{index}.actions"] = episode.actions.array()
        return kept

    def facts(self) -> list[dict[str, Any]]:
        """What a checkpoint keeps of the running episodes as JSON."""
        names = ("number", "seed", "total", "over")
        return [{name: getattr(episode, name) for name in names} for episode in self.episodes]

    def restore(
        self, arrays: dict[str, np.ndarray], facts: list[dict[str, Any]], notify: Callable[[str], None]
    ) -> None:
        """Bring the environments to where they were: reset each with its episode's seed and repeat the actions."""
        for index, (env, fact) in enumerate(zip(self.envs, facts, strict=True)):
            obs, actions = arrays[f"episode{index}.obs"], arrays[f"episode{index}.actions"]
            if self._is_repeated(env, fact["seed"], actions, obs, fact["over"]):
                self.episodes.append(Episode(obs=obs, actions=Actions(self.spec.action.array, actions), **fact))
                continue
            notify(
                "the environment did not repeat its episode (it is not deterministic); a new episode starts, "
                "and the run will differ from one that was never interrupted."
            )
            self.replay.cut(index)
            following = 1 + max(fact["number"] for fact in facts)
            self.episodes.append(self._new_episode(env, following + index))

    def _choose(self, act: Act, step: int) -> np.ndarray:
        settings = self.settings
        if step < settings.warmup and settings.warmup_actions == "uniform":
            return self.spec.action.random(self._warm_up.at(step), len(self.envs))
        actions = np.asarray(act(np.array([episode.obs for episode in self.episodes]), step))
        if not np.isfinite(actions).all():
            raise SmrlError(
                f"the policy's action at step {step + 1:,} is not finite: training has diverged; lower the learning "
                "rates or the reuse."
            )
        return actions

    def _next_number(self) -> int:
        return 1 + max(episode.number for episode in self.episodes)

    def _new_episode(self, env: Environment, number: int) -> Episode:
        seed = environment_seed(self.settings.seed, Purpose.EPISODE, number)
        return Episode(number, seed, env.reset(seed), Actions(self.spec.action.array))

    def _is_repeated(
        self, env: Environment, seed: int, actions: np.ndarray, last_obs: np.ndarray, was_over: bool
    ) -> bool:
        """Play an episode again; whether it came to the same observation, and to an end only where it had ended."""
        is_over = False
        try:
            obs = env.reset(seed)
            for action in actions:
                self.check_interrupt()
                if is_over:
                    return False
                obs, *_ = env.step(action)
                is_over = env.over
        except EnvironmentFault:
            return False
        return is_over == was_over and np.array_equal(obs, last_obs)
