"""Networks: MLP with PyTorch's initialisation, ensembles, and the tanh-Gaussian head."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from smrl.types import Array, Key, Params


def fan_in_uniform(fan_in: int) -> Callable[..., Array]:
    """PyTorch's default for weights and biases of a linear layer: uniform in ±1/√fan_in."""
    bound = fan_in**-0.5
    return lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, -bound, bound)


class MLP(nn.Module):
    """Linear layers with ReLU between them; the last one is linear."""

    sizes: Sequence[int]

    @nn.compact
    def __call__(self, x: Array) -> Array:
        for index, size in enumerate(self.sizes):
            init = fan_in_uniform(x.shape[-1])
            x = nn.Dense(size, kernel_init=init, bias_init=init)(x)
            if index + 1 < len(self.sizes):
                x = nn.relu(x)
        return x


class Critic(nn.Module):
    """Q(s, a)."""

    hidden: Sequence[int]

    @nn.compact
    def __call__(self, obs: Array, action: Array) -> Array:  # (batch,)
        return MLP((*self.hidden, 1))(jnp.concatenate([obs, action], -1)).squeeze(-1)


class DeterministicActor(nn.Module):
    """π(s) = tanh(f(s))."""

    hidden: Sequence[int]
    action_size: int

    @nn.compact
    def __call__(self, obs: Array) -> Array:
        return jnp.tanh(MLP((*self.hidden, self.action_size))(obs))


class GaussianActor(nn.Module):
    """Mean and log standard deviation of u, where a = tanh(u); the latter hard-clamped to [-20, 2]."""

    hidden: Sequence[int]
    action_size: int

    @nn.compact
    def __call__(self, obs: Array) -> tuple[Array, Array]:
        mean, log_std = jnp.split(MLP((*self.hidden, 2 * self.action_size))(obs), 2, axis=-1)
        return mean, jnp.clip(log_std, -20.0, 2.0)


def sample_tanh_gaussian(mean: Array, log_std: Array, key: Key) -> tuple[Array, Array]:
    """Draw a = tanh(u), u ~ N(mean, std²), and log π(a), reparameterised.

    log π(a) = Σ log N(u) − 2 (log 2 − u − softplus(−2u)), the stable form of log(1 − tanh²u).
    """
    noise = jax.random.normal(key, mean.shape)
    u = mean + jnp.exp(log_std) * noise
    log_gaussian = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
    log_slope = 2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u))
    return jnp.tanh(u), (log_gaussian - log_slope).sum(-1)


@dataclass(frozen=True)
class Ensemble:
    """Several networks of one architecture; called, they answer with a leading axis of members.

    On a CPU the members stay apart, for XLA runs independent multiplications side by side but a batched one on a
    single thread; on a GPU they are stacked into one. Both compute the same.
    """

    member: nn.Module
    size: int
    stacked: bool

    def init(self, key: Key, *inputs: Array) -> Params:
        keys = jax.random.split(key, self.size)
        if self.stacked:
            return jax.vmap(lambda key: self.member.init(key, *inputs))(keys)
        return tuple(self.member.init(key, *inputs) for key in keys)

    def __call__(self, params: Params, *inputs: Array) -> Array:  # (members, batch, …)
        if self.stacked:
            return jax.vmap(lambda member: self.member.apply(member, *inputs))(params)
        answers: list[Any] = [self.member.apply(member, *inputs) for member in params]
        return jnp.stack(answers)


def ensemble(member: nn.Module, size: int) -> Ensemble:
    """An ensemble in the layout that suits this machine."""
    return Ensemble(member, size, stacked=jax.default_backend() != "cpu")
