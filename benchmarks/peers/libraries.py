"""SBX and Stable-Baselines3 with the networks, batches and numbers of updates of smrl's.

`train` is timed on batches drawn beforehand: what it costs to draw them is a part of the end-to-end section. SBX takes
all batches of a call at once, Stable-Baselines3 one per update. They have no reuse: their M updates are on M batches,
which is the same work. TD3 is timed over two learning steps of M updates: smrl's actor learns in all updates of the
second one, theirs in every second update, so that both make as many updates of the actor; SBX moves TD3's targets in
every update. SBX's TQC has two critics and no other number, and so have those that it is compared with.
"""

import importlib
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from benchmarks.peers.eager import torch
from smrl.types import ArraySpec, Discrete, Spec

SBX, SB3 = "sbx", "stable_baselines3"
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # class, its arguments, those of its policy
    "ddpg": ("DDPG", {}, {"net_arch": [256, 256]}),
    "td3": ("TD3", {"policy_delay": 2}, {"net_arch": [256, 256], "n_critics": 2}),
    "sac": ("SAC", {"ent_coef": "auto"}, {"net_arch": [256, 256], "n_critics": 2}),
    "sac-layer-norm": (
        "SAC",
        {"ent_coef": "auto"},
        {"net_arch": {"pi": [256, 256], "qf": [256] * 3}, "n_critics": 2, "layer_norm": True},
    ),
    "sac-simba": ("SAC", {"ent_coef": "auto"}, {"net_arch": {"pi": [128], "qf": [128, 128]}, "n_critics": 2}),
    "crossq": ("CrossQ", {"ent_coef": "auto"}, {"net_arch": {"pi": [256, 256], "qf": [256] * 3}, "n_critics": 2}),
    "tqc": ("TQC", {"ent_coef": "auto"}, {"net_arch": {"pi": [256, 256], "qf": [512, 512, 512]}, "n_quantiles": 25}),
    "dqn": ("DQN", {"learning_rate": 1e-4}, {"net_arch": [256, 256]}),
    "dqn-images": ("DQN", {"learning_rate": 1e-4}, {}),  # their convolutions are 32, 64, 64
}
HIDDEN_BEHIND_CONVOLUTIONS: dict[str, dict[str, Any]] = {
    SBX: {"net_arch": [256]},
    SB3: {"features_extractor_kwargs": {"features_dim": 256}, "net_arch": []},
}


class Spaces(gymnasium.Env[Any, Any]):
    """An environment that only has spaces; images have their channels first."""

    def __init__(self, spec: Spec) -> None:
        if len(spec.obs.shape) == 3:
            self.observation_space = gymnasium.spaces.Box(0, 255, np.roll(spec.obs.shape, 1).tolist(), np.uint8)
        else:
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, spec.obs.shape)
        is_discrete = isinstance(spec.action, Discrete)
        self.action_space = gymnasium.spaces.Discrete(6) if is_discrete else gymnasium.spaces.Box(-1, 1, (6,))


def model(package: str, name: str, env: Any, policy: dict[str, Any], **settings: Any) -> Any:
    """A library's agent for an environment, silent."""
    class_name, changes, networks = MODELS[name]
    library = importlib.import_module("sb3_contrib" if (package, name) == (SB3, "tqc") else package)
    kind = {"dqn-images": "CnnPolicy", "sac-simba": "SimbaPolicy"}.get(name, "MlpPolicy")
    settings = {"learning_rate": 3e-4, "device": "cpu", "seed": 0} | changes | settings
    made = getattr(library, class_name)(kind, env, policy_kwargs=networks | policy, **settings)
    made.set_logger(importlib.import_module("stable_baselines3.common.logger").configure(None, []))
    return made


def training(
    package: str, name: str, spec: Spec, policy: dict[str, Any], steps: int, batch_size: int, reuse: int
) -> Callable[[], None]:
    """Make a number of learning steps of M updates each."""
    if name == "dqn-images":
        policy = HIDDEN_BEHIND_CONVOLUTIONS[package]
    agent = model(package, name, Spaces(spec), policy, buffer_size=2)
    rows = batch_size * reuse if package == SBX else batch_size
    aliases: Any = importlib.import_module("stable_baselines3.common.type_aliases")
    discrete = isinstance(spec.action, Discrete)
    samples = aliases.ReplayBufferSamples(
        observations=_observations(spec.obs, rows),
        next_observations=_observations(spec.obs, rows),
        actions=torch.randint(0, 6, (rows, 1)) if discrete else torch.rand(rows, 6) * 2 - 1,
        rewards=torch.randn(rows, 1),
        dones=torch.zeros(rows, 1),
    )
    agent.replay_buffer.sample = lambda *_, **__: samples

    def call() -> None:
        for _ in range(steps):
            agent.train(gradient_steps=reuse, batch_size=batch_size)

    for _ in range(getattr(agent, "policy_delay", 1)):  # SBX compiles again for every phase of the delay
        call()
    return call


def _observations(spec: ArraySpec, rows: int) -> Any:
    if len(spec.shape) == 3:
        return torch.randint(0, 256, (rows, spec.shape[-1], *spec.shape[:-1]), dtype=torch.uint8)
    return torch.randn(rows, *spec.shape)
