"""Specs of the tests."""

import pytest

from smrl.algorithms import registry
from smrl.types import ArraySpec, Continuous, Spec

DISCRETE = ("dqn",)
FROM_IMAGES = ("sac_pixels", "drqv2")
CONTINUOUS = [name for name in registry.names() if name not in DISCRETE + FROM_IMAGES]

# Where algorithms share the code under test, `make test` tests one of each family and `make test-slow` the others.
FAMILIES = [name if name in ("ddpg", "sac") else pytest.param(name, marks=pytest.mark.slow) for name in CONTINUOUS]
SOFT = ["sac", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tqc", "redq"))]


def vectors(obs: int, actions: int) -> Spec:
    """A vector of observations and continuous actions."""
    return Spec(ArraySpec((obs,)), Continuous(actions))
