"""Adam and soft updates by the C++ kernels compute what XLA computes."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smrl.kernels import adam, library, polyak
from smrl.types import Params

pytestmark = pytest.mark.usefixtures("kernels")
SHAPES = [(), (3,), (17, 256), (2, 90, 100)]  # the last one has more elements than one task of the kernels


def tree(seed: int) -> Params:
    draw = np.random.default_rng(seed)
    return {"params": [jnp.asarray(draw.standard_normal(shape), jnp.float32) for shape in SHAPES]}


def assert_kernels_match_xla(step: Callable[[], Params], monkeypatch: pytest.MonkeyPatch) -> None:
    by_kernels = jax.tree.leaves(step())
    monkeypatch.setattr(library, "supports", lambda *_: False)
    for ours, theirs in zip(by_kernels, jax.tree.leaves(step()), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1, 1000])
def test_adam(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def step() -> Params:
        squares = jax.tree.map(jnp.square, tree(2))
        return adam(tree(0), tree(1), squares, tree(3), jnp.asarray(count), 1e-3, 0.9, 0.999, 1e-8)

    assert_kernels_match_xla(step, monkeypatch)


def test_polyak(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_kernels_match_xla(lambda: polyak(tree(0), tree(1), 0.005), monkeypatch)
