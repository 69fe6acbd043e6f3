"""One table: every listed algorithm has every property. A new algorithm is tested by being listed."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from smrl import checkpoint
from smrl.algorithms import ALGORITHMS
from smrl.reuse import learner
from smrl.types import Algorithm, Spec, Tick, Transition

SPEC = Spec(obs_size=5, action_size=2)
BATCH = 16
SMALL: dict[str, Any] = {"actor_hidden": (32, 32), "critic_hidden": (32, 32)}
FEW: dict[str, Any] = {"tqc": {"critics": 2, "atoms": 5}, "redq": {"critics": 3}}

FRESH_BATCHES = {"redq": 3}  # one where it is not said

# name → optimiser steps per reuse at an odd and at an even environment step, as the paper's loops say; of each pair
OPTIMISER_STEPS: dict[str, dict[str, tuple[int, int]]] = {
    "ddpg": {"actor": (1, 1), "critics": (1, 1)},
    "td3": {"actor": (0, 1), "critics": (1, 1)},
    "sac": {"actor": (1, 1), "critics": (1, 1), "log_alpha": (1, 1)},
    "darc": {"actors": (1, 1), "critics": (1, 1)},
    "tqc": {"actor": (1, 1), "critics": (1, 1), "log_alpha": (1, 1)},
    "redq": {"actor": (1, 1), "critics": (3, 3), "log_alpha": (1, 1)},
}
# name → whether the target networks move at an odd and at an even environment step
TARGETS_MOVE = dict.fromkeys(ALGORITHMS, (True, True)) | {"td3": (False, True)}

every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


@functools.cache
def make(name: str) -> Algorithm[Any]:
    entry = ALGORITHMS[name]
    return entry.make(entry.config(**SMALL, **FEW.get(name, {})), SPEC)


@functools.cache
def learn(name: str, times: int | str) -> Any:
    return learner(make(name), times, FRESH_BATCHES.get(name, 1))


def rounds(name: str) -> int:
    return make(name).rounds * FRESH_BATCHES.get(name, 1)


@functools.cache
def update(name: str) -> Any:
    """The algorithm's own update, compiled."""
    algorithm = make(name)

    def once(state: Any, batch: Transition, step: Any, index: Any, batch_key: Any, key: Any) -> Any:
        return algorithm.update(state, batch, Tick(step, index, rounds(name), batch_key), key)

    return jax.jit(once)


@functools.cache
def initial(name: str) -> Any:
    return jax.jit(make(name).init)


def start(name: str, seed: int = 0) -> Any:
    return initial(name)(jax.random.key(seed))


def batches(count: int, seed: int = 0) -> Transition:
    draw = np.random.default_rng(seed)

    def normal(*shape: int) -> Any:
        return draw.standard_normal((count, BATCH, *shape), np.float32)

    discount: Any = np.where(draw.random((count, BATCH)) < 0.2, 0, 0.99).astype(np.float32)
    return Transition(normal(5), np.tanh(normal(2)), normal(), discount, normal(5))


def manual(name: str, state: Any, data: Transition, step: int, key: Any, times: int) -> tuple[Any, dict[str, Any]]:
    """The paper's loops in plain Python; the reports are averaged."""
    reports = []
    for index in range(rounds(name)):
        update_key, batch_key = jax.random.split(jax.random.fold_in(key, index))
        batch = jax.tree.map(lambda field, index=index: field[index], data)
        for m in range(times):
            state, report = update(name)(state, batch, step, index, batch_key, jax.random.fold_in(update_key, m))
            reports.append(report)
    return state, jax.tree.map(lambda *values: np.mean(values), *reports)


def assert_close(left: Any, right: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6), left, right)


def differs(left: Any, right: Any) -> bool:
    return any(not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True))


@every_algorithm
@pytest.mark.parametrize("times", [1, 4])  # 1 is the base algorithm: one call of its update per round
def test_reuse_equals_manual_updates(name: str, times: int) -> None:
    key, data = jax.random.key(7), batches(rounds(name))
    state, expected = start(name), start(name)
    for step in (1, 2, 3):
        state, report = learn(name, times)(state, data, step, key)
        expected, expected_report = manual(name, expected, data, step, key, times)
        assert_close(state, expected)
        assert_close(report, expected_report)


@every_algorithm
def test_targets_start_as_copies(name: str) -> None:
    state = start(name)
    for part in (part for part in state._fields if part.startswith("target_")):
        assert not differs(getattr(state, part), getattr(state, part.removeprefix("target_")).params)
    if "log_alpha" in state._fields:
        assert state.log_alpha.params == 0


@every_algorithm
def test_same_seed_same_result_and_other_seed_another(name: str) -> None:
    data = batches(rounds(name))
    first, second, third = (learn(name, 4)(start(name, seed), data, 2, jax.random.key(seed))[0] for seed in (0, 0, 1))
    assert not differs(first, second)
    assert differs(first, third)


@every_algorithm
def test_shapes_and_dtypes_are_stable(name: str) -> None:
    state = start(name)
    before = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state)
    state, _ = learn(name, 4)(state, batches(rounds(name)), 1, jax.random.key(0))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) == before
    assert {leaf.dtype.name for leaf in jax.tree.leaves(state)} <= {"float32", "int32"}


@every_algorithm
def test_compiles_once(name: str) -> None:
    state, compilations = start(name), list[str]()
    state, _ = learn(name, "3:2,1")(state, batches(rounds(name)), 1, jax.random.key(0))
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compilations.append(event))
    try:
        for step in (2, 3, 4):  # across a change of the schedule
            state, _ = learn(name, "3:2,1")(state, batches(rounds(name), seed=step), step, jax.random.key(step))
    finally:
        jax.monitoring.clear_event_listeners()
    assert not [event for event in compilations if "backend_compile" in event]


@every_algorithm
@pytest.mark.parametrize("step", [1, 2])
def test_counts_of_updates(name: str, step: int) -> None:
    times, before = 4, start(name)
    after, _ = learn(name, times)(start(name), batches(rounds(name)), step, jax.random.key(0))
    for part, steps in OPTIMISER_STEPS[name].items():
        counts = optax.tree.get(getattr(after, part).optimiser, "count")
        assert (counts == times * steps[(step + 1) % 2]).all(), part
    targets = [part for part in before._fields if part.startswith("target_")]
    for part in targets:
        assert differs(getattr(before, part), getattr(after, part)) == TARGETS_MOVE[name][(step + 1) % 2], part
    assert targets


@every_algorithm
def test_an_appraisal_is_of_the_policy_by_all_critics(name: str) -> None:
    algorithm, state = make(name), start(name)
    obs = np.random.default_rng(0).standard_normal((64, SPEC.obs_size), np.float32)
    one, same, other = (algorithm.appraise(state, obs, jax.random.key(seed)) for seed in (0, 0, 1))
    assert one.action.shape == (64, SPEC.action_size)
    assert one.q.shape == one.log_prob.shape == (64,)
    assert one.alpha.shape == ()
    assert not differs(one, same)
    soft = hasattr(state, "log_alpha")
    assert differs(one, other) == bool(one.alpha) == bool(np.any(one.log_prob)) == soft
    if not soft:
        assert not differs(one.action, algorithm.exploit(state, obs))


@every_algorithm
def test_actions_are_bounded_and_exploration_explores(name: str) -> None:
    algorithm, state = make(name), start(name)
    obs = 100 * np.random.default_rng(0).standard_normal((64, SPEC.obs_size), np.float32)
    greedy = algorithm.exploit(state, obs)
    explored = [algorithm.explore(state, obs, jnp.asarray(1), jax.random.key(seed)) for seed in (0, 0, 1)]
    for actions in (greedy, *explored):
        assert actions.shape == (64, SPEC.action_size)
        assert np.abs(actions).max() <= 1
    assert not differs(explored[0], explored[1])
    assert differs(explored[0], explored[2])
    assert differs(explored[0], greedy)


@every_algorithm
def test_save_and_load_round_trip(name: str) -> None:
    state, _ = learn(name, 4)(start(name), batches(rounds(name)), 2, jax.random.key(0))
    template = jax.eval_shape(make(name).init, jax.random.key(0))
    assert not differs(checkpoint.from_arrays(template, checkpoint.to_arrays(state)), state)


def test_the_table_is_complete() -> None:
    assert OPTIMISER_STEPS.keys() == ALGORITHMS.keys()
