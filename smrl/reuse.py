"""Sample multiple reuse: the loop of the paper, around anybody's update.

    for round in range(rounds):        # a fresh batch per round
        for m in range(M):             # the same batch, M times
            state = update(state, batch)

The inner loop is `reuse`, and stands nowhere else; the outer one is `learner`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from smrl.schedule import Schedule
from smrl.types import Algorithm, Array, Key, Metrics, State, Tick, Transition

S = TypeVar("S")
Update = Callable[[S, Any, Key], tuple[S, Any]]


def reuse(update: Update[S], times: int | str | Schedule = 10) -> Callable[..., tuple[S, Any]]:
    """Make ``learn(state, batch, key, step=1)``, which updates ``times`` times on the same batch.

    ``update(state, batch, key)`` is any pure function that returns the new state and a pytree of numbers to
    report; reuse ``m`` gets the key ``fold_in(key, m)``. The reports come back averaged over the reuses. The
    number of reuses is data and not code, so a schedule (``"10:300000,1"``: ten until step 300,000, then one)
    compiles once. The state is donated: use the one that is returned.

    >>> learn = reuse(lambda x, batch, key: (x + batch, {"x": x}), times=3)
    >>> state, report = learn(jnp.float32(0), jnp.float32(2), jax.random.key(0))
    >>> float(state), float(report["x"])
    (6.0, 2.0)
    """
    schedule = Schedule.of(times)

    def learn(state: S, batch: Any, key: Key, step: Array | int = 1) -> tuple[S, Any]:
        count = schedule.at(step)

        def once(m: Array, carry: tuple[S, Any]) -> tuple[S, Any]:
            state, total = carry
            state, report = update(state, batch, jax.random.fold_in(key, m))
            return state, jax.tree.map(jnp.add, total, report)

        report = jax.eval_shape(update, state, batch, key)[1]
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), report)
        state, total = jax.lax.fori_loop(0, count, once, (state, nothing))
        return state, jax.tree.map(lambda leaf: leaf / count, total)

    return jax.jit(learn, donate_argnums=0)


def learner(
    algorithm: Algorithm[State], times: int | str | Schedule, fresh_batches: int = 1
) -> Callable[[State, Transition, Array | int, Key], tuple[State, Metrics]]:
    """Make ``learn(state, batches, step, key)``: all that an algorithm learns in one environment step.

    Every field of ``batches`` has two leading axes, (rounds, batch), where rounds are the algorithm's own times
    ``fresh_batches``, the update-to-data ratio; step counts the environment steps that learned, from 1. Compiled
    once; the state is donated.
    """
    rounds = algorithm.rounds * fresh_batches

    def learn(state: State, batches: Transition, step: Array, key: Key) -> tuple[State, Metrics]:
        def one_round(state: State, item: tuple[Array, Transition]) -> tuple[State, Metrics]:
            index, batch = item
            update_key, batch_key = jax.random.split(jax.random.fold_in(key, index))
            tick = Tick(step, index, rounds, batch_key)
            update = reuse(lambda state, batch, key: algorithm.update(state, batch, tick, key), times)
            return update(state, batch, update_key, step)

        state, reports = jax.lax.scan(one_round, state, (jnp.arange(rounds), batches))
        return state, jax.tree.map(lambda leaf: leaf.mean(0), reports)

    return jax.jit(learn, donate_argnums=0)
