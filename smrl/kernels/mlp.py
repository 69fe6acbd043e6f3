"""Dense layers with ReLU between them: perceptrons, whose gradients are written by hand for the kernels in C++."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from smrl.kernels import library
from smrl.kernels.activations import relu
from smrl.types import Array

FEWEST = 32  # rows for the kernels
Layers = Sequence[tuple[Array, Array]]  # weights (inputs, outputs) and biases (outputs,)


def perceptron(x: Array, layers: Layers) -> Array:
    """(…, inputs) → (…, outputs); the last layer is linear."""
    return perceptrons(x, [layers])[0]


def perceptrons(x: Array, members: Sequence[Layers], chosen: Array | None = None) -> Array:
    """Outputs of several perceptrons of the same sizes, (…, inputs) → (members, …, outputs).

    Of the chosen members alone, where their indices are given; those kernels have no gradient. Few rows are left to
    XLA, which starts at once.
    """
    rows = x.reshape(-1, x.shape[-1])
    has_kernels = len(rows) >= FEWEST and library.fits(x, *jax.tree.leaves(members))
    if has_kernels:
        y = perceptrons_by_kernels(rows, members) if chosen is None else _some_by_kernels(rows, members, chosen)
    else:
        y = perceptrons_by_xla(rows, members if chosen is None else subset(members, chosen))
    return y.reshape(len(y), *x.shape[:-1], -1)


def subset(members: Sequence[Any], chosen: Array) -> list[Any]:
    """The members at these indices, of any kind of tree."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    return [jax.tree.map(lambda leaf, index=index: leaf[index], stacked) for index in chosen]


def perceptrons_by_xla(x: Array, members: Sequence[Layers]) -> Array:
    """XLA's products, and the gradients that JAX derives from them."""

    def outputs(x: Array, layers: Layers) -> Array:
        *hidden, (weights, bias) = layers
        for hidden_weights, hidden_bias in hidden:
            x = relu(x @ hidden_weights + hidden_bias)
        return x @ weights + bias

    return jnp.stack([outputs(x, layers) for layers in members])


@jax.custom_vjp
def perceptrons_by_kernels(x: Array, members: Sequence[Layers]) -> Array:
    """The same by C++ kernels."""
    return _call(x, members, len(members))[0]


def _some_by_kernels(x: Array, members: Sequence[Layers], chosen: Array) -> Array:
    return _call(x, members, len(chosen), jnp.asarray(chosen, jnp.int32))[0]


def _call(x: Array, members: Sequence[Layers], count: int, *chosen: Array, keep: bool = False) -> list[Array]:
    """The outputs, and, if they are to be kept, the outputs of all hidden layers, member by member."""
    *hidden, last = [len(bias) for _, bias in members[0]]
    shapes = [(count, len(x), last), *((len(x), size) for _ in members for size in hidden if keep)]
    results = [jax.ShapeDtypeStruct(shape, x.dtype) for shape in shapes]
    arrays = (x, *jax.tree.leaves(members), *chosen)
    return list(
        library.call("smrl_perceptrons", results, *arrays, layers=len(members[0]), keep=keep, chosen=bool(chosen))
    )


def _forward(x: Any, members: Any) -> tuple[Array, Any]:
    """The outputs, and what their gradients need: which of them are wanted, x, hidden outputs and weights.

    What is wanted is in the keys of a dict, for they are not traced.
    """
    is_wanted = [any(leaf.perturbed for leaf in jax.tree.leaves(tree)) for tree in (x, members)]
    x, members = jax.tree.map(lambda leaf: leaf.value, (x, members))
    y, *hidden = _call(x, members, len(members), keep=True)
    wanted = {name: None for name, is_one in zip(("inputs", "weights"), is_wanted, strict=True) if is_one}
    return y, (wanted, x, hidden, members)


def _backward(kept: Any, gradient: Any) -> tuple[Array | None, Any]:
    """∂W = xᵀ ∂y, ∂b = Σ ∂y and ∂x = ∂y Wᵀ, layer by layer, as far as they are wanted."""
    wanted, x, hidden, members = kept
    if isinstance(gradient, jax.custom_derivatives.SymbolicZero):
        return None, None
    parameters, structure = jax.tree.flatten(members)
    inputs, weights = "inputs" in wanted, "weights" in wanted
    shapes = ([x] if inputs else []) + (parameters if weights else [])
    results = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in shapes]
    arrays = (gradient, x, *hidden, *parameters[::2])
    numbers = {"layers": len(members[0]), "inputs": inputs, "weights": weights}
    found = library.call("smrl_perceptrons_back", results, *arrays, aliases=None, **numbers)
    return found[0] if inputs else None, jax.tree.unflatten(structure, found[inputs:]) if weights else None


perceptrons_by_kernels.defvjp(_forward, _backward, symbolic_zeros=True)
