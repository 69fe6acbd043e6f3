"""Specs of the tests."""

from smrl.types import ArraySpec, Continuous, Spec


def vectors(obs: int, actions: int) -> Spec:
    """A vector of observations and continuous actions."""
    return Spec(ArraySpec((obs,)), Continuous(actions))
