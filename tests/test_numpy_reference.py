"""The JAX updates of DDPG, TD3 and SAC against one in NumPy float64 that shares no code with them."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy_reference as reference
import optax
import pytest
from numpy_reference import Floats, Network

from smrl import gradients
from smrl.algorithms import find
from smrl.reuse import learner
from smrl.types import Algorithm, Spec, Tick, Transition

SAME = 2e-5  # ‖difference‖/‖array‖ of all that an update leaves behind; most are the same to 1e-6
REPORTED = 1e-4  # of a metric, for a mean may cancel
CHANGED = 5e-5  # of a change of parameters: Adam's 1 − 0.999ⁿ alone is wrong by 1e-5 in float32; and on top
ROUNDING = 2.0**-23  # a change of θ is only known to a rounding or two of θ, ‖θ‖ · 2⁻²⁴ each
KINK = 5e-7  # inputs of ReLU in float32 are wrong by about 1e-7
WARM_UP = 6
NOISE_SEED = 5

HIDDEN = {"actor_hidden": (32, 24), "critic_hidden": (24, 32)}
RATES = {"actor_learning_rate": 1e-3, "critic_learning_rate": 2e-3, "tau": 0.02}  # all unlike the defaults
UNUSUAL: dict[str, dict[str, float]] = {
    "ddpg": RATES,
    "td3": RATES | {"target_noise": 0.3, "noise_clip": 0.4},
    "sac": RATES | {"temperature_learning_rate": 5e-3, "target_entropy": -1.5},
}
UPDATES = {"ddpg": reference.ddpg, "td3": reference.td3, "sac": reference.sac}


@pytest.fixture(autouse=True)
def full_precision() -> Iterator[None]:
    """Some devices multiply float32 in fewer bits unless told otherwise."""
    with jax.default_matmul_precision("highest"):
        yield


class Setup(NamedTuple):
    """An algorithm in the midst of learning, with a batch that it has not seen."""

    algorithm: Algorithm[Any]
    update: Callable[..., Any]  # compiled
    state: Any
    batch: Transition
    settings: reference.Settings


def random_batch(seed: int, size: int, spec: Spec) -> Transition:
    """Terminated transitions, one-step and three-step discounts."""
    rng = np.random.default_rng(seed)
    fields = (
        rng.normal(size=(size, spec.obs_size)),
        rng.uniform(-1.0, 1.0, size=(size, spec.action_size)),
        rng.normal(1.0, 2.0, size=size),
        rng.choice([0.0, 0.99, 0.99**3], size=size, p=[0.2, 0.5, 0.3]),
        rng.normal(size=(size, spec.obs_size)),
    )
    return Transition(*(jnp.asarray(values, jnp.float32) for values in fields))


def random_params(shapes: Any, rng: np.random.Generator) -> Any:
    """Uniform in ±1/√fan_in; JAX itself would take seconds to compile as much."""
    leaves, structure = jax.tree.flatten(shapes)  # bias before kernel, by the alphabet
    pairs = zip(leaves[0::2], leaves[1::2], strict=True)
    drawn = [rng.uniform(-1, 1, leaf.shape) * pair[1].shape[-2] ** -0.5 for pair in pairs for leaf in pair]
    return jax.tree.unflatten(structure, [jnp.asarray(values, jnp.float32) for values in drawn])


def shift_last_bias(params: Any, shift: list[float]) -> Any:
    leaves, structure = jax.tree.flatten(params)
    leaves[-2] = leaves[-2] + jnp.asarray(shift, jnp.float32)
    return jax.tree.unflatten(structure, leaves)


def to_the_clamp(state: Any, obs: jax.Array) -> Any:
    """Of SAC's actor, half of the first log std above 2 and half of the second below −20."""
    if hasattr(state, "target_actor"):
        return state
    output, _ = reference.forward(network(state.actor.params), np.asarray(obs, np.float64))
    middle, first = np.median(output, axis=0), output.shape[1] // 2
    shift = np.zeros_like(middle)
    shift[first : first + 2] = [2.0, -20.0] - middle[first : first + 2]
    return state._replace(actor=state.actor._replace(params=shift_last_bias(state.actor.params, list(shift))))


def start(algorithm: Algorithm[Any], spec: Spec) -> Any:
    """Before the first step; targets far from the online networks, target actions near ±1, α far from 1."""
    shapes, rng = jax.eval_shape(algorithm.init, jax.random.key(0)), np.random.default_rng(0)
    state = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    for name in state._fields:
        value = getattr(state, name)
        if name == "log_alpha":
            state = state._replace(log_alpha=value._replace(params=jnp.float32(-0.7)))
        elif name.startswith("target"):
            state = state._replace(**{name: random_params(value, rng)})
        else:
            state = state._replace(**{name: value._replace(params=random_params(value.params, rng))})
    if hasattr(state, "target_actor"):
        shift = [1.5, -1.5, *[0.0] * (spec.action_size - 2)]
        state = state._replace(target_actor=shift_last_bias(state.target_actor, shift))
    return state


def tick(step: int) -> Tick:
    return Tick(jnp.int32(step), jnp.int32(0), 1, jax.random.key(3))


def set_up(name: str, small: bool) -> Setup:
    """Some updates in JAX first, so that moments, targets and temperature are those of learning."""
    spec, size = (Spec(5, 3), 64) if small else (Spec(17, 6), 256)
    unusual = UNUSUAL[name] if small else {}
    entry = find(name)
    config = entry.config(**unusual, **HIDDEN) if small else entry.config()
    algorithm = entry.make(config, spec)
    update, state = jax.jit(algorithm.update), start(algorithm, spec)
    for step in range(1, WARM_UP + 1):
        batch = random_batch(step, size, spec)
        state, _ = update(to_the_clamp(state, batch.obs), batch, tick(step), jax.random.key(10 + step))
    state = to_the_clamp(state, batch.obs)
    settings = reference.Settings(**unusual)  # type: ignore[arg-type]  # floats, all of them
    batches = (random_batch(seed, size, spec) for seed in range(100, 200))
    batch = next(batch for batch in batches if not near_a_kink(name, in_numpy(state), batch, settings))
    return Setup(algorithm, update, state, batch, settings)


cached_set_up = functools.cache(set_up)


def near_a_kink(name: str, before: reference.State, batch: Transition, settings: reference.Settings) -> bool:
    """Whether float32 may take another branch of a ReLU somewhere, which is no error, but a jump of a gradient."""
    noise, numbers = noise_of(name, batch, jax.random.key(NOISE_SEED)), batch_in_numpy(batch)
    after, _ = UPDATES[name](before, numbers, noise, 2, settings)
    output, _ = reference.forward(before.actor.values, numbers.obs)
    action = reference.draw(output, noise[1]).action if name == "sac" else np.tanh(output)
    passes = [(before.actor.values, numbers.obs)]
    for old, new in zip(before.critics, after.critics, strict=True):
        passes.append((old.values, np.concatenate([numbers.obs, numbers.action], axis=1)))
        passes.append((new.values, np.concatenate([numbers.obs, action], axis=1)))
    return any(reference.nearest_kink(values, x) < KINK for values, x in passes)


def network(params: Any) -> Network:
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(params)]


def members(params: Any) -> list[Network]:
    """The networks of an ensemble, in either layout, or a single one."""
    if isinstance(params, tuple):
        return [network(member) for member in params]
    leaves = network(params)
    return [leaves] if leaves[0].ndim <= 1 else [list(member) for member in zip(*leaves, strict=True)]


def adams(trained: gradients.Trained) -> list[reference.Adam]:
    mu, nu, count = (optax.tree_utils.tree_get(trained.optimiser, name) for name in ("mu", "nu", "count"))
    triples = zip(members(trained.params), members(mu), members(nu), strict=True)
    return [reference.Adam(*triple, int(count)) for triple in triples]


def in_numpy(state: Any) -> reference.State:
    """A state of any of the three algorithms in float64."""
    return reference.State(
        actor=adams(state.actor)[0],
        critics=adams(state.critics),
        target_critics=members(state.target_critics),
        target_actor=network(state.target_actor) if hasattr(state, "target_actor") else [],
        log_alpha=adams(state.log_alpha)[0] if hasattr(state, "log_alpha") else reference.Adam(),
    )


def batch_in_numpy(batch: Transition) -> reference.Batch:
    return reference.Batch(*(np.asarray(values, np.float64) for values in batch))


def noise_of(name: str, batch: Transition, key: jax.Array) -> list[Floats]:
    """The standard normal draws of an update with this key."""
    keys = {"ddpg": [], "td3": [key], "sac": list(jax.random.split(key))}[name]
    return [np.asarray(jax.random.normal(key, batch.action.shape), np.float64) for key in keys]


def named(state: reference.State) -> dict[str, Floats]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(asdict(state))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def is_parameter(name: str) -> bool:
    return "values" in name or "target" in name


def excess(actual: Floats, expected: Floats, allowed: float) -> float:
    """‖actual − expected‖ in units of what is allowed; where nothing is allowed, any difference is too much."""
    distance = float(np.linalg.norm(actual - expected))
    return distance / allowed if allowed > 0.0 else np.inf if distance > 0.0 else 0.0


def state_errors(actual: reference.State, expected: reference.State) -> dict[str, float]:
    """Of every array, its distance from the expected one in units of the allowed."""
    found, wanted = named(actual), named(expected)
    assert found.keys() == wanted.keys()
    return {n: excess(found[n], wanted[n], SAME * float(np.linalg.norm(wanted[n]))) for n in wanted}


def change_errors(before: reference.State, actual: reference.State, expected: reference.State) -> dict[str, float]:
    """The same of the change of every parameter and target; what must not move must not move at all."""
    errors = {}
    found, wanted = named(actual), named(expected)
    for name, old in named(before).items():
        change = float(np.linalg.norm(wanted[name] - old))
        allowed = CHANGED * change + ROUNDING * float(np.linalg.norm(old)) if change > 0.0 else 0.0
        if is_parameter(name):
            errors[f"change of {name}"] = excess(found[name] - old, wanted[name] - old, allowed)
    return errors


def metric_errors(actual: Any, expected: reference.Metrics) -> dict[str, float]:
    assert actual.keys() == expected.keys()
    return {
        f"metric {name}": abs(float(actual[name]) - value) / (REPORTED * abs(value)) for name, value in expected.items()
    }


def assert_small(errors: dict[str, float], limit: float = 1.0) -> None:
    wrong = {name: f"{error:.3g} times the tolerance" for name, error in errors.items() if not error <= limit}
    assert not wrong


def compare_one_update(name: str, setup: Setup, step: int) -> dict[str, float]:
    key = jax.random.key(NOISE_SEED)
    before = in_numpy(setup.state)
    state, metrics = setup.update(setup.state, setup.batch, tick(step), key)
    noise = noise_of(name, setup.batch, key)
    expected = UPDATES[name](before, batch_in_numpy(setup.batch), noise, step, setup.settings)
    actual = in_numpy(state)
    errors = state_errors(actual, expected[0]) | metric_errors(metrics, expected[1])
    return errors | change_errors(before, actual, expected[0])


@pytest.mark.parametrize("small", [True, False], ids=["small", "default"])
@pytest.mark.parametrize(("name", "step"), [("ddpg", 7), ("td3", 7), ("td3", 8), ("sac", 7)])
def test_one_update_is_that_of_numpy(name: str, step: int, small: bool) -> None:
    assert_small(compare_one_update(name, cached_set_up(name, small), step))


@pytest.mark.parametrize("name", ["td3", "sac"])
def test_stacked_critics_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout for a GPU, on whatever runs this."""
    monkeypatch.setattr("smrl.networks.jax.default_backend", lambda: "gpu")
    setup = set_up(name, small=True)
    assert not isinstance(setup.state.critics.params, tuple)
    assert_small(compare_one_update(name, setup, step=8))


@functools.cache
def three_reuses(name: str) -> Callable[..., Any]:
    return learner(cached_set_up(name, True).algorithm, 3)


def reuse_in_numpy(
    name: str, setup: Setup, step: int, key: jax.Array, times: int
) -> tuple[reference.State, reference.Metrics]:
    """The complete update again and again on one batch, each with noise of its own; the reports' mean."""
    state, reports = in_numpy(setup.state), []
    update_key, _ = jax.random.split(jax.random.fold_in(key, 0))  # the one round that these algorithms have
    for m in range(times):
        noise = noise_of(name, setup.batch, jax.random.fold_in(update_key, m))
        state, report = UPDATES[name](state, batch_in_numpy(setup.batch), noise, step, setup.settings)
        reports.append(report)
    return state, {metric: float(np.mean([r[metric] for r in reports])) for metric in reports[0]}


@pytest.mark.parametrize(("name", "step"), [("td3", 7), ("td3", 8), ("sac", 7)])
def test_three_reuses_are_three_updates_of_numpy(name: str, step: int) -> None:
    setup, key = cached_set_up(name, True), jax.random.key(6)
    before, expected = in_numpy(setup.state), reuse_in_numpy(name, setup, step, key, times=3)
    donated = jax.tree.map(jnp.copy, setup.state)  # others still need the state
    batches = jax.tree.map(lambda leaf: leaf[None], setup.batch)
    state, metrics = three_reuses(name)(donated, batches, step, key)
    actual = in_numpy(state)
    errors = state_errors(actual, expected[0]) | metric_errors(metrics, expected[1])
    assert_small(errors | change_errors(before, actual, expected[0]), limit=5.0)  # errors add up, and grow


def some_but_not_all(where: Any) -> bool:
    return bool(np.any(where) and not np.all(where))


@pytest.mark.parametrize("small", [True, False], ids=["small", "default"])
def test_log_std_meets_both_ends_of_its_clamp(small: bool) -> None:
    setup = cached_set_up("sac", small)
    actor, batch = in_numpy(setup.state).actor.values, batch_in_numpy(setup.batch)
    for obs in (batch.obs, batch.next_obs):
        raw = np.split(reference.forward(actor, obs)[0], 2, axis=1)[1]
        assert some_but_not_all(raw[:, 0] > 2.0)
        assert some_but_not_all(raw[:, 1] < -20.0)


@pytest.mark.parametrize("small", [True, False], ids=["small", "default"])
def test_smoothing_clips_noise_and_action(small: bool) -> None:
    setup = cached_set_up("td3", small)
    batch, settings = batch_in_numpy(setup.batch), setup.settings
    noise = settings.target_noise * noise_of("td3", setup.batch, jax.random.key(NOISE_SEED))[0]
    action = np.tanh(reference.forward(in_numpy(setup.state).target_actor, batch.next_obs)[0])
    clipped = action + np.clip(noise, -settings.noise_clip, settings.noise_clip)
    assert some_but_not_all(np.abs(noise) > settings.noise_clip)
    assert some_but_not_all(clipped > 1.0)
    assert some_but_not_all(clipped < -1.0)


@pytest.mark.parametrize("small", [True, False], ids=["small", "default"])
@pytest.mark.parametrize("name", ["td3", "sac"])
def test_each_twin_is_the_smaller_somewhere(name: str, small: bool) -> None:
    setup = cached_set_up(name, small)
    state, batch = in_numpy(setup.state), batch_in_numpy(setup.batch)
    for critics, obs in (
        (state.target_critics, batch.next_obs),
        ([critic.values for critic in state.critics], batch.obs),
    ):
        first, second = (reference.q_value(critic, obs, batch.action)[0] for critic in critics)
        assert some_but_not_all(first < second)


def losses() -> dict[str, tuple[Callable[[Network], Any], Network]]:
    """Every loss of the reference as a function of what it trains, where that is."""
    state = in_numpy(cached_set_up("sac", True).state)
    deterministic = in_numpy(cached_set_up("td3", True).state)
    batch = batch_in_numpy(cached_set_up("sac", True).batch)
    noise = np.random.default_rng(0).normal(size=batch.action.shape)
    critics = [critic.values for critic in state.critics]
    alpha, log_prob = 0.6, batch.reward  # any numbers do for log π
    return {
        "critic": (lambda values: reference.critic_loss(values, batch, batch.reward), critics[0]),
        "deterministic actor": (
            lambda values: reference.deterministic_actor_loss(values, critics[0], batch.obs),
            deterministic.actor.values,
        ),
        "soft actor": (
            lambda values: reference.soft_actor_loss(values, critics, batch.obs, noise, alpha),
            state.actor.values,
        ),
        "temperature": (
            lambda values: reference.temperature_loss(values[0], log_prob, -1.5),
            state.log_alpha.values,
        ),
    }


def central_difference(loss: Callable[[Network], Any], values: Network, array: int, index: Any) -> float:
    """(L(θ + h) − L(θ − h)) / 2h along one coordinate; h³ and rounding are both about 1e-16 then."""
    width, ends = 5e-6, []
    for sign in (1.0, -1.0):
        moved = [value.copy() for value in values]
        moved[array][index] += sign * width
        ends.append(loss(moved)[0])
    return float((ends[0] - ends[1]) / (2.0 * width))


@pytest.mark.parametrize("name", ["critic", "deterministic actor", "soft actor", "temperature"])
def test_gradients_by_hand_are_finite_differences(name: str) -> None:
    """Of the last bias all coordinates, so that those of clamped log std are among them."""
    loss, values = losses()[name]
    gradient, rng = loss(values)[1], np.random.default_rng(1)
    for array, slope in enumerate(gradient):
        for flat in rng.permutation(slope.size)[:8]:
            index = np.unravel_index(flat, slope.shape)
            difference = central_difference(loss, values, array, index)
            assert difference == pytest.approx(slope[index], rel=1e-6, abs=1e-7 * np.abs(slope).max())


def test_log_probability_is_the_change_of_variables() -> None:
    """log π(a) = Σ log N(u) − log(1 − a²), where that does not cancel; and it is a density over the actions."""
    u = np.linspace(-9.0, 9.0, 20001)
    mean, log_std = 0.3, -0.4
    noise = (u - mean) / np.exp(log_std)
    output = np.tile([mean, log_std], (len(u), 1))
    sample = reference.draw(output, noise[:, None])
    density = np.exp(-0.5 * noise**2) / np.sqrt(2.0 * np.pi) / np.exp(log_std)
    near = np.abs(u) < 4.0
    assert sample.log_prob[near] == pytest.approx(np.log(density / (1.0 - np.tanh(u) ** 2))[near], rel=1e-8)
    assert np.trapezoid(np.exp(sample.log_prob), sample.action[:, 0]) == pytest.approx(1.0, abs=1e-5)


def weighted_sum(weights: jax.Array, params: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    return (weights * params).sum(), {}


def test_adam_on_gradients_of_all_sizes() -> None:
    """Losses seldom have gradients so small that ε matters; this one has."""
    slopes = np.logspace(-10, 2, 13)
    optimiser = gradients.adam(1e-2)
    trained = gradients.start(jnp.zeros(13), optimiser)
    expected = reference.Adam([np.zeros(13)], [np.zeros(13)], [np.zeros(13)])
    for sign in (1.0, 1.0, -0.5):
        weights = jnp.asarray(sign * slopes, jnp.float32)
        trained, _ = gradients.descend(trained, functools.partial(weighted_sum, weights), optimiser)
        expected = reference.step_adam(expected, [sign * slopes], 1e-2)
    actual = adams(trained)[0]
    assert actual.count == expected.count == 3
    np.testing.assert_allclose(actual.values, expected.values, rtol=1e-4)
    np.testing.assert_allclose(actual.mu, expected.mu, rtol=1e-6)
    np.testing.assert_allclose(actual.nu, expected.nu, rtol=1e-6)
