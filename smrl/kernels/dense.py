"""Networks of dense layers: perceptrons, plain or with layer normalisation, and residual networks.

Layer i computes s ← W f(s) + b, where s are the outputs of the layer before it, and the inputs of the network for the
first layer, whose f is the identity. For the others, f depends on the form of the network:

    plain       f(s) = relu(s)
    normalised  f(s) = relu(LN(s))
    residual    f(s) = LN(s) for layers 1, 3, …, and relu(s) for layers 2, 4, …, which add the s of two layers before:
                pairs of layers are blocks s ← s + W₂ relu(W₁ LN(s) + b₁) + b₂, and the last layer is W LN(s) + b

    LN(s) = (s − mean) / √(variance + ε) · scale + shift, with the mean and the biased variance of a row
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp

from smrl.kernels import library
from smrl.types import Array

MIN_ROWS = 32  # on fewer rows XLA is faster: packing the weights costs the kernels more than the product
LAYER_NORM_EPSILON = 1e-5  # as in PyTorch
Form = Literal["plain", "normalised", "residual"]
FORMS: tuple[Form, ...] = ("plain", "normalised", "residual")  # as the kernels count them
# Weights and biases of every layer, and if its inputs are normalised also their scale and shift.
Layers = Sequence[tuple[Array, ...]]


def has_norm(form: Form, layer: int) -> bool:
    """Return whether the inputs of a layer are normalised."""
    return layer > 0 if form == "normalised" else form == "residual" and layer % 2 == 1


def mlp(x: Array, members: Sequence[Layers], chosen: Array | None = None, form: Form = "plain") -> Array:
    """Apply several networks of the same sizes: (…, inputs) → (members, …, outputs). The last layer is linear.

    With ``chosen``, only the members at these indices are computed; the kernels have no gradient for that.
    """
    rows = x.reshape(-1, x.shape[-1])
    if len(rows) < MIN_ROWS or not library.supports(x, *jax.tree.leaves(members)):
        y = mlp_by_xla(rows, members if chosen is None else subset(members, chosen), form)
    elif chosen is None:
        y = mlp_by_kernels(rows, members, form)
    else:
        y = _call(rows, members, form, jnp.asarray(chosen, jnp.int32))[0]
    return y.reshape(len(y), *x.shape[:-1], -1)


def subset(members: Sequence[Any], chosen: Array) -> list[Any]:
    """Return the members at these indices; a member is any tree of arrays."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    return [jax.tree.map(lambda leaf, index=index: leaf[index], stacked) for index in chosen]


@jax.custom_vjp
def relu(x: Array) -> Array:
    """max(x, 0). The gradient needs only the output, so that x is neither kept nor computed again."""
    return jnp.maximum(x, 0)


def _relu_forward(x: Array) -> tuple[Array, Array]:
    y = jnp.maximum(x, 0)
    return y, y


def _relu_backward(y: Array, gradient: Array) -> tuple[Array]:
    return (jnp.where(y > 0, gradient, 0),)


relu.defvjp(_relu_forward, _relu_backward)


def mlp_by_xla(x: Array, members: Sequence[Layers], form: Form = "plain") -> Array:
    """Apply all members with XLA's matrix products, whose gradients JAX derives."""

    def apply(layers: Layers) -> Array:
        y = skip = x
        for index, (weights, bias, *norm) in enumerate(layers):
            closes_block = form == "residual" and index > 0 and index % 2 == 0
            inputs = layer_norm(y, *norm) if norm else y
            if closes_block or (form != "residual" and index > 0):
                inputs = relu(inputs)
            outputs = inputs @ weights + bias
            y, skip = outputs + skip if closes_block else outputs, y
        return y

    return jnp.stack([apply(layers) for layers in members])


def layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    """Return (x − mean) / √(variance + ε) · scale + shift, over the last axis."""
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + LAYER_NORM_EPSILON) * scale + shift


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def mlp_by_kernels(x: Array, members: Sequence[Layers], form: Form = "plain") -> Array:
    """Apply all members with the C++ kernels."""
    return _call(x, members, form)[0]


def _call(
    x: Array, members: Sequence[Layers], form: Form, chosen: Array | None = None, keep: bool = False
) -> list[Array]:
    """Return the outputs, followed with ``keep`` by what the gradients need of every layer but the first of a member.

    That are the inputs of its weights, and if these were normalised, what they were before and its statistics.
    """
    count, first = len(members) if chosen is None else len(chosen), members[0]
    shapes: list[tuple[int, ...]] = [(count, len(x), len(first[-1][1]))]
    for weights, _, *norm in (layer for member in members for layer in member[1:] if keep):
        inputs = (len(x), len(weights))
        shapes += [inputs, inputs, (len(x), 2)] if norm else [inputs]
    results = [jax.ShapeDtypeStruct(shape, x.dtype) for shape in shapes]
    arrays = [x, *jax.tree.leaves(members), *([] if chosen is None else [chosen])]
    options: dict[str, Any] = {"keep": keep, "chosen": chosen is not None, "epsilon": LAYER_NORM_EPSILON}
    return list(library.call("smrl_mlp", results, *arrays, layers=len(first), form=FORMS.index(form), **options))


def _forward(x: Any, members: Any, form: Form) -> tuple[Array, Any]:
    """Return the outputs and what the gradients need: which gradients are wanted, x, what layers read, and parameters.

    The wanted gradients are the keys of a dict, because JAX does not trace these.
    """
    trees = {"inputs": x, "weights": members}
    wanted = {name: None for name, tree in trees.items() if any(leaf.perturbed for leaf in jax.tree.leaves(tree))}
    x, members = jax.tree.map(lambda leaf: leaf.value, (x, members))
    y, *hidden = _call(x, members, form, keep=True)
    return y, (wanted, x, hidden, members)


def _backward(form: Form, kept: Any, gradient: Any) -> tuple[Array | None, Any]:
    """Return the wanted gradients of x and of the parameters, computed layer by layer.

    Of a product y = x W + b, ∂x = ∂y Wᵀ, ∂W = xᵀ ∂y and ∂b = Σ ∂y. Of LN, with x̂ = (s − mean) / √(variance + ε),
    ∂scale = Σ ∂y x̂, ∂shift = Σ ∂y, and ∂s = (g − mean g − x̂ · mean (g x̂)) / √(variance + ε), where g = ∂y · scale.
    """
    wanted, x, hidden, members = kept
    if isinstance(gradient, jax.custom_derivatives.SymbolicZero):
        return None, None
    parameters, structure = jax.tree.flatten(members)
    inputs, weights = "inputs" in wanted, "weights" in wanted
    results = library.like(*([x] if inputs else []), *(parameters if weights else []))
    arrays = (gradient, x, *hidden, *parameters[::2])  # weights and scales
    options: dict[str, Any] = {
        "layers": len(members[0]),
        "form": FORMS.index(form),
        "inputs": inputs,
        "weights": weights,
    }
    found = library.call("smrl_mlp_backward", results, *arrays, **options)
    return found[0] if inputs else None, jax.tree.unflatten(structure, found[inputs:]) if weights else None


mlp_by_kernels.defvjp(_forward, _backward, symbolic_zeros=True)
