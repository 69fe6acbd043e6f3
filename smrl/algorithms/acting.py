"""Fast acting: compiled functions that receive only the parts of the state that they read."""

from collections.abc import Callable
from typing import Any, Generic

import jax

from smrl.types import State


class Reader(Generic[State]):
    """``function(state, *rest)``, compiled to receive only the leaves of the state that it reads.

    A policy reads only the actor, but most of a state is critics, target networks and optimiser states: passing those
    too would take as long as choosing the action.
    """

    def __init__(self, function: Callable[..., Any], state: State, *rest: Any) -> None:
        leaves, self._structure = jax.tree.flatten(state)
        jaxpr = jax.make_jaxpr(function)(state, *rest).jaxpr
        read = {id(variable) for equation in jaxpr.eqns for variable in equation.invars} | set(map(id, jaxpr.outvars))
        self._read = [index for index, variable in enumerate(jaxpr.invars[: len(leaves)]) if id(variable) in read]

        def of_leaves(given: list[Any], *rest: Any) -> Any:
            parts = dict(zip(self._read, given, strict=True))
            return function(
                jax.tree.unflatten(self._structure, [parts.get(index) for index in range(len(leaves))]), *rest
            )

        self._compiled = jax.jit(of_leaves)

    def part(self, state: State) -> Any:
        """The state with None in place of every leaf that is not read."""
        leaves = jax.tree.leaves(state)
        read = set(self._read)
        kept = [leaf if index in read else None for index, leaf in enumerate(leaves)]
        return jax.tree.unflatten(self._structure, kept)

    def bind(self, state: State) -> Callable[..., Any]:
        """The compiled function of ``rest``, for this state."""
        leaves = jax.tree.leaves(state)
        read = [leaves[index] for index in self._read]
        return lambda *rest: self._compiled(read, *rest)
