"""An eager PyTorch loop of DQN on vectors."""

from collections.abc import Callable

from benchmarks.peers.eager import (
    ACTIONS,
    GAMMA,
    OBS,
    adam,
    descend,
    mlp,
    nn,
    random_batch,
    repeated,
    target_of,
    torch,
)


def dqn(batch_size: int, reuse: int) -> Callable[[], None]:
    batch, network = random_batch(batch_size), mlp((OBS, 256, 256, ACTIONS))
    target, optimiser = target_of(network), adam(network, 1e-4)
    action = torch.randint(0, ACTIONS, (batch_size, 1))

    def update() -> None:
        with torch.no_grad():
            y = batch.reward + GAMMA * target(batch.next_obs).max(1, keepdim=True).values
        descend(optimiser, nn.functional.mse_loss(network(batch.obs).gather(1, action), y))

    return repeated(update, reuse)
