"""Greedy roll-outs, several episodes at once: one call of the policy per step serves all of them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from smrl.envs.environment import Environment
from smrl.randomness import Purpose, environment_seed

AT_ONCE = 16


class Episodes(NamedTuple):
    """Undiscounted returns and lengths, in the order of the episodes' seeds."""

    returns: np.ndarray
    lengths: np.ndarray


class Evaluator:
    """Environments of its own, reset with the same seeds at every call: every evaluation sees the same starts."""

    def __init__(self, make_env: Callable[[], Environment], episodes: int, seed: int) -> None:
        self.envs = [make_env() for _ in range(min(episodes, AT_ONCE))]
        self.seeds = [environment_seed(seed, Purpose.EVALUATE, episode) for episode in range(episodes)]

    def __call__(self, policy: Callable[[np.ndarray], np.ndarray]) -> Episodes:
        """Run all episodes; the policy maps (environments, obs) to actions in [-1, 1]."""
        returns, lengths = np.zeros(len(self.seeds)), np.zeros(len(self.seeds), int)
        episode_of = dict(enumerate(range(len(self.envs))))  # environment → the episode that it plays
        waiting = iter(range(len(self.envs), len(self.seeds)))
        obs = np.stack([env.reset(self.seeds[index]) for index, env in enumerate(self.envs)])
        while episode_of:
            actions = policy(obs)
            for index, episode in list(episode_of.items()):
                obs[index], reward, terminated, truncated = self.envs[index].step(actions[index])
                returns[episode] += reward
                lengths[episode] += 1
                if terminated or truncated:
                    del episode_of[index]
                    for following in waiting:
                        episode_of[index] = following
                        obs[index] = self.envs[index].reset(self.seeds[following])
                        break
        return Episodes(returns, lengths)

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs:
            env.close()
