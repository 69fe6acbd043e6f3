"""Multi-layer perceptrons: dense layers with ReLU between them."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from smrl.kernels import library
from smrl.types import Array

MIN_ROWS = 32  # on fewer rows XLA is faster: packing the weights costs the kernels more than the product
Layers = Sequence[tuple[Array, Array]]  # weights and biases of every layer


def mlp(x: Array, members: Sequence[Layers], chosen: Array | None = None) -> Array:
    """Apply several perceptrons of the same sizes: (…, inputs) → (members, …, outputs). The last layer is linear.

    With ``chosen``, only the members at these indices are computed; the kernels have no gradient for that.
    """
    rows = x.reshape(-1, x.shape[-1])
    if len(rows) < MIN_ROWS or not library.supports(x, *jax.tree.leaves(members)):
        y = mlp_by_xla(rows, members if chosen is None else subset(members, chosen))
    elif chosen is None:
        y = mlp_by_kernels(rows, members)
    else:
        y = _call(rows, members, jnp.asarray(chosen, jnp.int32))[0]
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


def mlp_by_xla(x: Array, members: Sequence[Layers]) -> Array:
    """Apply all members with XLA's matrix products, whose gradients JAX derives."""

    def apply(layers: Layers) -> Array:
        *hidden, (weights, bias) = layers
        y = x
        for hidden_weights, hidden_bias in hidden:
            y = relu(y @ hidden_weights + hidden_bias)
        return y @ weights + bias

    return jnp.stack([apply(layers) for layers in members])


@jax.custom_vjp
def mlp_by_kernels(x: Array, members: Sequence[Layers]) -> Array:
    """Apply all members with the C++ kernels."""
    return _call(x, members)[0]


def _call(x: Array, members: Sequence[Layers], chosen: Array | None = None, keep: bool = False) -> list[Array]:
    """Return the outputs, followed with ``keep`` by the outputs of every hidden layer of every member."""
    count = len(members) if chosen is None else len(chosen)
    *hidden, last = [len(bias) for _, bias in members[0]]
    shapes = [(count, len(x), last), *((len(x), size) for _ in members for size in hidden if keep)]
    results = [jax.ShapeDtypeStruct(shape, x.dtype) for shape in shapes]
    arrays = [x, *jax.tree.leaves(members), *([] if chosen is None else [chosen])]
    layers, has_chosen = len(members[0]), chosen is not None
    return list(library.call("smrl_mlp", results, *arrays, layers=layers, keep=keep, chosen=has_chosen))


def _forward(x: Any, members: Any) -> tuple[Array, Any]:
    """Return the outputs and what the gradients need: which gradients are wanted, x, hidden outputs and parameters.

    The wanted gradients are the keys of a dict, because JAX does not trace these.
    """
    trees = {"inputs": x, "weights": members}
    wanted = {name: None for name, tree in trees.items() if any(leaf.perturbed for leaf in jax.tree.leaves(tree))}
    x, members = jax.tree.map(lambda leaf: leaf.value, (x, members))
    y, *hidden = _call(x, members, keep=True)
    return y, (wanted, x, hidden, members)


def _backward(kept: Any, gradient: Any) -> tuple[Array | None, Any]:
    """Return the wanted ones of ∂x = ∂y Wᵀ, ∂W = xᵀ ∂y and ∂b = Σ ∂y, computed layer by layer."""
    wanted, x, hidden, members = kept
    if isinstance(gradient, jax.custom_derivatives.SymbolicZero):
        return None, None
    parameters, structure = jax.tree.flatten(members)
    inputs, weights = "inputs" in wanted, "weights" in wanted
    results = library.like(*([x] if inputs else []), *(parameters if weights else []))
    arrays = (gradient, x, *hidden, *parameters[::2])
    layers = len(members[0])
    found = library.call("smrl_mlp_backward", results, *arrays, layers=layers, inputs=inputs, weights=weights)
    return found[0] if inputs else None, jax.tree.unflatten(structure, found[inputs:]) if weights else None


mlp_by_kernels.defvjp(_forward, _backward, symbolic_zeros=True)
