"""Eager PyTorch loops of SAC, TQC and REDQ; each takes a batch size and a number of reuses."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.peers.eager import (
    ACTIONS,
    GAMMA,
    OBS,
    Batch,
    Critics,
    adam,
    descend,
    follow,
    mlp,
    nn,
    random_batch,
    repeated,
    target_of,
    torch,
)

TARGET_ENTROPY = -float(ACTIONS)


class Actor:
    """A tanh-Gaussian policy and its temperature, each with its Adam."""

    def __init__(self) -> None:
        self.network = mlp((OBS, 256, 256, 2 * ACTIONS))
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.adam, self.alpha_adam = adam(self.network), torch.optim.Adam([self.log_alpha], 3e-4)

    def sample(self, obs: Any) -> tuple[Any, Any]:
        """Actions and their log-probabilities."""
        mean, log_std = self.network(obs).chunk(2, -1)
        gaussian = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
        raw = gaussian.rsample()
        squash = 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
        return torch.tanh(raw), (gaussian.log_prob(raw) - squash).sum(-1, keepdim=True)

    def improve(self, obs: Any, value: Callable[[Any, Any], Any]) -> None:
        """One step of the actor towards a higher value, and one of the temperature."""
        action, log_prob = self.sample(obs)
        descend(self.adam, (self.log_alpha.exp().detach() * log_prob - value(obs, action)).mean())
        descend(self.alpha_adam, -(self.log_alpha.exp() * (log_prob.detach() + TARGET_ENTROPY)).mean())


def soft_target(actor: Actor, batch: Batch, judge: Callable[[Any, Any], Any]) -> Any:
    """r + γ (judge(s′, a′) − α log π(a′|s′))."""
    with torch.no_grad():
        next_action, log_prob = actor.sample(batch.next_obs)
        return batch.reward + GAMMA * (judge(batch.next_obs, next_action) - actor.log_alpha.exp() * log_prob)


def sac(batch_size: int, reuse: int) -> Callable[[], None]:
    batch, actor, critics = random_batch(batch_size), Actor(), Critics(2, (256, 256))
    target, critic_adam = target_of(critics), adam(critics)

    def update() -> None:
        y = soft_target(actor, batch, lambda obs, action: target(obs, action).min(0).values)
        q1, q2 = critics(batch.obs, batch.action)
        descend(critic_adam, nn.functional.mse_loss(q1, y) + nn.functional.mse_loss(q2, y))
        critics.requires_grad_(False)  # as the authors freeze the critics for the actor's step
        actor.improve(batch.obs, lambda obs, action: critics(obs, action).min(0).values)
        critics.requires_grad_(True)
        follow(target, critics)

    return repeated(update, reuse)


def tqc(critic_count: int, batch_size: int, reuse: int) -> Callable[[], None]:
    batch, actor, atoms = random_batch(batch_size), Actor(), 25
    critics = Critics(critic_count, (512, 512, 512), atoms)
    target, critic_adam = target_of(critics), adam(critics)
    fractions = ((torch.arange(atoms) + 0.5) / atoms)[:, None]

    def kept(obs: Any, action: Any) -> Any:
        """The atoms of all critics without the largest, two per critic."""
        pooled = target(obs, action).transpose(0, 1).flatten(1)
        return pooled.sort(-1).values[:, : critic_count * (atoms - 2)]

    def update() -> None:
        y = soft_target(actor, batch, kept)
        z = critics(batch.obs, batch.action)
        delta = y[None, :, None, :] - z[..., None]  # critics, batch, atoms, targets
        huber = torch.where(delta.abs() > 1, delta.abs() - 0.5, delta**2 / 2)
        descend(critic_adam, ((fractions - (delta < 0).float()).abs() * huber).mean())
        actor.improve(batch.obs, lambda obs, action: critics(obs, action).mean(2).mean(0)[:, None])
        follow(target, critics)

    return repeated(update, reuse)


def redq(fresh_batches: int, batch_size: int, reuse: int) -> Callable[[], None]:
    """One learning step; the actor learns on the last fresh batch."""
    batches = [random_batch(batch_size) for _ in range(fresh_batches)]
    actor, critics = Actor(), Critics(10, (256, 256))
    target, critic_adam = target_of(critics), adam(critics)

    def update(index: int) -> None:
        batch, drawn = batches[index], torch.randperm(10)[:2].tolist()

        def smallest(obs: Any, action: Any) -> Any:
            pair = torch.cat([obs, action], 1)
            return torch.min(*(target.members[member](pair) for member in drawn))

        y = soft_target(actor, batch, smallest)
        q = critics(batch.obs, batch.action)
        descend(critic_adam, 10 * nn.functional.mse_loss(q, y.expand_as(q)))
        if index == fresh_batches - 1:
            actor.improve(batch.obs, lambda obs, action: critics(obs, action).mean(0))
        follow(target, critics)

    def call() -> None:
        for index in range(fresh_batches):
            repeated(partial(update, index), reuse)()

    return call
