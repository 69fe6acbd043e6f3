"""Dense layers with ReLU between them: a perceptron, whose gradients are written by hand for the kernels in C++."""

from collections.abc import Sequence

import jax

from smrl.native import library
from smrl.nn.activations import relu
from smrl.types import Array

FEWEST = 32  # rows for the kernels
Layers = Sequence[tuple[Array, Array]]  # weights (inputs, outputs) and biases (outputs,)


def perceptron(x: Array, layers: Layers) -> Array:
    """(…, inputs) → (…, outputs); the last layer is linear. Few rows are left to XLA, which does not pack weights."""
    rows = x.reshape(-1, x.shape[-1])
    has_kernels = len(rows) >= FEWEST and library.fits(x, *jax.tree.leaves(layers))
    return (perceptron_by_kernels if has_kernels else perceptron_by_xla)(rows, layers).reshape(*x.shape[:-1], -1)


def perceptron_by_xla(x: Array, layers: Layers) -> Array:
    """XLA's products, and the gradients that JAX derives from them."""
    *hidden, (weights, bias) = layers
    for hidden_weights, hidden_bias in hidden:
        x = relu(x @ hidden_weights + hidden_bias)
    return x @ weights + bias


@jax.custom_vjp
def perceptron_by_kernels(x: Array, layers: Layers) -> Array:
    """The same by C++ kernels."""
    return _forward(x, layers)[0]


def _forward(x: Array, layers: Layers) -> tuple[Array, tuple[list[Array], Layers]]:
    """The outputs, and for the gradients the inputs of every layer."""
    inputs = [x]
    for index, (weights, bias) in enumerate(layers):
        shape = jax.ShapeDtypeStruct((len(x), len(bias)), x.dtype)
        is_hidden = index + 1 < len(layers)
        inputs.append(library.call("smrl_dense", shape, inputs[-1], weights, bias, relu=is_hidden))
    return inputs.pop(), (inputs, layers)


def _backward(kept: tuple[list[Array], Layers], gradient: Array) -> tuple[Array, list[tuple[Array, Array]]]:
    """∂W = xᵀ ∂y, ∂b = Σ ∂y and ∂x = ∂y Wᵀ, layer by layer; XLA leaves out calls whose results nobody reads."""
    inputs, layers = kept
    gradients = list[tuple[Array, Array]]()
    for index in reversed(range(len(layers))):
        x, (weights, bias) = inputs[index], layers[index]
        shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in (x, weights, bias)]
        gradients.append(tuple(library.call("smrl_dense_weights", shapes[1:], x, gradient)))
        gradient = library.call("smrl_dense_inputs", shapes[0], gradient, weights, x, relu=index > 0)
    return gradient, gradients[::-1]


perceptron_by_kernels.defvjp(_forward, _backward)
