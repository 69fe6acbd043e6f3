"""Fast acting: compiled functions that receive only the parts of the state that they read."""

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any, Generic

import jax
from jax.tree_util import DictKey, GetAttrKey, SequenceKey

from smrl.types import State


class Reader(Generic[State]):
    """``function(state, *rest)``, compiled to receive only the leaves of the state that it reads.

    A policy reads only the actor, but most of a state is critics, target networks and optimiser states: passing those
    too would take as long as choosing the action.
    """

    def __init__(self, function: Callable[..., Any], state: State, *rest: Any) -> None:
        found, self._structure = jax.tree.flatten_with_path(state)
        leaves = [leaf for _, leaf in found]
        jaxpr = jax.make_jaxpr(function)(state, *rest).jaxpr
        read = {id(variable) for equation in jaxpr.eqns for variable in equation.invars} | set(map(id, jaxpr.outvars))
        self._read = [index for index, variable in enumerate(jaxpr.invars[: len(leaves)]) if id(variable) in read]

        self._ways = [_way(path) for index, (path, _) in enumerate(found) if index in self._read]

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
        if all(self._ways):  # flattening the whole state would take as long as a tenth of acting and storing
            read = [_follow(state, way) for way in self._ways]
        else:
            leaves = jax.tree.leaves(state)
            read = [leaves[index] for index in self._read]
        return lambda *rest: self._compiled(read, *rest)


def _way(path: tuple[Any, ...]) -> list[Callable[[Any], Any]]:
    """What leads along a path through named tuples, dicts and sequences; empty if there is another container on it."""
    way: list[Callable[[Any], Any]] = []
    for step in path:
        match step:
            case GetAttrKey(name=name):
                way.append(attrgetter(name))
            case DictKey(key=place) | SequenceKey(idx=place):
                way.append(itemgetter(place))
            case _:
                return []
    return way


def _follow(tree: Any, way: list[Callable[[Any], Any]]) -> Any:
    for get in way:
        tree = get(tree)
    return tree
