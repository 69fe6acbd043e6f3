"""Both forms of a convolution are the same, and so are their gradients."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from smrl.nn.convolution import convolve, convolve_by_xla, convolve_on_cpu, fold


@partial(jax.jit, static_argnums=(0, 1))
def with_gradients(form: Any, stride: int, x: Any, weights: Any, slope: Any) -> list[Any]:
    """The output, and the gradients by images and by weights in the direction ``slope``."""
    y, back = jax.vjp(lambda x, weights: form(x, weights, stride), x, weights)
    return [y, *back(slope)]


@settings(max_examples=10, deadline=None, phases=[Phase.generate])  # to shrink an example, each try would compile
@given(st.data())
def test_both_forms_and_their_gradients(data: st.DataObject) -> None:
    """Images need not be square, and their last pixels may be under no kernel."""
    kernel, stride = data.draw(st.integers(1, 5), "kernel"), data.draw(st.integers(1, 4), "stride")
    height, width = (data.draw(st.integers(kernel, 12), name) for name in ("height", "width"))
    batch, channels = data.draw(st.integers(1, 3), "batch"), data.draw(st.integers(1, 3), "channels")
    filters = data.draw(st.sampled_from([1, 2, 17]), "filters")  # XLA has other kernels above 16
    rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    x, weights = rng.normal(size=(batch, height, width, channels)), rng.normal(size=(kernel, kernel, channels, filters))
    slope = rng.normal(size=(batch, *((side - kernel) // stride + 1 for side in (height, width)), filters))
    with jax.enable_x64(True):
        ours, theirs = (with_gradients(form, stride, x, weights, slope) for form in (convolve_on_cpu, convolve_by_xla))
    assert ours[0].dtype == np.float64
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("side", "channels", "kernel", "stride"), [(20, 4, 8, 4), (13, 9, 3, 2), (11, 32, 3, 1)])
def test_both_forms_compiled_in_a_loop(side: int, channels: int, kernel: int, stride: int) -> None:
    """As the reuse loop has them, in float32 and with the encoders' kernels."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(4, side, side, channels)), jnp.float32)
    weights = jnp.asarray(rng.normal(size=(kernel, kernel, channels, 32)) / kernel, jnp.float32)

    def descend(form: Any) -> Any:
        def step(_: Any, weights: Any) -> Any:
            return weights - 1e-3 * jax.grad(lambda weights: (form(x, weights, stride) ** 2).mean())(weights)

        return jax.jit(lambda weights: jax.lax.fori_loop(0, 3, step, weights))(weights)

    np.testing.assert_allclose(descend(convolve_on_cpu), descend(convolve_by_xla), rtol=1e-4, atol=1e-5)


def test_the_first_layer_computes_no_gradient_of_its_images() -> None:
    """Its images are data: of the three convolutions of a gradient one is left out."""
    x, weights = jnp.ones((2, 9, 9, 32)), jnp.ones((3, 3, 32, 32))

    def loss(x: Any, weights: Any) -> Any:
        return (convolve_on_cpu(x, weights, 1) ** 2).sum()

    def convolutions(wanted: Any) -> int:
        text = jax.jit(jax.grad(loss, wanted)).lower(x, weights).compile().as_text() or ""
        return text.count(" convolution(")

    assert (convolutions((0, 1)), convolutions(1)) == (3, 2)


def test_the_backend_picks_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weights = jnp.ones((1, 4, 4, 1)), jnp.ones((3, 3, 1, 1))

    def has_gradients_of_ours() -> bool:
        return "custom_vjp" in str(jax.make_jaxpr(lambda x: convolve(x, weights, 1))(x))

    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert has_gradients_of_ours()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not has_gradients_of_ours()


def test_fold_crops_and_fills() -> None:
    x = jnp.arange(1.0, 16.0).reshape(1, 3, 5, 1)
    np.testing.assert_array_equal(fold(x, 2, 2, 2)[0], [[[1, 2, 6, 7], [3, 4, 8, 9]], [[11, 12, 0, 0], [13, 14, 0, 0]]])
