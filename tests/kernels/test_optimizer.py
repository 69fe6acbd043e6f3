"""Adam and soft updates by the C++ kernels compute what XLA computes."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smrl.kernels import adam, library, polyak, project
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


@pytest.mark.parametrize(("count", "decay"), [(1, 0.0), (1000, 0.1)])
def test_adam(count: int, decay: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def step() -> Params:
        squares = jax.tree.map(jnp.square, tree(2))
        return adam(tree(0), tree(1), squares, tree(3), jnp.asarray(count), 1e-3, 0.9, 0.999, 1e-8, decay)

    assert_kernels_match_xla(step, monkeypatch)


def test_polyak(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_kernels_match_xla(lambda: polyak(tree(0), tree(1), 0.005), monkeypatch)


def test_adamw_in_float64() -> None:
    """Two steps against θ ← θ − η (m̂ / (√v̂ + ε) + λ θ) by hand."""
    draw = np.random.default_rng(0)
    theta, gradients = draw.standard_normal(70), draw.standard_normal((2, 70))
    state = jnp.zeros(70, jnp.float32), jnp.zeros(70, jnp.float32), jnp.asarray(theta, jnp.float32)
    m = v = np.zeros(70)
    for count, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2
        step = m / (1 - 0.9**count) / (np.sqrt(v / (1 - 0.99**count)) + 1e-8)
        theta = theta - 0.01 * (step + 0.3 * theta)
        state = adam(jnp.asarray(g, jnp.float32), *state, jnp.asarray(count), 0.01, 0.9, 0.99, 1e-8, 0.3)
    np.testing.assert_allclose(state[2], theta, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("by_kernels", [True, False])
def test_projection_in_float64(by_kernels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns have norm 1, whatever their number, and a column of zeros stays."""
    if not by_kernels:
        monkeypatch.setattr(library, "supports", lambda *_: False)
    draw = np.random.default_rng(0)
    weights = [draw.standard_normal(shape).astype(np.float32) for shape in ((300, 257), (5, 1), (1, 3), (23, 128))]
    weights[0][:, 7] = 0
    for ours, given in zip(project([jnp.asarray(each) for each in weights]), weights, strict=True):
        norms = np.linalg.norm(given.astype(np.float64), axis=0)
        np.testing.assert_allclose(ours, given / np.where(norms > 0, norms, 1), rtol=2e-6)
