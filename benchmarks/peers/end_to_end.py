"""Training runs of SAC by SBX and Stable-Baselines3."""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.peers.libraries import SBX, model


class Run(NamedTuple):
    """What takes a few steps and what evaluates."""

    train: Callable[[], Any]
    evaluate: Callable[[], Any]


def sac(package: str, env: str, warmup: int, episodes: int, reuse: int, steps: int) -> Run:
    """A run that has begun to learn; an evaluation plays all episodes at once, as smrl's does."""
    vectors: Any = importlib.import_module("stable_baselines3.common.env_util")
    evaluation: Any = importlib.import_module("stable_baselines3.common.evaluation")
    agent = model(package, "sac", env, {}, learning_starts=warmup, gradient_steps=reuse, batch_size=256)
    agent.learn(warmup + 10)
    envs = vectors.make_vec_env(env, episodes, seed=1)

    def train() -> None:
        agent.learn(steps, reset_num_timesteps=False)
        if package == SBX:  # whose last updates may still be under way
            importlib.import_module("jax").block_until_ready(agent.policy.qf_state.params)

    return Run(
        train,
        lambda: evaluation.evaluate_policy(agent, envs, n_eval_episodes=episodes),
    )
