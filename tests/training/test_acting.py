"""A policy reads its actor and nothing else of the state."""

from typing import Any

import jax
import numpy as np
import pytest
from specs import FAMILIES, vectors

from smrl.algorithms import registry
from smrl.nn.networks import Stacked
from smrl.training.acting import Reader


@pytest.mark.parametrize("name", FAMILIES)
def test_only_what_is_read_is_handed_over(name: str) -> None:
    entry, spec = registry.find(name), vectors(3, 2)
    algorithm = entry.make(entry.config(actor_hidden=(8,), critic_hidden=(8,)), spec)
    state = jax.jit(algorithm.init)(jax.random.key(0))
    obs = np.random.default_rng(0).standard_normal((5, 3), np.float32)
    reader: Reader[Any] = Reader(algorithm.exploit, state, obs)
    np.testing.assert_array_equal(reader.bind(state)(obs), jax.jit(algorithm.exploit)(state, obs))
    assert len(reader._read) < len(jax.tree.leaves(state)) / 4
    assert all(reader._ways)


def test_what_is_only_passed_through_is_read() -> None:
    reader: Reader[Any] = Reader(lambda state, x: (state["a"], state["b"] + x), {"a": 1.0, "b": 2.0, "c": 3.0}, 1.0)
    assert reader.bind({"a": 5.0, "b": 6.0, "c": 7.0})(1.0) == (5.0, 7.0)


def test_a_state_of_containers_that_have_no_names_is_read_too() -> None:
    state = Stacked({"a": jax.numpy.ones(2), "b": jax.numpy.zeros(2)})
    reader: Reader[Any] = Reader(lambda state, x: state.params["a"] + x, state, 1.0)
    assert not all(reader._ways)
    np.testing.assert_array_equal(reader.bind(state)(1.0), [2.0, 2.0])
