"""The JAX updates of DARC, TQC, REDQ and SAC with DroQ's critics against those in NumPy float64, and how they start."""

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import numpy_reference_ensembles as reference
import pytest
import test_numpy_reference as common
from numpy_reference import Batch, Floats, Network, draw, forward, q_value, smallest_q, smooth
from specs import vectors
from test_numpy_reference import (
    FAST,
    HIDDEN,
    LARGE,
    NOISE_SEED,
    RATES,
    SMALL,
    SMOOTHING,
    TEMPERATURE,
    Subject,
    adams,
    assert_small,
    batch_in_numpy,
    cached_set_up,
    compare_one_update,
    compare_reuses,
    compare_stacked,
    context,
    in_numpy,
    members,
    network,
    soft_normals,
    some_but_not_all,
)

from smrl.algorithms.darc import DARC, darc
from smrl.algorithms.darc import State as DARCState
from smrl.algorithms.redq import REDQ, redq
from smrl.algorithms.tqc import quantile_huber, truncate
from smrl.nn.networks import Critic
from smrl.presets import PRESETS
from smrl.types import Algorithm, Transition, UpdateContext

full_precision = common.full_precision  # a fixture holds for the modules that have it

SMALL_BATCH, LARGE_BATCH = 64, 32  # the larger networks have more ReLUs, and a larger batch would always meet a kink
DROPOUT = 0.3
DROQ_CRITIC = Critic(HIDDEN["critic_hidden"], form="normalised", dropout=DROPOUT)
OPTIONS: dict[str, dict[str, Any]] = {  # all unlike the defaults
    "darc": RATES | SMOOTHING | {"nu": 0.35, "regularisation": 0.3},
    "tqc": RATES | TEMPERATURE | {"dropped": 3, "critics": 3, "atoms": 7},
    "redq": RATES | TEMPERATURE | {"critics": 5, "subset": 3},
    "sac": RATES | TEMPERATURE | {"layer_norm": True, "dropout": DROPOUT},
}


def pairs_in_numpy(state: Any) -> reference.Pairs:
    """A state of DARC in float64."""
    return reference.Pairs(
        adams(state.actors), adams(state.critics), members(state.target_actors), members(state.target_critics)
    )


def darc_draws(batch: Transition, now: UpdateContext, key: jax.Array) -> dict[str, Any]:
    return {"noise": common.normals(batch, [jax.random.split(key, 4)[0]]), "pair": int(now.round)}


def tqc_draws(batch: Transition, now: UpdateContext, key: jax.Array) -> dict[str, Any]:
    target_key, _, actor_key = jax.random.split(key, 3)
    noise = soft_normals(batch, target_key, actor_key)
    return {"noise": noise + common.normals(batch, [jax.random.fold_in(actor_key, 0)])}


def redq_draws(critics: int, size: int, batch: Transition, now: UpdateContext, key: jax.Array) -> dict[str, Any]:
    subset_key, target_key, _, actor_key = jax.random.split(key, 4)
    subset = jax.random.choice(subset_key, critics, (size,), replace=False).tolist()
    noise, last = soft_normals(batch, target_key, actor_key), int(now.round) + 1 == now.rounds
    return {"noise": noise, "subset": subset, "last_round": last}


@functools.cache
def dropout_probe() -> Callable[[jax.Array], list[jax.Array]]:
    """What the dropouts of a small critic make of ones, one after the other, given a key."""
    inputs = jnp.zeros((SMALL_BATCH, SMALL.obs.shape[0])), jnp.zeros((SMALL_BATCH, SMALL.action.array.shape[0]))
    shapes = jax.eval_shape(DROQ_CRITIC.init, jax.random.key(0), *inputs)
    params = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes)

    def probe(key: jax.Array) -> list[jax.Array]:
        found: list[jax.Array] = []

        def on_ones(method: Callable[..., jax.Array], args: Any, kwargs: Any, context: Any) -> jax.Array:
            if not isinstance(context.module, nn.Dropout):
                return method(*args, **kwargs)
            found.append(method(jnp.ones_like(args[0]), **kwargs))
            return found[-1]

        with nn.intercept_methods(on_ones):
            DROQ_CRITIC.apply(params, *inputs, rngs={"dropout": key})
        return found

    return jax.jit(probe)


def masks_of(key: jax.Array) -> list[reference.Masks]:
    """Of both critics, each with a key of its own."""
    return [
        [(np.asarray(mask) > 0.0) / (1.0 - DROPOUT) for mask in dropout_probe()(member_key)]
        for member_key in jax.random.split(key)
    ]


def droq_draws(batch: Transition, now: UpdateContext, key: jax.Array) -> dict[str, Any]:
    target_key, critic_key, actor_key = jax.random.split(key, 3)
    halves = [jax.random.split(key)[1] for key in (target_key, actor_key)]
    masks = reference.DropoutMasks(masks_of(halves[0]), masks_of(critic_key), masks_of(halves[1]))
    return {"noise": soft_normals(batch, target_key, actor_key), "masks": masks}


def subject_of(name: str, options: dict[str, Any], rules: dict[str, Any], small: bool = True) -> Subject:
    known = {field.name for field in fields(reference.Settings)}
    return Subject(
        name,
        options=options | HIDDEN if small else {},
        spec=SMALL if small else LARGE,
        size=SMALL_BATCH if small else LARGE_BATCH,
        settings=reference.Settings(**{option: value for option, value in options.items() if option in known}),
        **({"in_numpy": in_numpy} | rules),
    )


DARC_RULES = {
    "draws": darc_draws,
    "update": reference.darc,
    "nearest_branch": reference.nearest_branch_darc,
    "in_numpy": pairs_in_numpy,
}
TQC_RULES = {"draws": tqc_draws, "update": reference.tqc, "nearest_branch": reference.nearest_branch_tqc}
REDQ_RULES = {"update": reference.redq, "nearest_branch": reference.nearest_branch_redq}
SMALL_REDQ_RULES = REDQ_RULES | {"draws": functools.partial(redq_draws, 5, 3)}
DROQ_RULES = {"draws": droq_draws, "update": reference.droq_sac, "nearest_branch": reference.nearest_branch_droq}

# The original REDQ's log(1 − a² + 1e-6) loses its digits in float32 where |a| is nearly 1. Where it is a little less,
# as of the first action here, those digits are still there and 1e-6 is among them.
AUTHORS_REDQ, ORIGINAL_REDQ = (
    {name: value for name, value in row.settings.items() if name in {field.name for field in fields(REDQ)}}
    for preset in ("authors", "original")
    for row in PRESETS[preset].rows
    if row.algorithm == "redq" and row.tasks == "*"
)
NOT_TOO_LARGE = {"means": (3.5,), "log_stds": (-1.5, -20.0, -1.0)}
DARC_DEFAULTS = {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3}  # where NumPy's are those of the others
SUBJECTS = {
    "darc": subject_of("darc", OPTIONS["darc"], DARC_RULES),
    "tqc": subject_of("tqc", OPTIONS["tqc"], TQC_RULES),
    "redq": subject_of("redq", OPTIONS["redq"], SMALL_REDQ_RULES),
    "tqc together": subject_of("tqc", OPTIONS["tqc"] | {"order": "together", "huber": 0.3}, TQC_RULES),
    "tqc actor first": subject_of("tqc", OPTIONS["tqc"] | {"order": "actor-first"}, TQC_RULES),
    "authors' redq": subject_of("redq", OPTIONS["redq"] | AUTHORS_REDQ, SMALL_REDQ_RULES),
    "original redq": subject_of("redq", OPTIONS["redq"] | ORIGINAL_REDQ, SMALL_REDQ_RULES | NOT_TOO_LARGE),
    "droq": subject_of("sac", OPTIONS["sac"], DROQ_RULES),
    "default darc": subject_of("darc", DARC_DEFAULTS, DARC_RULES, small=False),
    "default tqc": subject_of("tqc", {}, TQC_RULES, small=False),
    "default redq": subject_of("redq", {}, REDQ_RULES | {"draws": functools.partial(redq_draws, 10, 2)}, small=False),
}


@pytest.mark.parametrize(
    ("name", "index", "rounds"),
    [
        ("darc", 0, 2),
        ("darc", 1, 2),
        ("tqc", 0, 1),
        ("tqc together", 0, 1),
        ("tqc actor first", 0, 1),
        ("authors' redq", 3, 4),
        ("redq", 3, 4),
        ("redq", 0, 4),
        ("original redq", 3, 4),
        ("original redq", 0, 4),
        ("droq", 0, 1),
        pytest.param("default darc", 1, 2, marks=pytest.mark.slow),
        pytest.param("default tqc", 0, 1, marks=pytest.mark.slow),
        pytest.param("default redq", 19, 20, marks=pytest.mark.slow),
    ],
)
def test_one_update_is_that_of_numpy(name: str, index: int, rounds: int) -> None:
    """In the round of this index."""
    assert_small(compare_one_update(cached_set_up(SUBJECTS[name]), context(7, index, rounds)))


@pytest.mark.parametrize(("name", "alpha"), [("redq", None), ("original redq", 0.2)])
def test_the_original_redq_starts_with_a_temperature_that_is_not_learned(name: str, alpha: float | None) -> None:
    """Other than before, log α has made no step here."""
    setup = cached_set_up(SUBJECTS[name])
    log_alpha = setup.state.log_alpha
    log_alpha = log_alpha._replace(optimiser=jax.tree.map(jnp.zeros_like, log_alpha.optimiser))
    setup = setup._replace(state=setup.state._replace(log_alpha=log_alpha))
    assert_small(compare_one_update(setup, context(7)))
    _, metrics = setup.update(setup.state, setup.batch, context(7), jax.random.key(0))
    assert float(metrics["alpha"]) == pytest.approx(np.exp(log_alpha.params) if alpha is None else alpha)


@pytest.mark.parametrize("name", ["tqc", "redq", "droq"])
def test_stacked_critics_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_small(compare_stacked(SUBJECTS[name], context(8), monkeypatch))


@pytest.mark.parametrize(("name", "fresh_batches"), [("darc", 1), ("redq", 2)])
def test_three_reuses_in_each_of_two_rounds_are_six_updates_of_numpy(name: str, fresh_batches: int) -> None:
    """Of DARC each pair learns in a round of its own; REDQ's actor learns in the second alone."""
    setup = cached_set_up(SUBJECTS[name])
    assert setup.algorithm.rounds * fresh_batches == 2
    assert_small(compare_reuses(setup, 7, times=3, fresh_batches=fresh_batches), limit=5.0)  # errors add up, and grow


# What the comparisons would not notice, were it not so


def numbers_of(name: str) -> tuple[Any, Batch, dict[str, Any], reference.Settings]:
    setup = cached_set_up(SUBJECTS[name])
    draws = setup.subject.draws(setup.batch, context(7), jax.random.key(NOISE_SEED))
    settings = setup.subject.settings
    assert isinstance(settings, reference.Settings)
    return setup.subject.in_numpy(setup.state), batch_in_numpy(setup.batch), draws, settings


@pytest.mark.parametrize("name", ["darc", pytest.param("default darc", marks=pytest.mark.slow)])
def test_darc_mixes_both_actors_and_both_critics(name: str) -> None:
    state, batch, draws, settings = numbers_of(name)
    actions = [
        smooth(np.tanh(forward(actor, batch.next_obs)[0]), draws["noise"][0], settings) for actor in state.target_actors
    ]
    values = [smallest_q(state.target_critics, batch.next_obs, action) for action in actions]
    assert some_but_not_all(values[0] < values[1])
    for action in actions:
        assert some_but_not_all(np.abs(action) == 1.0)
        first, second = (q_value(critic, batch.next_obs, action)[0] for critic in state.target_critics)
        assert some_but_not_all(first < second)


@pytest.mark.parametrize("name", ["tqc", pytest.param("default tqc", marks=pytest.mark.slow)])
def test_tqc_drops_more_atoms_of_one_critic_and_meets_both_parts_of_huber(name: str) -> None:
    state, batch, _, settings = numbers_of(name)
    atoms = [forward(critic, reference.joined(batch.next_obs, batch.action))[0] for critic in state.target_critics]
    kept = reference.truncated_atoms(state.target_critics, batch.next_obs, batch.action, settings.dropped)
    of_first = (atoms[0] <= kept[:, -1:]).sum(axis=1)
    assert some_but_not_all(of_first == atoms[0].shape[1] - settings.dropped)
    online = forward(state.critics[0].values, reference.joined(batch.obs, batch.action))[0]
    assert some_but_not_all(np.abs(batch.reward[:, None] + batch.discount[:, None] * kept[:, :1] - online) > 1.0)


@pytest.mark.parametrize("name", ["redq", "original redq", pytest.param("default redq", marks=pytest.mark.slow)])
def test_redq_s_subset_is_not_the_first_few_and_its_minimum_is_of_several(name: str) -> None:
    state, batch, draws, _ = numbers_of(name)
    subset = draws["subset"]
    assert not set(subset) <= set(range(len(subset)))
    q = [q_value(state.target_critics[index], batch.next_obs, batch.action)[0] for index in subset]
    assert len(set(np.argmin(q, axis=0))) > 1
    assert some_but_not_all(np.min(q, axis=0) == smallest_q(state.target_critics, batch.next_obs, batch.action))


def test_the_original_redq_stays_where_float32_can_tell_its_log_probability() -> None:
    state, batch, draws, _ = numbers_of("original redq")
    for obs, noise in zip((batch.next_obs, batch.obs), draws["noise"], strict=True):
        slope = 1.0 - draw(forward(state.actor.values, obs)[0], noise).action ** 2
        assert slope.min() > 3e-4
        assert np.median(slope[:, 0]) < 1e-2


def test_masks_drop_their_share_and_are_all_different() -> None:
    key = jax.random.key(NOISE_SEED)
    masks = droq_draws(cached_set_up(SUBJECTS["droq"]).batch, context(7), key)["masks"]
    everywhere = [*masks.target, *masks.online, *masks.actor]
    for layer, units in enumerate(HIDDEN["critic_hidden"]):
        patterns = [member[layer] > 0.0 for member in everywhere]
        assert {pattern.shape for pattern in patterns} == {(SMALL_BATCH, units)}
        assert len({pattern.tobytes() for pattern in patterns}) == len(patterns) == 6
        assert 1.0 - np.mean(patterns) == pytest.approx(DROPOUT, abs=0.02)
    for member_key in jax.random.split(key):
        for values in dropout_probe()(member_key):
            assert np.unique(values) == pytest.approx([0.0, 1.0 / (1.0 - DROPOUT)])


def test_without_a_key_nothing_is_dropped_and_layer_norm_has_pytorch_s_epsilon() -> None:
    """Hidden layers are made so small that ε counts, as it does in none of the updates."""
    setup = cached_set_up(SUBJECTS["droq"])
    leaves, structure = jax.tree.flatten(setup.state.critics.params[0])
    params = jax.tree.unflatten(structure, [3e-3 * leaf for leaf in leaves[:4]] + leaves[4:])
    batch, units = batch_in_numpy(setup.batch), HIDDEN["critic_hidden"]
    whole = [np.ones((SMALL_BATCH, size)) for size in units]
    expected, tape = reference.droq_forward(network(params), reference.joined(batch.obs, batch.action), whole)
    assert all(np.median(deviations**2) < 2e-5 for deviations in tape.deviations)
    actual = DROQ_CRITIC.apply(params, setup.batch.obs, setup.batch.action)
    np.testing.assert_allclose(actual, expected[:, 0], rtol=1e-5, atol=1e-6)


# TQC by hand


def test_truncation_drops_the_largest_of_all_atoms_together() -> None:
    """Two critics of three atoms: of the first transition both that go are the first critic's."""
    atoms = [[[5.0, 1.0, 4.0], [0.0, 7.0, -1.0]], [[2.0, 3.0, -6.0], [8.0, 0.5, 0.25]]]
    kept = truncate(jnp.asarray(atoms), dropped=1)
    assert kept.tolist() == [[-6.0, 1.0, 2.0, 3.0], [-1.0, 0.0, 0.25, 0.5]]
    whole = truncate(jnp.asarray(atoms), dropped=0)
    assert whole.tolist() == [[-6.0, 1.0, 2.0, 3.0, 4.0, 5.0], [-1.0, 0.0, 0.25, 0.5, 7.0, 8.0]]


ATOMS = np.array([[[0.0, 0.4, -2.0], [1.0, 3.0, 0.5]], [[-0.3, 2.5, 0.1], [-4.0, 0.0, 0.9]]])  # (critics, batch, atoms)
TARGETS = np.array([[0.4, -1.5, 1.0, 0.2], [0.5, 2.0, -3.0, 0.7]])  # differences of exactly 0 and ±1 are among them


def test_quantile_huber_is_four_loops() -> None:
    total, number = 0.0, 0
    for critic in range(2):
        for row in range(2):
            for j in range(3):
                for target in TARGETS[row]:
                    delta = target - ATOMS[critic, row, j]
                    huber = 0.5 * delta**2 if abs(delta) <= 1.0 else abs(delta) - 0.5
                    total += abs((2 * j + 1) / 6 - (1.0 if delta < 0.0 else 0.0)) * huber
                    number += 1
    value = quantile_huber(jnp.asarray(ATOMS, jnp.float32), jnp.asarray(TARGETS, jnp.float32))
    assert float(value) == pytest.approx(total / number, rel=1e-6)


def test_the_gradient_of_quantile_huber_is_that_of_numpy() -> None:
    """Of NumPy's critics, which are all bias here, so that the gradient by the atoms is that by the bias."""

    def tripled(atoms: jax.Array, y: jax.Array) -> jax.Array:
        return 3.0 * quantile_huber(atoms, y)

    arrays = jnp.asarray(ATOMS, jnp.float32), jnp.asarray(TARGETS, jnp.float32)
    by_atoms, by_targets = jax.grad(tripled, argnums=(0, 1))(*arrays)
    one = np.zeros((1, 1))
    row_of = Batch(one, one, one[0], one[0], one)
    expected = np.zeros_like(ATOMS)
    for critic, row in np.ndindex(2, 2):
        all_bias = [ATOMS[critic, row], np.zeros((2, 3))]
        _, gradient, _ = reference.quantile_huber_loss(all_bias, row_of, TARGETS[row : row + 1])
        expected[critic, row] = 3.0 * gradient[0] / 4.0  # the mean over two critics and two rows
    np.testing.assert_allclose(by_atoms, expected, rtol=1e-5)
    assert not np.any(by_targets), "targets are constants"


# How REDQ starts


def redq_start(options: dict[str, Any]) -> tuple[Network, Network]:
    """A critic and the actor; the sizes are such that every layer's fan in is unlike its fan out."""
    config = REDQ(**options, critics=1, subset=1, actor_hidden=(64, 48), critic_hidden=(56, 72))
    state = jax.jit(redq(config, vectors(40, 6)).init, compiler_options=FAST)(jax.random.key(0))
    assert float(state.log_alpha.params) == 0.0
    assert jax.tree.all(jax.tree.map(np.array_equal, state.critics.params, state.target_critics))
    return network(state.critics.params), network(state.actor.params)


def assert_uniform(values: Floats, bound: float) -> None:
    """Within the bound, and where there are enough, up to it."""
    largest = float(np.abs(values).max())
    assert 0.0 < largest <= bound * (1.0 + 1e-6)
    if values.size > 50:
        assert largest > 0.9 * bound
    if values.size > 200:
        assert largest > 0.98 * bound  # Xavier's with one head in place of two is 0.95 of it here
        assert np.std(values) == pytest.approx(bound / np.sqrt(3.0), rel=0.1)


def test_the_authors_redq_starts_as_theirs() -> None:
    """Critics: hidden weights in ±1/√fan_in, hidden biases of 0.1, a last layer in ±3e-3; actor: PyTorch's default."""
    critic, actor = redq_start(AUTHORS_REDQ)
    *hidden, last_bias, last_kernel = critic
    for bias, kernel in zip(hidden[0::2], hidden[1::2], strict=True):
        assert np.all(bias == np.float32(0.1))
        assert_uniform(kernel, len(kernel) ** -0.5)
    assert_uniform(last_bias, 3e-3)
    assert_uniform(last_kernel, 3e-3)
    for bias, kernel in zip(actor[0::2], actor[1::2], strict=True):
        assert_uniform(bias, len(kernel) ** -0.5)
        assert_uniform(kernel, len(kernel) ** -0.5)


def test_the_original_redq_starts_as_its_own() -> None:
    """Xavier's bounds ±√(6 / (fan_in + fan_out)), no biases; mean and log std of the actor are layers apart."""
    critic, actor = redq_start(ORIGINAL_REDQ)
    *actor_hidden, heads = actor[1::2]
    for kernel in (*critic[1::2], *actor_hidden, *np.split(heads, 2, axis=1)):
        assert_uniform(kernel, np.sqrt(6.0 / sum(kernel.shape)))
    assert not any(np.any(bias) for bias in (*critic[0::2], *actor[0::2]))


# How DARC acts

Acting = Literal["own-critic", "best-of-four"]


def hand_made(q: list[list[float]]) -> DARCState:
    """Actors that do 0.5 and −0.5 whatever they see, and critics that think so of them, (critics, actors)."""
    shapes = jax.eval_shape(tiny_darc("own-critic").init, jax.random.key(0))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes)
    critics, structure = jax.tree.flatten(zeros.critics.params)  # hidden bias and kernel, last bias and kernel
    critics[1] = critics[1].at[:, 1].set(jnp.array([2.0, -2.0]))  # relu(2a) and relu(−2a)
    critics[3] = jnp.asarray(q)[:, :, None]
    actors = common.shift_last_bias(zeros.actors.params, np.arctanh([[0.5], [-0.5]]))
    return DARCState(
        zeros.actors._replace(params=actors),
        zeros.critics._replace(params=jax.tree.unflatten(structure, critics)),
        zeros.target_actors,
        zeros.target_critics,
    )


def tiny_darc(acting: Acting) -> Algorithm[DARCState]:
    return darc(DARC(actor_hidden=(1,), critic_hidden=(2,), acting=acting), vectors(1, 1))


@pytest.mark.parametrize(
    ("q", "own", "best"),
    [
        ([[1.0, 0.0], [3.0, 2.0]], -0.5, 0.5),
        ([[2.0, 4.0], [3.0, 1.0]], 0.5, -0.5),
        ([[1.0, 9.0], [9.0, 1.0]], 0.5, 0.5),  # ties are the first actor's
        ([[1.0, 0.0], [2.0, 1.5]], -0.5, 0.5),
    ],
)
def test_darc_acts_by_own_critic_or_by_the_best_of_four(q: list[list[float]], own: float, best: float) -> None:
    obs = np.ones((3, 1), np.float32)
    for acting, action in (("own-critic", own), ("best-of-four", best)):
        algorithm = tiny_darc(cast(Acting, acting))
        chosen = algorithm.exploit(algorithm.policy_params(hand_made(q)), obs)
        np.testing.assert_allclose(chosen, np.full((3, 1), action), rtol=1e-5)


@pytest.mark.parametrize("acting", ["own-critic", "best-of-four"])
def test_darc_chooses_for_every_observation_on_its_own(acting: Acting) -> None:
    setup = cached_set_up(SUBJECTS["darc"])
    state, obs = pairs_in_numpy(setup.state), batch_in_numpy(setup.batch).obs
    actions = [np.tanh(forward(actor.values, obs)[0]) for actor in state.actors]
    q = np.stack([[q_value(critic.values, obs, action)[0] for critic in state.critics] for action in actions])
    worth = np.stack([q[0, 0], q[1, 1]]) if acting == "own-critic" else q.max(axis=1)
    second = worth[1] > worth[0]
    assert some_but_not_all(second)
    algorithm = darc(DARC(**SUBJECTS["darc"].options, acting=acting), SMALL)
    chosen = algorithm.exploit(algorithm.policy_params(setup.state), setup.batch.obs)
    np.testing.assert_allclose(chosen, np.where(second[:, None], actions[1], actions[0]), atol=1e-6)
