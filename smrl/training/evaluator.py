"""Evaluation of policies, several episodes at once: one call of the policy per step serves all of them."""

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from smrl.envs.make import EnvFactory, Raw
from smrl.envs.workers import Env, WorkerDied, insist
from smrl.randomness import Purpose, environment_seed
from smrl.training.run import Run, make_environment, require_run
from smrl.validation import Size, convert

AT_ONCE = 16  # episodes played at the same time
ENDLESS = 100_000  # steps of one episode after which to warn

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Episodes:
    """The rewards of each episode, in the order of the episodes' numbers."""

    rewards: list[list[float]]
    starts: list[int]  # calls of the policy before the first one of each episode

    @property
    def returns(self) -> np.ndarray:
        """Undiscounted return of each episode."""
        return np.array([sum(rewards) for rewards in self.rewards])

    @property
    def lengths(self) -> np.ndarray:
        """Agent steps of each episode."""
        return np.array([len(rewards) for rewards in self.rewards])


class Evaluator:
    """Plays episodes in environments kept for it; every call resets them with the same seeds."""

    def __init__(
        self,
        make_env: Callable[[], Env],
        episodes: int,
        seed: int,
        purpose: Purpose = Purpose.EVALUATE,
        notify: Callable[[str], None] = logger.warning,
        at_once: int = AT_ONCE,
    ) -> None:
        """Make the environments; ``notify`` receives one warning about an episode that does not end."""
        self.envs = [make_env() for _ in range(min(episodes, at_once))]
        self.episodes, self.seed, self.purpose, self.notify = episodes, seed, purpose, notify
        self._has_warned = False

    def seeds(self, first: int = 0) -> list[int]:
        """Return the seeds of the episodes, starting at number ``first``."""
        return [environment_seed(self.seed, self.purpose, first + index) for index in range(self.episodes)]

    def __call__(
        self, policy: Callable[[np.ndarray], np.ndarray], first: int = 0, halt: Callable[[], bool] = lambda: False
    ) -> Episodes | None:
        """Play all episodes, starting at number ``first``; return None if ``halt()`` becomes true.

        The policy maps (environments, *obs) to (environments, *action), in the algorithm's units.
        """
        seeds = self.seeds(first)
        rewards: list[list[float]] = [[] for _ in seeds]
        episode_of = {index: index for index in range(len(self.envs))}  # environment → the episode that it plays
        waiting = iter(range(len(self.envs), len(seeds)))
        starts, calls = [0] * len(seeds), 0
        obs = np.stack(self._reset({index: seeds[index] for index in episode_of}))
        while episode_of:
            if halt():
                return None
            actions, calls = policy(obs), calls + 1
            begun = [(index, self.envs[index].begin_step(actions[index])) for index in episode_of]
            resets: dict[int, int] = {}  # environment → seed
            for index, finish in begun:
                episode = episode_of[index]
                try:
                    obs[index], reward, terminated, truncated = finish()
                except WorkerDied as died:
                    died.worker.replace(died, "its episode is repeated from the start")
                    rewards[episode], starts[episode], resets[index] = [], calls, seeds[episode]
                    continue
                rewards[episode].append(reward)
                if len(rewards[episode]) == ENDLESS and not self._has_warned:
                    self._has_warned = True
                    where = f"an episode of {self.envs[0].name} has not ended after {ENDLESS:,} steps of an evaluation"
                    self.notify(f"{where}; if it never ends, train with --max-episode-steps.")
                if terminated or truncated:
                    del episode_of[index]
                    for following in waiting:
                        episode_of[index], starts[following], resets[index] = following, calls, seeds[following]
                        break
            for index, first_obs in zip(resets, self._reset(resets), strict=True):
                obs[index] = first_obs
        return Episodes(rewards, starts)

    def _reset(self, seeds: Mapping[int, int]) -> list[np.ndarray]:
        """Reset environments, with a seed each, and return their observations."""
        begun = {index: self.envs[index].begin_reset(seed) for index, seed in seeds.items()}
        return [insist(begun[index], partial(self.envs[index].begin_reset, seed)) for index, seed in seeds.items()]

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs:
            env.close()


def evaluate(
    run: Run, episodes: int = 10, *, best: bool = False, env: str | Callable[..., Raw] | None = None
) -> Episodes:
    """Play episodes of a run's greedy policy; the first ones are those of the run's evaluations.

    With ``best`` it is the policy of the best evaluation instead of the newest one. ``env`` is needed only if a
    function made the run's environment. To repeat the run's evaluations to the last bit, JAX must compute with
    ``run.threads`` threads, as `smrl evaluate` does.

    >>> evaluate(load("runs/Hopper-v4/sac-reuse10/seed0"), episodes=20).returns.mean()          # doctest: +SKIP
    """
    run, episodes = require_run(run), convert("episodes", episodes, Size)
    policy = run.best_policy if convert("best", best, bool) else run.policy
    factory = EnvFactory(lambda: make_environment(run, env))
    at_once = 1 if run.settings.real_time else AT_ONCE  # there is one device
    with contextlib.closing(Evaluator(factory, episodes, run.settings.seed, at_once=at_once)) as evaluator:
        played = evaluator(policy.act)
    assert played is not None
    return played
