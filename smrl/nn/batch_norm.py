"""Perceptrons with batch normalisation, whose running statistics are kept beside the parameters."""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from smrl import kernels, layers
from smrl.kernels.dense import relu
from smrl.layers import Layer
from smrl.nn.networks import Dense, Initializer, torch_default
from smrl.types import Array, Key, Params

MOMENTUM = 0.99  # of the running statistics, as in XQC
EPSILON = 1e-3


class Weights(nn.Module):
    """The parameters of a dense layer without biases."""

    size: int
    initializer: Initializer

    @nn.compact
    def __call__(self, inputs: int) -> Array:  # (inputs, size)
        return self.param("kernel", self.initializer(inputs, False)[0], (inputs, self.size))


class BatchNormMLP(nn.Module):
    """BN → (linear → BN → ReLU) for every hidden layer → linear.

    BN is x̂ = (x − μ) / √(σ² + ε) · scale + bias, in training with μ and σ² of the batch, otherwise with their running
    means. Hidden layers have no biases, which BN would cancel.
    """

    sizes: Sequence[int]
    initializer: Initializer = torch_default

    @nn.compact
    def __call__(self, x: Array, training: bool) -> Array:
        def normalised(x: Array) -> Array:
            norm = nn.BatchNorm(not training, momentum=MOMENTUM, epsilon=EPSILON, use_fast_variance=False)
            return norm(x)

        x = normalised(x)
        *hidden, last = self.sizes
        for index, size in enumerate(hidden):
            weights = Weights(size, self.initializer, name=f"Dense_{index}")(x.shape[-1])
            x = relu(normalised(kernels.mlp(x, [[(weights, jnp.zeros(size))]])[0]))
        return kernels.mlp(x, [[Dense(last, self.initializer, True, name=f"Dense_{len(hidden)}")(x.shape[-1])]])[0]

    def start(self, key: Key, inputs: int) -> tuple[Params, Params]:
        """Return initial parameters, and the statistics before any batch: μ = 0, σ² = 1."""
        variables = self.init(key, jnp.zeros((1, inputs)), training=False)
        return variables["params"], variables["batch_stats"]

    def train(self, params: Params, statistics: Params, x: Array) -> tuple[Array, Params]:
        """Return the outputs, normalised by the statistics of this batch, and the new running statistics."""
        variables = {"params": params, "batch_stats": statistics}
        outputs, changed = self.apply(variables, x, training=True, mutable=["batch_stats"])
        return outputs, jax.lax.stop_gradient(changed["batch_stats"])

    def predict(self, params: Params, statistics: Params, x: Array) -> Array:
        """Return the outputs, normalised by the running statistics."""
        return self.apply({"params": params, "batch_stats": statistics}, x, training=False)

    def network(self, params: Params, statistics: Params) -> list[Layer]:
        """Return the layers of `predict`; each BN is part of a dense layer, folded into it in float64."""
        found: list[Layer] = []
        count = len(self.sizes)

        def factors(index: int) -> tuple[np.ndarray, np.ndarray]:  # BN is x · slope + shift
            running, learned = statistics[f"BatchNorm_{index}"], params[f"BatchNorm_{index}"]
            slope = learned["scale"] / np.sqrt(np.float64(running["var"]) + EPSILON)
            return slope, learned["bias"] - running["mean"] * slope

        slope, shift = factors(0)
        for index in range(count - 1):
            weights = params[f"Dense_{index}"]["kernel"]
            after, bias = factors(index + 1)
            if index == 0:  # (x · slope + shift) W
                bias, weights = bias + shift @ weights * after, slope[:, None] * weights
            folded = layers.Dense((weights * after).astype(np.float32), bias.astype(np.float32))
            found += [folded, layers.Activation("relu")]
        last = params[f"Dense_{count - 1}"]
        return [*found, layers.Dense(last["kernel"], last["bias"])]
