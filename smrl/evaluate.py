"""Greedy roll-outs, several episodes at once: one call of the policy per step serves all of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smrl.envs.environment import Environment
from smrl.randomness import Purpose, environment_seed

AT_ONCE = 16


@dataclass(frozen=True)
class Episodes:
    """The rewards of each episode, in the order of the episodes' numbers."""

    rewards: list[list[float]]

    @property
    def returns(self) -> np.ndarray:
        """Undiscounted."""
        return np.array([sum(rewards) for rewards in self.rewards])

    @property
    def lengths(self) -> np.ndarray:
        """Steps of each."""
        return np.array([len(rewards) for rewards in self.rewards])


class Evaluator:
    """Environments of its own, reset with the same seeds at every call: every evaluation sees the same starts."""

    def __init__(
        self, make_env: Callable[[], Environment], episodes: int, seed: int, purpose: Purpose = Purpose.EVALUATE
    ) -> None:
        self.envs = [make_env() for _ in range(min(episodes, AT_ONCE))]
        self.episodes, self.seed, self.purpose = episodes, seed, purpose

    def seeds(self, first: int = 0) -> list[int]:
        """What the episodes from a number on are reset with."""
        return [environment_seed(self.seed, self.purpose, first + index) for index in range(self.episodes)]

    def __call__(self, policy: Callable[[np.ndarray], np.ndarray], first: int = 0) -> Episodes:
        """Run all episodes from a number on; the policy maps (environments, obs) to actions in [-1, 1]."""
        seeds = self.seeds(first)
        rewards: list[list[float]] = [[] for _ in seeds]
        episode_of = dict(enumerate(range(len(self.envs))))  # environment → the episode that it plays
        waiting = iter(range(len(self.envs), len(seeds)))
        obs = np.stack([env.reset(seeds[index]) for index, env in enumerate(self.envs)])
        while episode_of:
            actions = policy(obs)
            for index, episode in list(episode_of.items()):
                obs[index], reward, terminated, truncated = self.envs[index].step(actions[index])
                rewards[episode].append(reward)
                if terminated or truncated:
                    del episode_of[index]
                    for following in waiting:
                        episode_of[index] = following
                        obs[index] = self.envs[index].reset(seeds[following])
                        break
        return Episodes(rewards)

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs:
            env.close()
