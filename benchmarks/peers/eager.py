"""What the eager PyTorch loops share: plain layers, one Adam per network and one `backward` per loss."""

import copy
import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from smrl import machine

torch: Any = importlib.import_module("torch")  # as any, for whoever has not installed it checks types too
nn: Any = torch.nn
torch.set_num_threads(machine.threads())

GAMMA, OBS, ACTIONS = 0.99, 17, 6


class Batch(NamedTuple):
    """Random transitions."""

    obs: Any
    action: Any
    reward: Any  # (batch, 1)
    next_obs: Any


def random_batch(size: int) -> Batch:
    torch.manual_seed(0)
    obs, next_obs = torch.randn(size, OBS), torch.randn(size, OBS)
    return Batch(obs, torch.rand(size, ACTIONS) * 2 - 1, torch.randn(size, 1), next_obs)


def mlp(sizes: Sequence[int], *last: Any) -> Any:
    """Return linear layers with ReLU between them, and a last module."""
    layers: list[Any] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1], *last)


class Critics(nn.Module):
    """Several networks of an observation and an action; their answers are stacked."""

    def __init__(self, count: int, hidden: Sequence[int], outputs: int = 1) -> None:
        super().__init__()
        self.members = nn.ModuleList([mlp((OBS + ACTIONS, *hidden, outputs)) for _ in range(count)])

    def forward(self, obs: Any, action: Any) -> Any:  # (members, batch, outputs)
        pair = torch.cat([obs, action], 1)
        return torch.stack([member(pair) for member in self.members])


def target_of(network: Any) -> Any:
    return copy.deepcopy(network).requires_grad_(False)


def adam(network: Any, rate: float = 3e-4) -> Any:
    return torch.optim.Adam(network.parameters(), rate)


def descend(optimiser: Any, loss: Any) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def follow(target: Any, network: Any, tau: float = 0.005) -> None:
    """Update a target network, parameter by parameter."""
    for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
        slow.data.copy_(tau * fast.data + (1 - tau) * slow.data)


def repeated(update: Callable[[], None], times: int) -> Callable[[], None]:
    def call() -> None:
        for _ in range(times):
            update()

    return call
