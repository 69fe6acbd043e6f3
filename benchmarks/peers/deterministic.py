"""Eager PyTorch loops of DDPG, TD3 and DARC; each takes a batch size and a number of reuses."""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.peers.eager import (
    ACTIONS,
    GAMMA,
    OBS,
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


def actor_of(*hidden: int) -> Any:
    return mlp((OBS, *hidden, ACTIONS), nn.Tanh())


def noisy(action: Any, noise: Any) -> Any:
    """Target policy smoothing."""
    return (action + noise.clamp(-0.5, 0.5)).clamp(-1, 1)


def ddpg(batch_size: int, reuse: int) -> Callable[[], None]:
    batch, actor, critic = random_batch(batch_size), actor_of(256, 256), Critics(1, (256, 256))
    target_actor, target_critic = target_of(actor), target_of(critic)
    actor_adam, critic_adam = adam(actor), adam(critic)

    def update() -> None:
        with torch.no_grad():
            y = batch.reward + GAMMA * target_critic(batch.next_obs, target_actor(batch.next_obs))[0]
        descend(critic_adam, nn.functional.mse_loss(critic(batch.obs, batch.action)[0], y))
        descend(actor_adam, -critic(batch.obs, actor(batch.obs)).mean())
        follow(target_critic, critic)
        follow(target_actor, actor)

    return repeated(update, reuse)


def td3(batch_size: int, reuse: int) -> Callable[[], None]:
    """Two learning steps: in the second one the actor and the targets learn in every reuse."""
    batch, actor, critics = random_batch(batch_size), actor_of(256, 256), Critics(2, (256, 256))
    target_actor, target_critics = target_of(actor), target_of(critics)
    actor_adam, critic_adam = adam(actor), adam(critics)

    def update(is_due: bool) -> None:
        with torch.no_grad():
            next_action = noisy(target_actor(batch.next_obs), 0.2 * torch.randn_like(batch.action))
            y = batch.reward + GAMMA * target_critics(batch.next_obs, next_action).min(0).values
        q1, q2 = critics(batch.obs, batch.action)
        descend(critic_adam, nn.functional.mse_loss(q1, y) + nn.functional.mse_loss(q2, y))
        if is_due:
            pair = torch.cat([batch.obs, actor(batch.obs)], 1)
            descend(actor_adam, -critics.members[0](pair).mean())
            follow(target_critics, critics)
            follow(target_actor, actor)

    def call() -> None:
        for is_due in (False, True):
            repeated(partial(update, is_due), reuse)()

    return call


def darc(batch_size: int, reuse: int) -> Callable[[], None]:
    """One learning step: both pairs learn in turns, each from its own batch."""
    batches = [random_batch(batch_size) for _ in range(2)]
    actors, critics = [actor_of(400, 300) for _ in range(2)], [Critics(1, (400, 300)) for _ in range(2)]
    target_actors, target_critics = ([target_of(network) for network in pair] for pair in (actors, critics))
    actor_adams, critic_adams = ([adam(network, 1e-3) for network in pair] for pair in (actors, critics))

    def update(own: int) -> None:
        batch = batches[own]
        with torch.no_grad():
            noise, values = 0.2 * torch.randn_like(batch.action), []
            for target_actor in target_actors:
                next_action = noisy(target_actor(batch.next_obs), noise)
                values.append(torch.min(*(critic(batch.next_obs, next_action)[0] for critic in target_critics)))
            y = batch.reward + GAMMA * (0.1 * torch.min(*values) + 0.9 * torch.max(*values))
        q, other_q = (critics[index](batch.obs, batch.action)[0] for index in (own, 1 - own))
        descend(critic_adams[own], nn.functional.mse_loss(q, y) + 0.005 * nn.functional.mse_loss(q, other_q.detach()))
        descend(actor_adams[own], -critics[own](batch.obs, actors[own](batch.obs)).mean())
        follow(target_critics[own], critics[own])
        follow(target_actors[own], actors[own])

    def call() -> None:
        for own in (0, 1):
            repeated(partial(update, own), reuse)()

    return call
