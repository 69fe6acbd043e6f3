"""Eager PyTorch on images: the gradient of an encoder, and the updates of DQN and DrQ-v2; oneDNN computes them."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.peers.eager import GAMMA, adam, descend, follow, mlp, nn, repeated, target_of, torch

Layers = Sequence[tuple[int, int, int]]  # filters, kernel, stride
SIDE, ACTIONS = 84, 6
DRQ: Layers = ((32, 3, 2), (32, 3, 1), (32, 3, 1), (32, 3, 1))


def random_images(count: int, channels: int, channels_last: bool = False) -> Any:
    """PyTorch's order of the axes is (batch, channels, height, width), in whichever order they lie in memory."""
    torch.manual_seed(0)
    return torch.randint(0, 256, (count, channels, SIDE, SIDE), dtype=torch.uint8).contiguous(
        memory_format=_order(channels_last)
    )


def _order(channels_last: bool) -> Any:
    return torch.channels_last if channels_last else torch.contiguous_format


def encoder_of(channels: int, layers: Layers, channels_last: bool = False) -> Any:
    modules: list[Any] = []
    for filters, kernel, stride in layers:
        modules += [nn.Conv2d(channels, filters, kernel, stride), nn.ReLU()]
        channels = filters
    return nn.Sequential(*modules, nn.Flatten()).to(memory_format=_order(channels_last))


def encoder_gradient(
    channels: int, layers: Layers, batch_size: int, times: int, channels_last: bool
) -> Callable[[], None]:
    """Gradients of the mean square of the features, each followed by a step."""
    encoder, images = encoder_of(channels, layers, channels_last), random_images(batch_size, channels, channels_last)
    optimiser = torch.optim.SGD(encoder.parameters(), 1e-4)
    return repeated(lambda: descend(optimiser, encoder(images.float() / 255).square().mean()), times)


def dqn(channels_last: bool, batch_size: int, reuse: int) -> Callable[[], None]:
    """With the convolutions of the peers, which have 64 filters in the last one, and a hidden layer of 256."""
    encoder = encoder_of(4, ((32, 8, 4), (64, 4, 2), (64, 3, 1)), channels_last)
    network = nn.Sequential(encoder, mlp((64 * 7 * 7, 256, ACTIONS)))
    target, optimiser, reward = target_of(network), adam(network, 1e-4), torch.randn(batch_size)
    obs, next_obs = random_images(2 * batch_size, 4, channels_last).split(batch_size)
    action = torch.randint(0, ACTIONS, (batch_size, 1))

    def update() -> None:
        with torch.no_grad():
            y = reward + GAMMA * target(next_obs.float() / 255).max(1).values
        q = network(obs.float() / 255).gather(1, action)[:, 0]
        descend(optimiser, nn.functional.mse_loss(q, y))

    return repeated(update, reuse)


class DrQ:
    """Networks of DrQ-v2 with the sizes of its authors."""

    def __init__(self, channels_last: bool) -> None:
        def trunk() -> Any:
            return nn.Sequential(nn.Linear(35 * 35 * 32, 50), nn.LayerNorm(50), nn.Tanh())

        self.order = _order(channels_last)
        self.encoder = encoder_of(9, DRQ, channels_last)
        self.actor = nn.Sequential(trunk(), mlp((50, 1024, 1024, ACTIONS)), nn.Tanh())
        self.critics = nn.ModuleList([trunk(), *(mlp((50 + ACTIONS, 1024, 1024, 1)) for _ in range(2))])
        self.target = target_of(self.critics)

    def encode(self, images: Any) -> Any:
        """After a random shift by up to four pixels: padded by the pixels of the border, and cropped."""
        count = len(images)
        padded = nn.functional.pad(images.float(), (4, 4, 4, 4), mode="replicate")
        rows, columns = (torch.randint(0, 9, (count, 1)) + torch.arange(SIDE) for _ in range(2))
        shifted = padded.permute(0, 2, 3, 1)[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None]]
        return self.encoder(shifted.permute(0, 3, 1, 2).contiguous(memory_format=self.order) / 255 - 0.5)

    def act(self, h: Any) -> Any:
        """Clipped noise on the mean; the gradient ignores that actions are bounded."""
        mean = self.actor(h)
        wanted = mean + (0.5 * torch.randn_like(mean)).clamp(-0.3, 0.3)
        return wanted + (wanted.clamp(-1 + 1e-6, 1 - 1e-6) - wanted).detach()

    @staticmethod
    def values(critics: Any, h: Any, action: Any) -> tuple[Any, Any]:
        x = torch.cat([critics[0](h), action], -1)
        return critics[1](x), critics[2](x)


def drqv2(channels_last: bool, batch_size: int, reuse: int) -> Callable[[], None]:
    nets = DrQ(channels_last)
    adams = [adam(network, 1e-4) for network in (nets.encoder, nets.critics, nets.actor)]
    obs, next_obs = random_images(2 * batch_size, 9, channels_last).split(batch_size)
    action, reward = torch.rand(batch_size, ACTIONS) * 2 - 1, torch.randn(batch_size, 1)

    def update() -> None:
        with torch.no_grad():
            next_h = nets.encode(next_obs)
            y = reward + GAMMA**3 * torch.min(*nets.values(nets.target, next_h, nets.act(next_h)))
        h = nets.encode(obs)
        q1, q2 = nets.values(nets.critics, h, action)
        adams[0].zero_grad()
        descend(adams[1], nn.functional.mse_loss(q1, y) + nn.functional.mse_loss(q2, y))
        adams[0].step()
        h = h.detach()
        descend(adams[2], -torch.min(*nets.values(nets.critics, h, nets.act(h))).mean())
        follow(nets.target, nets.critics, 0.01)

    return repeated(update, reuse)
