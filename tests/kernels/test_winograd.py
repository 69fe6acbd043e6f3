"""Compare the kernels' 3×3 convolutions with stride 1, mostly in Winograd's form, with sums in float64."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from smrl.kernels import library
from smrl.kernels.convolution import convolve_by_xla
from smrl.machine import THREADS

pytestmark = pytest.mark.usefixtures("kernels")
BOUND = 3e-6  # relative to the largest result; direct sums have errors up to 1e-6 here
SHAPES = [  # batch, height, width, channels, filters
    (1, 3, 3, 32, 32),  # this one and the next are too small for Winograd's form
    (13, 3, 4, 16, 17),
    (1, 6, 6, 16, 16),  # exactly one tile
    (13, 5, 6, 17, 33),
    (1, 7, 10, 33, 17),
    (13, 8, 9, 40, 70),
    (1, 41, 39, 32, 32),  # as in DrQ-v2
    (13, 13, 12, 32, 48),
    (13, 9, 9, 64, 64),  # as in DQN
    (40, 19, 20, 16, 20),  # the gradient of the weights is summed in several groups
]


def arrays(shape: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
    """Return images, half of whose values are zero as after ReLU, weights, biases and a gradient of the outputs."""
    batch, height, width, channels, filters = shape
    draw = np.random.default_rng(sum(shape))
    x = draw.standard_normal((batch, height, width, channels), np.float32).clip(0)
    weights = draw.standard_normal((3, 3, channels, filters), np.float32) / np.float32(3 * channels**0.5)
    slope = draw.standard_normal((batch, height - 2, width - 2, filters), np.float32)
    return x, weights, draw.standard_normal(filters, np.float32), slope


def by_kernels(x: Any, weights: Any, bias: Any, slope: Any, *, relu: bool) -> list[Any]:
    """Return the outputs and the gradients of images, weights and biases."""
    like_y, like_x, *like_layer = library.like(slope, x, weights, bias)
    y = library.call("smrl_conv", like_y, x, weights, bias, stride=1, relu=relu)
    images = library.call("smrl_conv_input_gradient", like_x, slope, weights, x, stride=1, relu=relu)
    return [y, images, *library.call("smrl_conv_weight_gradient", like_layer, x, slope, stride=1)]


def by_xla(x: Any, weights: Any, bias: Any, slope: Any, *, relu: bool) -> list[Any]:
    y, back = jax.vjp(lambda x, weights, bias: convolve_by_xla(x, weights, 1) + bias, x, weights, bias)
    images, *others = back(slope)
    return [y.clip(0) if relu else y, images * (x > 0) if relu else images, *others]


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_errors_are_close_to_those_of_direct_sums(shape: tuple[int, ...], relu: bool) -> None:
    given = arrays(shape)
    ours, direct = by_kernels(*given, relu=relu), by_xla(*given, relu=relu)
    with jax.enable_x64(True):
        exact = by_xla(*(array.astype(np.float64) for array in given), relu=relu)
    for one, other, true in zip(ours, direct, map(np.asarray, exact), strict=True):
        error, usual = (np.abs(np.asarray(result) - true).max() / np.abs(true).max() for result in (one, other))
        assert error < min(BOUND, 10 * max(usual, np.finfo(np.float32).eps))


def digest() -> str:
    assert library.is_available()
    results = [array for shape in SHAPES for array in by_kernels(*arrays(shape), relu=True)]
    return hashlib.sha256(b"".join(np.asarray(array).tobytes() for array in results)).hexdigest()


@pytest.mark.slow
def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    def bits(threads: int) -> str:
        program = "import sys; sys.path.insert(0, sys.argv[1]); import test_winograd; print(test_winograd.digest())"
        command = [sys.executable, "-c", program, str(Path(__file__).parent)]
        environment = {**os.environ, THREADS: str(threads)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert bits(1) == bits(2) != ""
