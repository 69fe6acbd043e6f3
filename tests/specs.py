"""Specs of the tests."""

from smrl.algorithms import registry
from smrl.types import ArraySpec, Continuous, Spec

DISCRETE = ("dqn",)
FROM_IMAGES = ("sac_pixels", "drqv2")
CONTINUOUS = [name for name in registry.names() if name not in DISCRETE + FROM_IMAGES]


def vectors(obs: int, actions: int) -> Spec:
    """A vector of observations and continuous actions."""
    return Spec(ArraySpec((obs,)), Continuous(actions))
