"""Collecting experience: environments, the episodes in progress, and how to continue them after a restart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smrl.envs.environment import Environment, EnvironmentFault
from smrl.errors import require
from smrl.memory.replay import Replay
from smrl.randomness import Purpose, Stream, environment_seed
from smrl.settings import Settings

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


def require_finite(actions: np.ndarray, step: int) -> None:
    """Refuse to take actions that are not finite."""
    require(
        bool(np.isfinite(actions).all()),
        f"the policy's action at step {step + 1:,} is not finite: training has diverged; lower the learning rates or "
        "the reuse.",
    )


class Collector:
    """Plays training episodes in one or more environments and stores their transitions."""

    def __init__(
        self,
        settings: Settings[Any],
        envs: Sequence[Environment],
        replay: Replay,
        check_interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        """``check_interrupt`` is called between the steps of a replayed episode; it may raise to stop there."""
        self.settings, self.envs, self.replay, self.check_interrupt = settings, envs, replay, check_interrupt
        self.spec = envs[0].spec
        self._warm_up = Stream(settings.seed, Purpose.WARM_UP)
        self._ended, self._return_sum = 0, 0.0  # episodes since the mean was last taken, and the sum of their returns
        self.episodes: list[Episode] = []

    def start(self) -> None:
        """Start an episode in every environment."""
        self.episodes = [self._new_episode(env, number) for number, env in enumerate(self.envs)]

    def collect(self, act: Act, step: int) -> None:
        """Act once in every environment; if an environment fails, nothing is stored."""
        for index, env in enumerate(self.envs):
            if self.episodes[index].over:
                following = 1 + max(episode.number for episode in self.episodes)
                self.episodes[index] = self._new_episode(env, following)
        actions = self._choose(act, step)
        results = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        for env, episode, action, result in zip(self.envs, self.episodes, actions, results, strict=True):
            next_obs, reward, terminated, truncated = result
            self.replay.add(episode.obs, action, self.settings.reward_scale * reward, next_obs, terminated, truncated)
            episode.obs = next_obs
            episode.actions += np.asarray(action, self.spec.action.array.dtype).tobytes()
            episode.total += reward
            episode.over = env.over  # losing a life terminates the MDP but not the episode
            if episode.over:
                self._ended += 1
                self._return_sum += episode.total

    def take_mean_return(self) -> float | None:
        """Return the mean return of the training episodes that ended since the last call; None if there were none."""
        mean = self._return_sum / self._ended if self._ended else None
        self._ended, self._return_sum = 0, 0.0
        return mean

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
        for index, (env, fact) in enumerate(zip(self.envs, facts, strict=True)):
            obs, actions = arrays[f"episode{index}.obs"], arrays[f"episode{index}.actions"]
            if self._is_repeated(env, fact["seed"], actions, obs, fact["over"]):
                self.episodes.append(Episode(obs=obs, actions=bytearray(actions.tobytes()), **fact))
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
        require_finite(actions, step)
        return actions

    def _new_episode(self, env: Environment, number: int) -> Episode:
        seed = environment_seed(self.settings.seed, Purpose.EPISODE, number)
        return Episode(number, seed, env.reset(seed), bytearray())

    def _is_repeated(
        self, env: Environment, seed: int, actions: np.ndarray, last_obs: np.ndarray, was_over: bool
    ) -> bool:
        """Replay an episode; return whether it led to the same observation, and ended only if it had ended."""
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
            self.check_interrupt()  # a signal may have ended processes of the environment
            return False
        return is_over == was_over and np.array_equal(obs, last_obs)
