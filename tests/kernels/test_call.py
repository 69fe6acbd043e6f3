"""Kernels check the type, the shape and the number of arrays and attributes, and refuse any others with an error."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smrl.kernels import library, mlp
from smrl.kernels.dense import Layers

pytestmark = pytest.mark.usefixtures("kernels")
Shapes = list[tuple[int, ...]]


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


def call(name: str, results: Shapes, *arrays: Any, **attributes: Any) -> Any:
    kinds = [jax.ShapeDtypeStruct(shape, np.float32) for shape in results]
    return jax.block_until_ready(jax.ffi.ffi_call(name, kinds)(*arrays, **attributes))


CONV = {"stride": np.int64(1), "relu": np.int64(1)}
STRIDE = {"stride": np.int64(1)}
FORM = {"layers": np.int64(2), "form": np.int64(2)}  # embedding, LayerNorm, output
MLP = FORM | {"keep": np.int64(1), "chosen": np.int64(0), "epsilon": np.float64(1e-5)}
BACK = FORM | {"inputs": np.int64(1), "weights": np.int64(1)}
ADAM = {name: np.float64(0.1) for name in ("rate", "beta1", "beta2", "epsilon", "decay")}
TAU = {"tau": np.float64(0.1)}
PARAMETERS: Shapes = [(3, 4), (4,), (4, 5), (5,), (4,), (4,)]  # weights and biases, of the second layer scale and shift
KEPT: Shapes = [(7, 4), (7, 4), (7, 2)]
IMAGES, FILTERS, OUT = (2, 5, 6, 3), (3, 3, 3, 4), (2, 3, 4, 4)
GIVEN: dict[str, tuple[Shapes, Shapes, dict[str, Any]]] = {  # results, arguments and attributes
    "smrl_conv": ([OUT], [IMAGES, FILTERS, (4,)], CONV),
    "smrl_conv_input_gradient": ([IMAGES], [OUT, FILTERS, IMAGES], CONV),
    "smrl_conv_weight_gradient": ([FILTERS, (4,)], [IMAGES, OUT], STRIDE),
    "smrl_mlp": ([(1, 7, 5), *KEPT], [(7, 3), *PARAMETERS], MLP),
    "smrl_mlp_backward": (
        [(7, 3), *PARAMETERS],
        [(1, 7, 5), (7, 3), *KEPT, (3, 4), (4, 5), (4,)],
        BACK,
    ),
    "smrl_adam": ([(3, 2)] * 3, [(2,), *[(3, 2)] * 4], ADAM),
    "smrl_project": ([(3, 2)], [(3, 2)], {}),
    "smrl_polyak": ([(3, 2)], [(3, 2), (3, 2)], TAU),
}
every_kernel = pytest.mark.parametrize("name", GIVEN)


def refused(name: str, results: Shapes, *arrays: Any, **attributes: Any) -> str:
    with pytest.raises(jax.errors.JaxRuntimeError) as raised:
        call(name, results, *arrays, **attributes)
    assert f"{name}: " in str(raised.value)
    return str(raised.value)


def test_all_kernels_are_listed() -> None:
    assert set(GIVEN) == set(library.SIGNATURES)
    assert {name: set(given[2]) for name, given in GIVEN.items()} == {
        name: set(signature) for name, signature in library.SIGNATURES.items()
    }


@every_kernel
def test_wrong_arrays_are_refused(name: str) -> None:
    """Every argument with another type, rank or size, one that is empty, and one too few; every result likewise."""
    results, shapes, attributes = GIVEN[name]
    arrays = [zeros(*shape) for shape in shapes]
    call(name, results, *arrays, **attributes)
    for i, shape in enumerate(shapes):
        others = [zeros(*shape, dtype=np.int32), zeros(*(size + 1 for size in shape)), zeros(*shape[:-1], 0)]
        is_any_shape = name == "smrl_polyak" or (name == "smrl_adam" and i > 0)
        others += [] if is_any_shape else [zeros(*shape, 1)]
        for other in others:
            refused(name, results, *arrays[:i], other, *arrays[i + 1 :], **attributes)
    for i, shape in enumerate(results):
        refused(name, [*results[:i], tuple(size + 1 for size in shape), *results[i + 1 :]], *arrays, **attributes)
    refused(name, results, *arrays[:-1], **attributes)
    refused(name, [*results, (1,)], *arrays, **attributes)


@every_kernel
def test_wrong_attributes_are_refused(name: str) -> None:
    results, shapes, attributes = GIVEN[name]
    arrays = [zeros(*shape) for shape in shapes]
    for key, value in attributes.items():
        other_kind = np.float64 if value.dtype == int else np.int64
        for other in (np.float32(2.5), np.int32(11), "text", other_kind(13)):  # JAX takes 1.0 for a 1 that it has seen
            message = refused(name, results, *arrays, **attributes | {key: other})
            assert f"the attribute {key} is missing or has another type" in message
        refused(name, results, *arrays, **{each: number for each, number in attributes.items() if each != key})
    for key in ("stride", "layers"):
        if key in attributes:
            refused(name, results, *arrays, **attributes | {key: np.int64(0)})


def test_message_of_a_wrong_array() -> None:
    results, (images, *shapes), attributes = GIVEN["smrl_conv"]
    with jax.enable_x64(True):
        arrays = [zeros(*images, dtype=np.float64), *(zeros(*shape) for shape in shapes)]
        message = refused("smrl_conv", results, *arrays, **attributes)
    assert "smrl_conv: argument 0 is float64[2, 5, 6, 3] instead of float32[*, *, *, *]" in message


@pytest.mark.parametrize("chosen", [-1, 2])
def test_a_chosen_member_that_does_not_exist_is_refused(chosen: int) -> None:
    members: list[Layers] = [[(jnp.ones((3, 2)), jnp.ones(2))], [(jnp.ones((3, 2)), jnp.ones(2))]]
    with pytest.raises(jax.errors.JaxRuntimeError, match="a chosen member does not exist"):
        jax.block_until_ready(mlp(jnp.ones((40, 3)), members, jnp.array([0, chosen])))


def test_whole_numbers_must_be_whole() -> None:
    results, shapes, _ = GIVEN["smrl_conv"]
    kinds = [jax.ShapeDtypeStruct(shape, np.float32) for shape in results]
    with pytest.raises(TypeError, match="integer"):
        library.call("smrl_conv", kinds, *(zeros(*shape) for shape in shapes), stride=1.5, relu=True)
