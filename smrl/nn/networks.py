"""Networks: MLP, critics and their ensembles, deterministic and tanh-Gaussian actors, and initial weights."""

import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from smrl import kernels, layers
from smrl.kernels.dense import LAYER_NORM_EPSILON, Form, Layers, has_norm, relu, subset
from smrl.layers import Layer
from smrl.types import Array, Key, Params

WeightInit = Callable[..., Array]  # key, shape → values
Activation = Literal["relu", "leaky-relu", "elu", "gelu", "silu", "tanh"]
ACTIVATIONS: dict[Activation, Callable[[Array], Array]] = {
    "relu": relu,
    "leaky-relu": nn.leaky_relu,
    "elu": nn.elu,
    "gelu": nn.gelu,
    "silu": nn.silu,
    "tanh": jnp.tanh,
}
EXPANSION = 4  # width of the layer within a residual block, in widths of the block
MIN_DRAWN = 2**16  # random numbers drawn at a time at least: the weights of a layer of 256 by 256
Initializer = Callable[[int, bool], tuple[WeightInit, WeightInit]]  # fan-in, is last layer → kernel and bias


def uniform(bound: float) -> WeightInit:
    """WeightInit: uniform in ±bound.

    At least MIN_DRAWN numbers are drawn and the rest is dropped, so that XLA compiles one program for all small layers.
    """

    def draw(key: Key, shape: Sequence[int], dtype: Any = jnp.float32) -> Array:
        count = math.prod(shape)
        return jax.random.uniform(key, (max(MIN_DRAWN, count),), dtype, -bound, bound)[:count].reshape(shape)

    return draw


def torch_default(fan_in: int, last: bool) -> tuple[WeightInit, WeightInit]:
    """Draw weights and biases uniformly from ±1/√fan_in, PyTorch's default."""
    return uniform(fan_in**-0.5), uniform(fan_in**-0.5)


def small_last(fan_in: int, last: bool) -> tuple[WeightInit, WeightInit]:
    """Use hidden biases of 0.1 and a last layer uniform in ±0.003: the critics of REDQ in the code of SMR's authors."""
    return (uniform(3e-3), uniform(3e-3)) if last else (uniform(fan_in**-0.5), nn.initializers.constant(0.1))


def xavier(heads: int = 1) -> Initializer:
    """Return Xavier-uniform weights and zero biases; each head of the last layer counts as a separate layer."""

    def initializer(fan_in: int, last: bool) -> tuple[WeightInit, WeightInit]:
        def kernel(key: Key, shape: tuple[int, int], dtype: Any = jnp.float32) -> Array:
            fan_out = shape[1] / heads if last else shape[1]
            return uniform((6 / (fan_in + fan_out)) ** 0.5)(key, shape, dtype)

        return kernel, nn.initializers.zeros

    return initializer


def orthogonal(gain: float = 1.0) -> Initializer:
    """Return orthogonal weights of this gain, and zero biases."""
    return lambda fan_in, last: (nn.initializers.orthogonal(gain), nn.initializers.zeros)


def he_normal(fan_in: int, last: bool) -> tuple[WeightInit, WeightInit]:
    """Draw weights from a truncated normal of variance 2/fan_in, with zero biases."""
    return nn.initializers.he_normal(), nn.initializers.zeros


def layer_sizes(form: Form, hidden: Sequence[int], outputs: int) -> tuple[int, ...]:
    """Return the sizes of all dense layers. The hidden sizes of a residual network are the widths of its blocks."""
    if form != "residual":
        return (*hidden, outputs)
    return (hidden[0], *(size for width in hidden for size in (EXPANSION * width, width)), outputs)


class MLP(nn.Module):
    """Multi-layer perceptron with a linear output layer, or a residual network (see `kernels.mlp`).

    A hidden layer of a perceptron is linear → dropout → LayerNorm → activation; dropout and LayerNorm, which is the
    form "normalised", are optional (DroQ). Dropout is active only in calls with a random key for it. A residual network
    has ReLU and no dropout; the layers of its blocks have He's initial weights.
    """

    sizes: Sequence[int]
    initializer: Initializer = torch_default
    activation: Activation = "relu"
    form: Form = "plain"
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: Array) -> Array:
        last = len(self.sizes) - 1
        initializers = [
            he_normal if self.form == "residual" and 0 < index < last else self.initializer for index in range(last + 1)
        ]
        inputs = (x.shape[-1], *self.sizes)
        layers: list[tuple[Array, ...]] = [
            Dense(size, initializers[index], index == last, name=f"Dense_{index}")(inputs[index])
            for index, size in enumerate(self.sizes)
        ]
        if uses_kernels(self):
            norms = [index for index in range(last + 1) if has_norm(self.form, index)]
            for number, index in enumerate(norms):
                layers[index] += Norm(name=f"LayerNorm_{number}")(inputs[index])
            return kernels.mlp(x, [layers], form=self.form)[0]
        for index, layer in enumerate(layers):
            x = kernels.mlp(x, [[layer]])[0]
            if index < last:
                if self.dropout:
                    x = nn.Dropout(self.dropout, deterministic=not self.has_rng("dropout"))(x)
                if self.form == "normalised":
                    x = nn.LayerNorm(epsilon=LAYER_NORM_EPSILON)(x)
                x = ACTIVATIONS[self.activation](x)
        return x


def mlp_parameters(params: Params, form: Form) -> Layers:
    """Return the parameters of an `MLP`, layer by layer, as `kernels.mlp` takes them."""
    count, norms = sum(name.startswith("Dense_") for name in params), 0
    found: list[tuple[Array, ...]] = []
    for index in range(count):
        layer: tuple[Array, ...] = params[f"Dense_{index}"]["kernel"], params[f"Dense_{index}"]["bias"]
        if has_norm(form, index):
            layer += params[f"LayerNorm_{norms}"]["scale"], params[f"LayerNorm_{norms}"]["bias"]
            norms += 1
        found.append(layer)
    return found


def mlp_layers(params: Params, activation: Activation, form: Form = "plain") -> list[Layer]:
    """Return the layers of an `MLP` with these parameters, without dropout."""
    found: list[Layer] = []
    parameters: Any = mlp_parameters(params, form)  # arrays of NumPy's
    for index, (weights, bias, *norm) in enumerate(parameters):
        dense = layers.Dense(weights, bias)
        normalise = [layers.LayerNorm(norm[0], norm[1], LAYER_NORM_EPSILON)] if norm else []
        if form != "residual":
            found += [*normalise, *([layers.Activation(activation)] if index else []), dense]
        elif norm or index == 0:
            found += [*normalise, dense]
        else:  # the last two layers and this one are a block
            *found, normalise_block, first = found
            found.append(layers.Residual(([normalise_block, first, layers.Activation("relu"), dense],)))
    return found


def uses_kernels(network: "MLP | Critic") -> bool:
    """Return whether `kernels.mlp` computes all layers of a network at once."""
    return network.activation == "relu" and not network.dropout


class Dense(nn.Module):
    """The parameters of a dense layer."""

    size: int
    initializer: Initializer
    last: bool

    @nn.compact
    def __call__(self, inputs: int) -> tuple[Array, Array]:  # weights (inputs, size) and biases (size,)
        kernel_init, bias_init = self.initializer(inputs, self.last)
        return self.param("kernel", kernel_init, (inputs, self.size)), self.param("bias", bias_init, (self.size,))


class Norm(nn.Module):
    """The parameters of a layer normalisation."""

    @nn.compact
    def __call__(self, size: int) -> tuple[Array, Array]:  # scale and shift (size,)
        return self.param("scale", nn.initializers.ones, (size,)), self.param("bias", nn.initializers.zeros, (size,))


class Critic(nn.Module):
    """Q(s, a), or with ``atoms`` the quantiles of the return distribution."""

    hidden: Sequence[int]
    atoms: int | None = None
    initializer: Initializer = torch_default
    activation: Activation = "relu"
    form: Form = "plain"
    dropout: float = 0.0

    @nn.compact
    def __call__(self, obs: Array, action: Array) -> Array:  # (batch,), or (batch, atoms)
        sizes = layer_sizes(self.form, self.hidden, self.atoms or 1)
        body = MLP(sizes, self.initializer, self.activation, self.form, self.dropout)
        return self.values(body(self.joined(obs, action)))

    def joined(self, obs: Array, action: Array) -> Array:
        """Return the inputs of the first layer."""
        return jnp.concatenate([obs, action], -1)

    def values(self, outputs: Array) -> Array:
        """Drop the axis of the last layer's outputs where there is only one."""
        return outputs if self.atoms else outputs.squeeze(-1)

    def layers(self, params: Params) -> Layers:
        """Return the parameters of every layer."""
        return mlp_parameters(params["params"]["MLP_0"], self.form)

    def network(self, params: Params) -> list[Layer]:
        """Return the layers that map (s, a), joined, to the value."""
        return mlp_layers(params["params"]["MLP_0"], self.activation, self.form)


class DeterministicActor(nn.Module):
    """π(s) = tanh(f(s))."""

    hidden: Sequence[int]
    action_size: int
    initializer: Initializer = torch_default
    activation: Activation = "relu"
    form: Form = "plain"

    @nn.compact
    def __call__(self, obs: Array) -> Array:
        sizes = layer_sizes(self.form, self.hidden, self.action_size)
        return jnp.tanh(MLP(sizes, self.initializer, self.activation, self.form)(obs))

    def network(self, params: Params) -> list[Layer]:
        """Return the layers of π."""
        return [*mlp_layers(params["params"]["MLP_0"], self.activation, self.form), layers.Activation("tanh")]


class GaussianActor(nn.Module):
    """Mean and log standard deviation of u, where a = tanh(u); the latter is clamped."""

    hidden: Sequence[int]
    action_size: int
    initializer: Initializer = torch_default
    activation: Activation = "relu"
    log_std_bounds: tuple[float, float] = (-20.0, 2.0)
    log_prob_floor: float = 0.0
    form: Form = "plain"

    @nn.compact
    def __call__(self, obs: Array) -> tuple[Array, Array]:
        sizes = layer_sizes(self.form, self.hidden, 2 * self.action_size)
        body = MLP(sizes, self.initializer, self.activation, self.form)
        mean, log_std = jnp.split(body(obs), 2, axis=-1)
        return mean, jnp.clip(log_std, *self.log_std_bounds)

    def sample(self, params: Params, obs: Array, key: Key) -> tuple[Array, Array]:
        """Return a ~ π(s) and log π(a|s)."""
        mean, log_std = self.apply(params, obs)
        return sample_tanh_gaussian(mean, log_std, key, self.log_prob_floor)

    def mode(self, params: Params, obs: Array) -> Array:
        """Return the greedy action, the tanh of the mean."""
        return jnp.tanh(self.apply(params, obs)[0])

    def network(self, params: Params) -> list[Layer]:
        """Return the layers of `mode`; the half of the last layer that computes the deviations is left out."""
        *hidden, last = mlp_layers(params["params"]["MLP_0"], self.activation, self.form)
        assert isinstance(last, layers.Dense)
        mean = layers.Dense(last.weights[:, : self.action_size], last.bias[: self.action_size])
        return [*hidden, mean, layers.Activation("tanh")]


def sample_tanh_gaussian(mean: Array, log_std: Array, key: Key, floor: float = 0.0) -> tuple[Array, Array]:
    """Sample a = tanh(u), u ~ N(mean, std²), by reparameterisation, and return it with log π(a).

    log π(a) = Σ log N(u) − log(1 − tanh²u). The stable form of the last term is 2 (log 2 − |u| − log(1 + e^(−2|u|)));
    a floor replaces it by log(1 − tanh²u + floor). Arrays are flat because XLA is slow on rows of a few actions.
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
    """Mark the place of the member's number in the path of a stacked leaf."""

    def __str__(self) -> str:
        return "[*]"


MEMBERS = MemberAxis()


@jax.tree_util.register_pytree_with_keys_class
@dataclass(frozen=True)
class Stacked:
    """Parameters of an ensemble as one tree; the leading axis of every leaf is the member.

    Checkpoints recognise this class and write the members one by one, as if they were a tuple.
    """

    params: Params

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[MemberAxis, Params]], None]:
        return ((MEMBERS, self.params),), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Params]) -> "Stacked":
        return cls(*children)


@dataclass(frozen=True)
class Ensemble:
    """Several critics of one architecture; a call returns their values with a leading axis of members.

    On a CPU the members' parameters are a tuple, because the kernels read each array where it lies. On a GPU they are
    stacked, so that one product serves all members. Both compute the same.
    """

    member: Critic
    size: int
    stacked: bool

    def init(self, key: Key, *inputs: Array) -> Params:
        """Initialise all members."""
        keys = jax.random.split(key, self.size)
        if self.stacked:
            return Stacked(jax.vmap(lambda key: self.member.init(key, *inputs))(keys))
        return tuple(self.member.init(key, *inputs) for key in keys)

    def __call__(
        self, params: Params, obs: Array, action: Array, key: Key | None = None, chosen: Array | None = None
    ) -> Array:  # (members, batch, …)
        """Return the values of all members, or of those at the chosen indices.

        A key activates dropout, with a separate mask per member.
        """
        if not self.stacked and uses_kernels(self.member):
            layers = [self.member.layers(member) for member in params]
            return self.member.values(kernels.mlp(self.member.joined(obs, action), layers, chosen, self.member.form))

        def answer(params: Params, key: Key | None) -> Any:
            return self.member.apply(params, obs, action, rngs=None if key is None else {"dropout": key})

        if chosen is not None:
            params = jax.tree.map(lambda leaf: leaf[chosen], params) if self.stacked else subset(params, chosen)
        keys = None if key is None else jax.random.split(key, self.size if chosen is None else len(chosen))
        if self.stacked:
            return jax.vmap(answer)(params.params, keys)
        return jnp.stack([answer(member, None if keys is None else keys[i]) for i, member in enumerate(params)])

    def networks(self, params: Params) -> list[list[Layer]]:
        """Return the layers of every member."""
        members = (
            [jax.tree.map(operator.itemgetter(index), params.params) for index in range(self.size)]
            if self.stacked
            else params
        )
        return [self.member.network(member) for member in members]

    def first(self, params: Params, obs: Array, action: Array, key: Key | None = None) -> Array:  # (batch, …)
        """Return the values of the first member, without computing the others."""
        alone = jax.tree.map(lambda leaf: leaf[:1], params) if self.stacked else params[:1]
        return dataclasses.replace(self, size=1)(alone, obs, action, key)[0]


def ensemble(member: Critic, size: int) -> Ensemble:
    """Make an ensemble in the layout that suits this machine."""
    return Ensemble(member, size, stacked=jax.default_backend() != "cpu")
