"""What smrl's encoders and updates of images are compared with: PyTorch, SBX and Stable-Baselines3, each on one thread.

They are optional: `pip install "smrl[peers]"`. The function that needs one imports it.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

Layers = Sequence[tuple[int, int, int]]  # filters, kernel, stride
SIDE = 84
ENCODERS: dict[str, tuple[int, Layers]] = {  # channels of the images, convolutions
    "DrQ-v2": (9, ((32, 3, 2), (32, 3, 1), (32, 3, 1), (32, 3, 1))),
    "DQN": (4, ((32, 8, 4), (64, 4, 2), (32, 3, 1))),
    "SAC": (9, ((32, 7, 2), (32, 5, 2), (32, 3, 2), (32, 3, 2))),
}


def random_images(batch: int, channels: int) -> Any:
    return np.random.default_rng(0).integers(0, 256, (batch, SIDE, SIDE, channels), np.uint8)


def single_threaded_torch() -> Any:
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return torch


def torch_images(torch: Any, batch: int, channels: int, channels_last: bool) -> Any:
    """PyTorch's order of the axes is (batch, channels, height, width), in whichever order they lie in memory."""
    images = torch.from_numpy(random_images(batch, channels)).permute(0, 3, 1, 2)
    return images.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)


def torch_encoder(torch: Any, channels: int, layers: Layers, channels_last: bool) -> Any:
    modules: list[Any] = []
    for filters, kernel, stride in layers:
        modules += [torch.nn.Conv2d(channels, filters, kernel, stride), torch.nn.ReLU()]
        channels = filters
    encoder = torch.nn.Sequential(*modules, torch.nn.Flatten())
    return encoder.to(memory_format=torch.channels_last) if channels_last else encoder


def encoder_gradient(channels: int, layers: Layers, batch: int, times: int, channels_last: bool) -> Callable[[], None]:
    """Gradients of the mean square of the features, each followed by a step."""
    torch = single_threaded_torch()
    encoder = torch_encoder(torch, channels, layers, channels_last)
    images = torch_images(torch, batch, channels, channels_last)
    optimiser = torch.optim.SGD(encoder.parameters(), 1e-4)

    def call() -> None:
        for _ in range(times):
            optimiser.zero_grad()
            encoder(images.float() / 255).square().mean().backward()
            optimiser.step()

    return call


class Atari(gymnasium.Env[Any, Any]):
    """Spaces of an Atari game with four stacked frames; nothing else is asked of it."""

    observation_space = gymnasium.spaces.Box(0, 255, (4, SIDE, SIDE), np.uint8)
    action_space = gymnasium.spaces.Discrete(6)


def dqn(package: str, policy: dict[str, Any], at_once: bool) -> Callable[[int, int], Callable[[], None]]:
    """A library's DQN with the convolutions 32, 64, 64 and a hidden layer of 256, whose batches are drawn beforehand.

    SBX draws the batches of several updates at once.
    """

    def make(batch: int, times: int) -> Callable[[], None]:
        torch, library = single_threaded_torch(), importlib.import_module(package)
        logger: Any = importlib.import_module("stable_baselines3.common.logger")
        model = library.DQN("CnnPolicy", Atari(), buffer_size=2, policy_kwargs=policy, device="cpu")
        model.set_logger(logger.configure(None, []))
        rows = batch * times if at_once else batch
        images = torch_images(torch, 2 * rows, 4, False)
        buffers: Any = importlib.import_module("stable_baselines3.common.type_aliases")
        samples = buffers.ReplayBufferSamples(
            observations=images[:rows],
            next_observations=images[rows:],
            actions=torch.randint(0, 6, (rows, 1)),
            rewards=torch.randn(rows, 1),
            dones=torch.zeros(rows, 1),
        )
        model.replay_buffer.sample = lambda *_, **__: samples
        return lambda: model.train(gradient_steps=times, batch_size=batch)

    return make


def drqv2(channels_last: bool) -> Callable[[int, int], Callable[[], None]]:
    """An eager update of DrQ-v2 for six actions, with the sizes of its authors."""

    def make(batch: int, times: int) -> Callable[[], None]:
        torch = single_threaded_torch()
        nn, functional = torch.nn, torch.nn.functional
        channels, layers = ENCODERS["DrQ-v2"]
        features = 35 * 35 * 32

        def trunk() -> Any:
            return nn.Sequential(nn.Linear(features, 50), nn.LayerNorm(50), nn.Tanh())

        def head(inputs: int, outputs: int) -> list[Any]:
            sizes = (nn.Linear(inputs, 1024), nn.Linear(1024, 1024), nn.Linear(1024, outputs))
            return [sizes[0], nn.ReLU(), sizes[1], nn.ReLU(), sizes[2]]

        def critics() -> Any:
            return nn.ModuleList([trunk(), nn.Sequential(*head(56, 1)), nn.Sequential(*head(56, 1))])

        encoder = torch_encoder(torch, channels, layers, channels_last)
        actor, critic, target = nn.Sequential(trunk(), *head(50, 6), nn.Tanh()), critics(), critics()
        target.load_state_dict(critic.state_dict())
        optimisers = [torch.optim.Adam(part.parameters(), 1e-4) for part in (encoder, critic, actor)]
        images = torch_images(torch, 2 * batch, channels, channels_last)
        obs, next_obs = images[:batch], images[batch:]
        action, reward = torch.rand(batch, 6) * 2 - 1, torch.randn(batch, 1)

        def encode(images: Any) -> Any:
            """After a random shift by up to four pixels: padded by the pixels of the border, and cropped."""
            padded = functional.pad(images.float(), (4, 4, 4, 4), mode="replicate")
            rows, columns = (torch.randint(0, 9, (batch, 1)) + torch.arange(SIDE) for _ in range(2))
            shifted = padded.permute(0, 2, 3, 1)[torch.arange(batch)[:, None, None], rows[:, :, None], columns[:, None]]
            order = torch.channels_last if channels_last else torch.contiguous_format
            return encoder(shifted.permute(0, 3, 1, 2).contiguous(memory_format=order) / 255 - 0.5)

        def act(h: Any) -> Any:
            mean = actor(h)
            wanted = mean + (0.5 * torch.randn_like(mean)).clamp(-0.3, 0.3)
            return wanted + (wanted.clamp(-1 + 1e-6, 1 - 1e-6) - wanted).detach()

        def values(critic: Any, h: Any, action: Any) -> Any:
            x = torch.cat([critic[0](h), action], -1)
            return critic[1](x), critic[2](x)

        def update() -> None:
            with torch.no_grad():
                next_h = encode(next_obs)
                y = reward + 0.97 * torch.min(*values(target, next_h, act(next_h)))
            h = encode(obs)
            loss = sum(functional.mse_loss(q, y) for q in values(critic, h, action))
            for optimiser in optimisers[:2]:
                optimiser.zero_grad(set_to_none=True)
            loss.backward()
            for optimiser in optimisers[:2]:
                optimiser.step()
            h = h.detach()
            actor_loss = -torch.min(*values(critic, h, act(h))).mean()
            optimisers[2].zero_grad(set_to_none=True)
            actor_loss.backward()
            optimisers[2].step()
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), critic.parameters(), strict=True):
                    slow.lerp_(fast, 0.01)

        def call() -> None:
            for _ in range(times):
                update()

        return call

    return make


PEERS: dict[str, dict[str, Callable[[int, int], Callable[[], None]]]] = {
    "dqn": {
        "SBX": dqn("sbx", {"net_arch": [256]}, at_once=True),
        "Stable-Baselines3": dqn(
            "stable_baselines3", {"features_extractor_kwargs": {"features_dim": 256}, "net_arch": []}, at_once=False
        ),
    },
    "drqv2": {"PyTorch": drqv2(channels_last=False), "PyTorch, channels last": drqv2(channels_last=True)},
}
