"""One table: every listed algorithm has every property. A new algorithm is tested by being listed."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from specs import FAMILIES, vectors

from smrl.algorithms import registry
from smrl.errors import SmrlError
from smrl.runs.identity import algorithm_words
from smrl.smr import loop
from smrl.training.agent import from_arrays, to_arrays
from smrl.types import Algorithm, ArraySpec, Continuous, Discrete, Spec, Transition, UpdateContext

SPEC = vectors(5, 2)
IMAGES = Spec(ArraySpec((12, 12, 2), "uint8"), Continuous(2))
SPECS = {  # of the others: vectors in, vectors out
    "dqn": Spec(ArraySpec((5,)), Discrete(3)),
    "sac_pixels": IMAGES,
    "drqv2": IMAGES,
}
BATCH = 40  # more than the rows below which the dense kernels leave the work to XLA
SMALL_BATCH = 15  # twice as many are fewer than those rows, too
SMALL: dict[str, Any] = {"actor_hidden": (32, 32), "critic_hidden": (32, 32)}
SMALL_ENCODER: dict[str, Any] = SMALL | {"filters": (8, 8), "kernels": (3, 3), "strides": (2, 1), "features": 16}
SMALL_ENCODER |= {"learning_rate": 1e-3}
SIZES: dict[str, Any] = {  # of the others: the small ones
    "sac_pixels": SMALL_ENCODER | {"augmentation": "batch", "shift": 2, "initialisation": "orthogonal"},
    "drqv2": SMALL_ENCODER | {"augmentation": "reuse", "learn_every": 1, "noise_steps": 10},
    "tqc": SMALL | {"critics": 2, "atoms": 5},
    "redq": SMALL | {"critics": 3},
    "xqc": SMALL | {"atoms": 11, "delay": 2},
    "dqn": {"hidden": (32, 32), "learning_rate": 3e-4, "learn_every": 1, "target_every": 2, "epsilon_steps": 10},
}

NORMALISED: dict[str, Any] = {"layer_norm": True, "weight_projection": True}
SIMBA: dict[str, Any] = {"network": "simba", "actor_hidden": (16,), "critic_hidden": (16, 16)}
DECAYED: dict[str, Any] = {"weight_decay": 0.01, "weight_decay_form": "decoupled"}
ENTROPY: dict[str, Any] = {"initial_temperature": 0.01, "target_entropy_factor": -0.5}
VARIANTS: dict[str, dict[str, Any]] = {  # an algorithm and what is switched on
    "sac, normalised": NORMALISED,
    "sac, simba": SIMBA | DECAYED | ENTROPY,
    "sac, delayed": {"delay": 2},
    **{f"{name}, normalised": NORMALISED | DECAYED for name in ("ddpg", "td3", "darc", "tqc", "redq")},
    **{f"{name}, simba": SIMBA | {"weight_projection": True} for name in ("ddpg", "td3", "darc", "tqc", "redq")},
}
FAST_VARIANTS = ("sac, simba", "sac, delayed")  # the others are left to `make test-slow`

FRESH_BATCHES = {"redq": 3}  # one where it is not said

# name → optimiser steps per reuse at an odd and at an even environment step, as the paper's loops say; of each pair
OPTIMISER_STEPS: dict[str, dict[str, tuple[int, int]]] = {
    "ddpg": {"actor": (1, 1), "critics": (1, 1)},
    "td3": {"actor": (0, 1), "critics": (1, 1)},
    "sac": {"actor": (1, 1), "critics": (1, 1), "log_alpha": (1, 1)},
    "sac, delayed": {"actor": (0, 1), "critics": (1, 1), "log_alpha": (0, 1)},
    "darc": {"actors": (1, 1), "critics": (1, 1)},
    "tqc": {"actor": (1, 1), "critics": (1, 1), "log_alpha": (1, 1)},
    "redq": {"actor": (1, 1), "critics": (3, 3), "log_alpha": (1, 1)},
    "xqc": {"actor": (0, 1), "critics": (1, 1), "log_alpha": (0, 1)},
    "sac_pixels": dict.fromkeys(("encoder", "actor", "critics", "log_alpha"), (1, 1)),
    "drqv2": dict.fromkeys(("encoder", "actor", "critics"), (1, 1)),
    "dqn": {"critics": (1, 1)},
}
# name → whether the target networks move at an odd and at an even environment step
TARGETS_MOVE = dict.fromkeys(registry.names(), (True, True)) | dict.fromkeys(("td3", "dqn"), (False, True))

KERNEL = "smrl_mlp"

every_algorithm = pytest.mark.parametrize("name", registry.names())
ONLY_VARIANTS = [name if name in FAST_VARIANTS else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]
every_variant = pytest.mark.parametrize("name", [*registry.names(), *ONLY_VARIANTS])


def base_of(name: str) -> str:
    """Return the algorithm of a variant."""
    return name.split(",")[0]


@functools.cache
def make(name: str) -> Algorithm[Any]:
    entry = registry.find(base_of(name))
    return entry.make(entry.config(**SIZES.get(base_of(name), SMALL) | VARIANTS.get(name, {})), spec_of(name))


def spec_of(name: str) -> Spec:
    return SPECS.get(base_of(name), SPEC)


def fresh_batches(name: str) -> int:
    return FRESH_BATCHES.get(base_of(name), 1)


class Given:
    """A rule whose carry is M: one program serves for all."""

    def init(self) -> Any:
        return jnp.int32(1)

    def times(self, carry: Any, step: Any) -> Any:
        return carry

    def observe(self, carry: Any, report: Any) -> Any:
        return carry


@functools.cache
def learner(name: str) -> Any:
    return jax.jit(loop.learner(make(name), Given(), fresh_batches(name)), donate_argnums=0)


def learn(name: str, times: int, state: Any, data: Transition, step: int, key: Any) -> tuple[Any, Any]:
    """Make all updates of a learning step, with one argument for both clocks."""
    before = loop.AgentState(state, jnp.int32(times), jnp.int32(0), jnp.int32(0))
    after, report = learner(name)(before, data, step, step, key)
    assert int(after.batches) == rounds(name)
    assert int(after.updates) == rounds(name) * times
    return after.algorithm, report


def rounds(name: str) -> int:
    return make(name).rounds * fresh_batches(name)


@functools.cache
def update(name: str) -> Any:
    """The algorithm's own update, compiled."""
    algorithm = make(name)

    def once(state: Any, batch: Transition, step: Any, index: Any, batch_key: Any, key: Any) -> Any:
        return algorithm.update(state, batch, UpdateContext(step, index, rounds(name), batch_key, step - 1), key)

    return jax.jit(once)


@functools.cache
def initial(name: str) -> Any:
    return jax.jit(make(name).init)


def start(name: str, seed: int = 0) -> Any:
    return initial(name)(jax.random.key(seed))


def batches(name: str, seed: int = 0, size: int = BATCH) -> Transition:
    draw, count, action = np.random.default_rng(seed), rounds(name), spec_of(name).action

    def normal(*shape: int) -> Any:
        return draw.standard_normal((count, size, *shape), np.float32)

    discount: Any = np.where(draw.random((count, size)) < 0.2, 0, 0.99).astype(np.float32)
    actions = action.random(draw, count * size).reshape(count, size, *action.array.shape)
    obs = observations(name, draw, count, size)
    return Transition(obs, actions, normal(), discount, observations(name, draw, count, size))


def observations(name: str, draw: np.random.Generator, *leading: int) -> Any:
    obs = spec_of(name).obs
    if obs.dtype == "uint8":  # a shade and some noise: shifted images stay alike, so that they can be told apart
        shades = draw.integers(0, 248, (*leading, 1, 1, obs.shape[-1]), np.uint8)
        return shades + draw.integers(0, 8, (*leading, *obs.shape), np.uint8)
    return draw.standard_normal((*leading, *obs.shape), np.float32)


def manual(name: str, state: Any, data: Transition, step: int, key: Any, times: int) -> tuple[Any, dict[str, Any]]:
    """The paper's loops in plain Python; the reports are averaged."""
    reports = []
    for index in range(rounds(name)):
        update_key, batch_key = jax.random.split(jax.random.fold_in(key, index))
        batch = jax.tree.map(lambda field, index=index: field[index], data)
        for m in range(times):
            state, report = update(name)(state, batch, step, index, batch_key, jax.random.fold_in(update_key, m))
            reports.append(report)
    state = make(name).after_updates(
        state, UpdateContext(jnp.asarray(step), jnp.asarray(rounds(name)), rounds(name), key, jnp.asarray(step - 1))
    )
    means = {name: np.array([report[name] for report in reports]) for name in reports[0]}
    return state, {name: np.mean(v[~np.isnan(v)]) if not np.isnan(v).all() else np.nan for name, v in means.items()}


def assert_close(left: Any, right: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6), left, right)


def differs(left: Any, right: Any) -> bool:
    return any(not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True))


def is_slow(name: str, times: int, size: int) -> bool:
    takes_long_to_compile = ("xqc", "sac_pixels", "drqv2", *VARIANTS)
    return size == SMALL_BATCH or (times == 1 and name not in ("ddpg", "sac")) or name in takes_long_to_compile


@pytest.mark.parametrize(
    ("times", "size", "name"),
    [
        pytest.param(times, size, name, marks=[pytest.mark.slow] if is_slow(name, times, size) else [])
        for name in (*registry.names(), *VARIANTS)
        for times, size in ((1, BATCH), (4, BATCH), (4, SMALL_BATCH))  # once is the base algorithm
    ],
)
def test_reuse_equals_manual_updates(name: str, times: int, size: int) -> None:
    key, data = jax.random.key(7), batches(name, size=size)
    state, expected = start(name), start(name)
    for step in (1, 2, 3):
        state, report = learn(name, times, state, data, step, key)
        expected, expected_report = manual(name, expected, data, step, key, times)
        assert_close(state, expected)
        assert_close(report, expected_report)


@every_variant
def test_targets_start_as_copies(name: str) -> None:
    state = start(name)
    for part in (part for part in state._fields if part.startswith("target_")):
        assert not differs(getattr(state, part), getattr(state, part.removeprefix("target_")).params)
    if "log_alpha" in state._fields:
        alpha = VARIANTS.get(name, {}).get("initial_temperature", 0.01 if name == "xqc" else 1)
        assert state.log_alpha.params == np.float32(np.log(alpha))


@every_algorithm
def test_same_seed_same_result_and_other_seed_another(name: str) -> None:
    data = batches(name)
    first, second, third = (learn(name, 4, start(name, seed), data, 2, jax.random.key(seed))[0] for seed in (0, 0, 1))
    assert not differs(first, second)
    assert differs(first, third)


@every_algorithm
def test_shapes_and_dtypes_are_stable(name: str) -> None:
    state = start(name)
    before = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state)
    state, _ = learn(name, 4, state, batches(name), 1, jax.random.key(0))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) == before
    assert {leaf.dtype.name for leaf in jax.tree.leaves(state)} <= {"float32", "int32"}


@every_algorithm
def test_compiles_once(name: str) -> None:
    state, compilations = start(name), list[str]()
    state, _ = learn(name, 3, state, batches(name), 1, jax.random.key(0))
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compilations.append(event))
    try:
        for step, times in ((2, 3), (3, 1), (4, 2)):
            state, _ = learn(name, times, state, batches(name, seed=step), step, jax.random.key(step))
    finally:
        jax.monitoring.clear_event_listeners()
    assert not [event for event in compilations if "backend_compile" in event]


@every_variant
@pytest.mark.parametrize("step", [1, 2])
def test_counts_of_updates(name: str, step: int) -> None:
    times, before = 4, start(name)
    after, _ = learn(name, times, start(name), batches(name), step, jax.random.key(0))
    for part, steps in OPTIMISER_STEPS.get(name, OPTIMISER_STEPS[base_of(name)]).items():
        counts = optax.tree.get(getattr(after, part).optimiser, "count")
        assert (counts == times * steps[(step + 1) % 2]).all(), part
    targets = [part for part in before._fields if part.startswith("target_")]
    for part in targets:
        assert differs(getattr(before, part), getattr(after, part)) == TARGETS_MOVE[base_of(name)][(step + 1) % 2], part
    assert targets


@pytest.mark.usefixtures("kernels")
@every_variant
def test_updates_call_the_dense_kernels(name: str) -> None:
    state = loop.AgentState(start(name), jnp.int32(1), jnp.int32(0), jnp.int32(0))
    calls = {
        size: str(jax.make_jaxpr(learner(name))(state, batches(name, size=size), 1, 1, jax.random.key(0)))
        for size in (BATCH, SMALL_BATCH)
    }
    assert KERNEL in calls[BATCH]
    assert KERNEL not in calls[SMALL_BATCH]
    assert name not in VARIANTS or "dot_general" not in calls[BATCH], "all products are those of the kernels"


@every_algorithm
def test_policy_sample_and_q_values(name: str) -> None:
    algorithm, state = make(name), start(name)
    obs = observations(name, np.random.default_rng(0), 64)
    assert algorithm.policy_sample is not None
    assert algorithm.q_values is not None
    one, same, other = (algorithm.policy_sample(state, obs, jax.random.key(seed)) for seed in (0, 0, 1))
    action, log_prob = one
    assert action.shape == (64, *spec_of(name).action.array.shape)
    assert log_prob.shape == (64,)
    q = algorithm.q_values(state, obs, action)
    assert (q.ndim, q.shape[1]) == (2, 64)
    assert not differs(one, same)
    is_soft = hasattr(state, "log_alpha")
    assert differs(one, other) == bool(np.any(log_prob)) == (algorithm.temperature is not None) == is_soft
    if not is_soft:
        assert not differs(action, algorithm.exploit(algorithm.policy_params(state), obs))


@every_algorithm
def test_actions_are_bounded_and_exploration_explores(name: str) -> None:
    algorithm, state = make(name), start(name)
    obs = observations(name, np.random.default_rng(0), 64)
    obs = obs if obs.dtype == np.uint8 else 100 * obs
    policy = algorithm.policy_params(state)
    greedy = algorithm.exploit(policy, obs)
    explored = [algorithm.explore(policy, obs, jnp.asarray(1), jax.random.key(seed)) for seed in (0, 0, 1)]
    action = spec_of(name).action
    for actions in (greedy, *explored):
        assert (actions.shape[1:], actions.dtype.name) == (action.array.shape, action.array.dtype)
        if isinstance(action, Discrete):
            assert set(np.unique(actions)) <= set(range(action.count))
        else:
            assert np.abs(actions).max() <= 1
    assert not differs(explored[0], explored[1])
    assert differs(explored[0], explored[2])
    assert differs(explored[0], greedy)


@pytest.mark.parametrize("name", ONLY_VARIANTS)
def test_projection_keeps_the_columns_of_the_critics_at_norm_one(name: str) -> None:
    """Except the last layer's. Those of the target critics, which are averages, may be shorter."""
    before, (after, _) = start(name), learn(name, 4, start(name), batches(name), 2, jax.random.key(0))
    is_projected = VARIANTS[name].get("weight_projection", False)
    for state in (before, after):
        leaves = jax.tree_util.tree_leaves_with_path(state.critics.params)
        kernels = {str(path[-2]): leaf for path, leaf in leaves if "kernel" in str(path[-1])}  # of the last critic
        *hidden, last = (np.linalg.norm(np.asarray(kernels[key], np.float64), axis=-2) for key in sorted(kernels))
        assert all(np.allclose(norms, 1, atol=1e-6) == is_projected for norms in hidden)
    assert not np.allclose(last, 1, atol=1e-6), "it starts with a norm of 1 if it is orthogonal"


@every_variant
def test_save_and_load_round_trip(name: str) -> None:
    state, _ = learn(name, 4, start(name), batches(name), 2, jax.random.key(0))
    template = jax.eval_shape(make(name).init, jax.random.key(0))
    assert not differs(from_arrays(template, to_arrays(state)), state)


def test_the_table_is_complete() -> None:
    assert [name for name in OPTIMISER_STEPS if name not in VARIANTS] == registry.names()


@every_algorithm
def test_metrics_are_the_same_everywhere(name: str) -> None:
    """Losses and Q for all, entropy and temperature for the soft; NaN only where a step has no update of the actor."""
    state = start(name)
    expected = {"critic_loss", "q"} | ({"entropy", "alpha"} if hasattr(state, "log_alpha") else set())
    expected |= {"actor_loss"} if "actor" in "".join(state._fields) else set()
    of_the_actor = {"td3": {"actor_loss"}, "sac, delayed": {"actor_loss", "entropy"}, "xqc": {"actor_loss", "entropy"}}
    for step in (1, 2):
        state, report = learn(name, 4, state, batches(name), step, jax.random.key(0))
        missing = of_the_actor.get(name, set()) if step == 1 else set()
        assert report.keys() == expected
        assert {metric for metric, value in report.items() if np.isnan(value)} == missing


def rewards_only(name: str) -> Transition:
    """Batches that are all the same and have a discount of 0, so that the target of the critics is the reward."""
    data = jax.tree.map(lambda field: np.broadcast_to(field[:1], field.shape), batches(name))
    return data._replace(discount=np.zeros_like(data.discount))


@every_variant
def test_critics_learn_the_rewards_of_a_batch(name: str) -> None:
    """Check q_values against update: learning brings them towards the target."""
    algorithm, state, data = make(name), start(name), rewards_only(name)
    batch = jax.tree.map(lambda field: field[0], data)
    assert algorithm.q_values is not None
    q_values = jax.jit(algorithm.q_values)

    def error(state: Any) -> float:
        return float(np.abs(q_values(state, batch.obs, batch.action).mean(0) - batch.reward).mean())

    before = error(state)
    for step in range(1, 241):
        state, _ = learn(name, 4, state, data, step, jax.random.key(step))
    assert error(state) < before / 2


@pytest.mark.parametrize("name", ["ddpg", "td3", "sac", "redq", "dqn"])
def test_q_values_are_those_of_the_critics_loss(name: str) -> None:
    algorithm, state, key = make(name), start(name), jax.random.key(5)
    batch = jax.tree.map(lambda field: field[0], rewards_only(name))
    assert algorithm.q_values is not None
    q = algorithm.q_values(state, batch.obs, batch.action)
    _, report = update(name)(state, batch, 1, 0, key, key)
    np.testing.assert_allclose(((q - batch.reward) ** 2).mean(1).sum(), report["critic_loss"], rtol=1e-4)
    np.testing.assert_allclose(q.mean(), report["q"], rtol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_policy_reads_a_small_part_of_the_state(name: str) -> None:
    state = start(name)
    assert len(jax.tree.leaves(make(name).policy_params(state))) < len(jax.tree.leaves(state)) / 4


@every_algorithm
def test_unsuitable_environments_are_refused(name: str) -> None:
    entry = registry.find(name)
    other_obs = SPEC.obs if spec_of(name) is IMAGES else ArraySpec((84, 84, 3), "uint8")
    specs = [Spec(spec_of(name).obs, Discrete(2)), Spec(other_obs, Continuous(2))]
    if isinstance(spec_of(name).action, Discrete):
        specs = [SPEC, Spec(ArraySpec((4, 4), "uint8"), Discrete(2))]
    for spec in specs:
        with pytest.raises(SmrlError, match=rf"^{algorithm_words(name)} needs .*, but this environment .*\.$"):
            entry.make(entry.config(), spec)
