"""Networks: MLP with PyTorch's initialisation, ensembles, and the tanh-Gaussian head."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from smrl import kernels
from smrl.kernels.dense import Layers, relu, subset
from smrl.types import Array, Key, Params

Initialiser = Callable[..., Array]  # key, shape → values
Activation = Literal["relu", "leaky-relu", "elu", "gelu", "silu", "tanh"]
ACTIVATIONS: dict[Activation, Callable[[Array], Array]] = {
    "relu": relu,
    "leaky-relu": nn.leaky_relu,
    "elu": nn.elu,
    "gelu": nn.gelu,
    "silu": nn.silu,
    "tanh": jnp.tanh,
}
DRAWN = 2**16  # numbers: the weights of a layer of 256 by 256
Start = Callable[[int, bool], tuple[Initialiser, Initialiser]]  # fan-in, is last layer → initialisers of kernel, bias


def uniform(bound: float) -> Initialiser:
    """Initialiser: uniform in ±bound.

    At least DRAWN numbers are drawn and the rest is dropped, so that XLA compiles one program for all small layers.
    """

    def draw(key: Key, shape: Sequence[int], dtype: Any = jnp.float32) -> Array:
        count = math.prod(shape)
        return jax.random.uniform(key, (max(DRAWN, count),), dtype, -bound, bound)[:count].reshape(shape)

    return draw


def torch_default(fan_in: int, last: bool) -> tuple[Initialiser, Initialiser]:
    """PyTorch's default: weights and biases uniform in ±1/√fan_in."""
    return uniform(fan_in**-0.5), uniform(fan_in**-0.5)


def small_last(fan_in: int, last: bool) -> tuple[Initialiser, Initialiser]:
    """Critics of REDQ in the code of SMR's authors: hidden biases 0.1, last layer uniform in ±0.003."""
    return (uniform(3e-3), uniform(3e-3)) if last else (uniform(fan_in**-0.5), nn.initializers.constant(0.1))


def xavier(heads: int = 1) -> Start:
    """Xavier-uniform weights and zero biases; each head of the last layer is initialised like a separate layer."""

    def start(fan_in: int, last: bool) -> tuple[Initialiser, Initialiser]:
        def kernel(key: Key, shape: tuple[int, int], dtype: Any = jnp.float32) -> Array:
            fan_out = shape[1] / heads if last else shape[1]
            return uniform((6 / (fan_in + fan_out)) ** 0.5)(key, shape, dtype)

        return kernel, nn.initializers.zeros

    return start


def orthogonal(gain: float = 1.0) -> Start:
    """Orthogonal weights of this gain, and zero biases."""
    return lambda fan_in, last: (nn.initializers.orthogonal(gain), nn.initializers.zeros)


class MLP(nn.Module):
    """Multi-layer perceptron with a linear output layer.

    A hidden layer is linear → dropout → LayerNorm → activation; dropout and LayerNorm are optional (DroQ). Dropout is
    active only in calls with a random key for it.
    """

    sizes: Sequence[int]
    start: Start = torch_default
    activation: Activation = "relu"
    layer_norm: bool = False
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: Array) -> Array:
        inputs = (x.shape[-1], *self.sizes)
        lasts = [index + 1 == len(self.sizes) for index in range(len(self.sizes))]
        layers = [
            Dense(size, self.start, last, name=f"Dense_{index}")(inputs[index])
            for index, (size, last) in enumerate(zip(self.sizes, lasts, strict=True))
        ]
        if is_perceptron(self):
            return kernels.mlp(x, [layers])[0]
        for layer, last in zip(layers, lasts, strict=True):
            x = kernels.mlp(x, [[layer]])[0]
            if not last:
                if self.dropout:
                    x = nn.Dropout(self.dropout, deterministic=not self.has_rng("dropout"))(x)
                if self.layer_norm:
                    x = nn.LayerNorm(epsilon=1e-5)(x)  # as in PyTorch
                x = ACTIVATIONS[self.activation](x)
        return x


def is_perceptron(network: "MLP | Critic") -> bool:
    """Whether a network is nothing but dense layers with ReLU between them."""
    return network.activation == "relu" and not (network.dropout or network.layer_norm)


class Dense(nn.Module):
    """The parameters of a dense layer."""

    size: int
    start: Start
    last: bool

    @nn.compact
    def __call__(self, inputs: int) -> tuple[Array, Array]:  # weights (inputs, size) and biases (size,)
        kernel_init, bias_init = self.start(inputs, self.last)
        return self.param("kernel", kernel_init, (inputs, self.size)), self.param("bias", bias_init, (self.size,))


class Critic(nn.Module):
    """Q(s, a), or with ``atoms`` the quantiles of the return distribution."""

    hidden: Sequence[int]
    atoms: int | None = None
    start: Start = torch_default
    activation: Activation = "relu"
    layer_norm: bool = False
    dropout: float = 0.0

    @nn.compact
    def __call__(self, obs: Array, action: Array) -> Array:  # (batch,), or (batch, atoms)
        body = MLP((*self.hidden, self.atoms or 1), self.start, self.activation, self.layer_norm, self.dropout)
        return self.values(body(self.joined(obs, action)))

    def joined(self, obs: Array, action: Array) -> Array:
        """The inputs of the first layer."""
        return jnp.concatenate([obs, action], -1)

    def values(self, outputs: Array) -> Array:
        """The outputs of the last layer, without their axis where there is only one."""
        return outputs if self.atoms else outputs.squeeze(-1)

    def layers(self, params: Params) -> Layers:
        """Weights and biases of every layer."""
        dense = params["params"]["MLP_0"]
        return [(dense[f"Dense_{index}"]["kernel"], dense[f"Dense_{index}"]["bias"]) for index in range(len(dense))]


class DeterministicActor(nn.Module):
    """π(s) = tanh(f(s))."""

    hidden: Sequence[int]
    action_size: int
    start: Start = torch_default
    activation: Activation = "relu"

    @nn.compact
    def __call__(self, obs: Array) -> Array:
        return jnp.tanh(MLP((*self.hidden, self.action_size), self.start, self.activation)(obs))


class GaussianActor(nn.Module):
    """Mean and log standard deviation of u, where a = tanh(u); the latter is clamped."""

    hidden: Sequence[int]
    action_size: int
    start: Start = torch_default
    activation: Activation = "relu"
    log_std_bounds: tuple[float, float] = (-20.0, 2.0)

    @nn.compact
    def __call__(self, obs: Array) -> tuple[Array, Array]:
        body = MLP((*self.hidden, 2 * self.action_size), self.start, self.activation)
        mean, log_std = jnp.split(body(obs), 2, axis=-1)
        return mean, jnp.clip(log_std, *self.log_std_bounds)


def sample_tanh_gaussian(mean: Array, log_std: Array, key: Key, floor: float = 0.0) -> tuple[Array, Array]:
    """Sample a = tanh(u), u ~ N(mean, std²), by reparameterisation; a and log π(a).

    log π(a) = Σ log N(u) − log(1 − tanh²u), of which the stable form is 2 (log 2 − |u| − log(1 + e^(−2|u|))); with a
    floor, log(1 − tanh²u + floor) takes its place. Arrays are flat, for XLA is slow on rows of a few actions.
    """
    shape, mean, log_std = mean.shape, mean.ravel(), log_std.ravel()
    noise = jax.random.normal(key, mean.shape)
    u = mean + jnp.exp(log_std) * noise
    action, distance = jnp.tanh(u), jnp.abs(u)
    log_gaussian = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
    exact = 2 * (jnp.log(2.0) - distance - jnp.log1p(jnp.exp(-2 * distance)))
    log_slope = jnp.log(1 - action**2 + floor) if floor else exact
    return action.reshape(shape), (log_gaussian - log_slope).reshape(shape).sum(-1)


class MemberAxis:
    """Stands in the path of a stacked leaf where that of a single member has the member's number."""

    def __str__(self) -> str:
        return "[*]"


MEMBERS = MemberAxis()


@jax.tree_util.register_pytree_with_keys_class
@dataclass(frozen=True)
class Stacked:
    """Parameters of the members of an ensemble as one tree; the leading axis of every leaf is the member.

    Checkpoints recognise it, and write the members one by one as if they were a tuple.
    """

    params: Params

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[MemberAxis, Params]], None]:
        return ((MEMBERS, self.params),), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Params]) -> "Stacked":
        return cls(*children)


@dataclass(frozen=True)
class Ensemble:
    """Several critics of one architecture; called, they answer with a leading axis of members.

    On a CPU the members' parameters are a tuple, for the kernels take each array where it lies; on a GPU they are
    stacked, so that the members' products are one. Both compute the same.
    """

    member: Critic
    size: int
    stacked: bool

    def init(self, key: Key, *inputs: Array) -> Params:
        keys = jax.random.split(key, self.size)
        if self.stacked:
            return Stacked(jax.vmap(lambda key: self.member.init(key, *inputs))(keys))
        return tuple(self.member.init(key, *inputs) for key in keys)

    def __call__(
        self, params: Params, obs: Array, action: Array, key: Key | None = None, chosen: Array | None = None
    ) -> Array:  # (members, batch, …)
        """Values of all members, or of those at the chosen indices.

        With a key dropout is active, with a separate mask per member.
        """
        if not self.stacked and is_perceptron(self.member):
            layers = [self.member.layers(member) for member in params]
            return self.member.values(kernels.mlp(self.member.joined(obs, action), layers, chosen))

        def answer(params: Params, key: Key | None) -> Any:
            return self.member.apply(params, obs, action, rngs=None if key is None else {"dropout": key})

        if chosen is not None:
            params = jax.tree.map(lambda leaf: leaf[chosen], params) if self.stacked else subset(params, chosen)
        keys = None if key is None else jax.random.split(key, self.size if chosen is None else len(chosen))
        if self.stacked:
            return jax.vmap(answer)(params.params, keys)
        return jnp.stack([answer(member, None if keys is None else keys[i]) for i, member in enumerate(params)])

    def first(self, params: Params, obs: Array, action: Array, key: Key | None = None) -> Array:  # (batch, …)
        """Values of the first member alone; the others are not computed."""
        alone = jax.tree.map(lambda leaf: leaf[:1], params) if self.stacked else params[:1]
        return dataclasses.replace(self, size=1)(alone, obs, action, key)[0]


def ensemble(member: Critic, size: int) -> Ensemble:
    """An ensemble in the layout that suits this machine."""
    return Ensemble(member, size, stacked=jax.default_backend() != "cpu")
