"""What a learning step is made of: rounds, reuses, settling, the rule's carry, and resets."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from specs import vectors

from smrl.smr import loop
from smrl.smr.rules import Rule, rule_of
from smrl.types import Algorithm, Transition, UpdateContext


class State(NamedTuple):
    """How often each function was called, and what it saw."""

    updates: Any
    settled: Any
    batch_keys: Any  # sum of a number that each batch's key gives
    kept: Any


def counting(keeps: bool = False, rounds: int = 2) -> Algorithm[State]:
    """An algorithm that learns nothing and counts."""

    def init(key: Any) -> State:
        return State(jnp.int32(0), jnp.int32(0), jnp.float32(0), jax.random.uniform(key))

    def update(state: State, batch: Transition, context: UpdateContext, key: Any) -> tuple[State, dict[str, Any]]:
        number = jax.random.uniform(context.batch_key)
        state = state._replace(updates=state.updates + 1, batch_keys=state.batch_keys + number)
        # Only the last round reports this, as REDQ's actor loss.
        rare = jnp.where(context.round == context.rounds - 1, 7.0, jnp.nan)
        return state, {"updates": state.updates.astype(float), "rare": rare, "settled": state.settled.astype(float)}

    def after_updates(state: State, context: UpdateContext) -> State:
        return state._replace(settled=state.settled + 10 * context.step)

    def nothing(*_: Any) -> Any:
        return jnp.zeros(())

    def reset(state: State, key: Any) -> State:
        return init(key)._replace(kept=state.kept)

    return Algorithm(
        *(init, update, nothing, nothing),
        after_updates=after_updates,
        reset=reset if keeps else None,
        rounds=rounds,
    )


def batches(rounds: int) -> Transition:
    example = vectors(3, 1).example(4)
    return jax.tree.map(lambda field: jnp.zeros((rounds, *field.shape)), example)


def learned_after(steps: int, times: Any, **algorithm: Any) -> tuple[loop.AgentState[State], list[dict[str, Any]]]:
    algorithm_made = counting(**algorithm)
    rule: Rule = rule_of(times)
    learn = jax.jit(loop.learner(algorithm_made, rule, fresh_batches=3))
    learned, reports = loop.initial_state(algorithm_made, rule, jax.random.key(0)), []
    for step in range(1, steps + 1):
        learned, report = learn(learned, batches(6), step, 100 * step, jax.random.key(step))
        reports.append(report)
    return learned, reports


def test_updates_are_rounds_times_reuses_and_are_counted() -> None:
    learned, _ = learned_after(3, "4:200,1")  # the rule sees environment steps: 100, 200, 300
    assert int(learned.algorithm.updates) == int(learned.updates) == 6 * (4 + 4 + 1)
    assert int(learned.batches) == 6 * 3


def test_a_step_is_settled_once_after_all_its_updates() -> None:
    learned, reports = learned_after(2, 5)
    assert int(learned.algorithm.settled) == 10 + 20
    assert [float(report["settled"]) for report in reports] == [0, 10], "during a step its settling is still to come"


def test_reports_are_means_over_the_updates_that_have_them() -> None:
    _, (report,) = learned_after(1, 5)
    assert float(report["updates"]) == np.mean(range(1, 31))
    assert float(report["rare"]) == 7


def test_all_reuses_of_a_batch_share_its_key() -> None:
    once, _ = learned_after(1, 1)
    often, _ = learned_after(1, 5)
    np.testing.assert_allclose(often.algorithm.batch_keys, 5 * once.algorithm.batch_keys, rtol=1e-6)
