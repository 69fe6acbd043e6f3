"""Acting fast: a compiled function of only those parts of the state that it reads."""

from collections.abc import Callable
from typing import Any, Generic

import jax

from smrl.types import State


class Reader(Generic[State]):
    """``function(state, *rest)``, compiled; a call passes on only the leaves of the state that are read.

    A policy reads its actor, but a state is mostly critics, targets and optimisers: to hand those over as well would
    cost as much as choosing the action.
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
        """The function with a state filled in."""
        leaves = jax.tree.leaves(state)
        read = [leaves[index] for index in self._read]
        return lambda *rest: self._compiled(read, *rest)
