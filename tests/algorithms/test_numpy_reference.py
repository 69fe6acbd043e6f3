"""The JAX updates of DDPG, TD3 and SAC against one in NumPy float64 that shares no code with them."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy_reference as reference
import optax
import pytest
from numpy_reference import Floats, Network
from specs import vectors

from smrl.algorithms.registry import find
from smrl.nn import optimiser as gradients
from smrl.smr.loop import AgentState, learner
from smrl.smr.rules import rule_of
from smrl.types import Algorithm, Spec, Transition, UpdateContext

SAME = 2e-5  # ‖difference‖/‖array‖ of all that an update leaves behind; most are the same to 1e-6
REPORTED = 1e-4  # of a metric, for a mean may cancel
CHANGED = 5e-5  # of a change of parameters: Adam's 1 − 0.999ⁿ alone is wrong by 1e-5 in float32; and on top
ROUNDING = 2.0**-23  # a change of θ is only known to a rounding or two of θ, ‖θ‖ · 2⁻²⁴ each
KINK = 5e-7  # inputs of ReLU in float32 are wrong by about 1e-7
WARM_UP = 6
NOISE_SEED = 5
FAST = {"xla_backend_optimization_level": 0}  # to compile, in half the time; other code, but the same numbers

SMALL, LARGE = vectors(5, 3), vectors(17, 6)
HIDDEN = {"actor_hidden": (32, 24), "critic_hidden": (24, 32)}
RATES = {"actor_learning_rate": 1e-3, "critic_learning_rate": 2e-3, "tau": 0.02}  # all unlike the defaults
SMOOTHING = {"target_noise": 0.3, "noise_clip": 0.4}
TEMPERATURE = {"temperature_learning_rate": 5e-3, "target_entropy": -1.5}
UNUSUAL: dict[str, dict[str, float]] = {
    "ddpg": RATES,
    "td3": RATES | SMOOTHING,
    "sac": RATES | TEMPERATURE | {"delay": 2},
}
USUAL: dict[str, dict[str, float]] = {"td3": {"delay": 2}}
UPDATES = {"ddpg": reference.ddpg, "td3": reference.td3, "sac": reference.sac}


@pytest.fixture(autouse=True)
def full_precision() -> Iterator[None]:
    """Some devices multiply float32 in fewer bits unless told otherwise."""
    with jax.default_matmul_precision("highest"):
        yield


@dataclass(frozen=True, eq=False)
class Subject:
    """An algorithm with its hyperparameters, and how to do the same in NumPy."""

    name: str
    options: dict[str, Any]
    spec: Spec
    size: int  # of a batch
    settings: reference.Settings
    draws: Callable[[Transition, UpdateContext, jax.Array], dict[str, Any]]  # what is random in an update with this key
    update: Callable[..., tuple[Any, reference.Metrics]]
    nearest_branch: Callable[..., float]  # takes what the update takes: how near one of its gradients is to a jump
    in_numpy: Callable[[Any], Any]
    means: tuple[float, ...] = ()  # of a soft actor, the median over a batch, of the first few
    log_stds: tuple[float, ...] = (2.0, -20.0)  # the same, by default on the clamps


class Setup(NamedTuple):
    """An algorithm in the midst of learning, with a batch that it has not seen."""

    subject: Subject
    algorithm: Algorithm[Any]
    update: Callable[..., Any]  # compiled
    state: Any
    batch: Transition


def random_batch(seed: int, size: int, spec: Spec) -> Transition:
    """Terminated transitions, one-step and three-step discounts."""
    rng = np.random.default_rng(seed)
    fields = (
        rng.normal(size=(size, spec.obs.shape[0])),
        rng.uniform(-1.0, 1.0, size=(size, spec.action.array.shape[0])),
        rng.normal(1.0, 2.0, size=size),
        rng.choice([0.0, 0.99, 0.99**3], size=size, p=[0.2, 0.5, 0.3]),
        rng.normal(size=(size, spec.obs.shape[0])),
    )
    return Transition(*(jnp.asarray(values, jnp.float32) for values in fields))


def random_params(shapes: Any, rng: np.random.Generator, gain: float) -> Any:
    """Uniform in ±1/√fan_in, kernels times the gain; LayerNorms in ±½ around their start."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(shapes)
    drawn = []
    for (_, bias), (path, weights) in zip(leaves[0::2], leaves[1::2], strict=True):  # in the order of the alphabet
        if path[-1].key == "scale":
            drawn += [rng.uniform(-0.5, 0.5, bias.shape), rng.uniform(0.5, 1.5, weights.shape)]
        else:
            bound = weights.shape[-2] ** -0.5
            drawn += [rng.uniform(-bound, bound, bias.shape), gain * rng.uniform(-bound, bound, weights.shape)]
    return jax.tree.unflatten(structure, [values.astype(np.float32) for values in drawn])


def shift_last_bias(params: Any, shift: Sequence[float] | Floats) -> Any:
    leaves, structure = jax.tree.flatten(params)
    leaves[-2] = np.asarray(leaves[-2]) + np.asarray(shift, np.float32)
    return jax.tree.unflatten(structure, leaves)


def shift_policy(state: Any, obs: jax.Array, subject: Subject) -> Any:
    """Of a soft actor, the first few means and log std to the medians that the subject has."""
    if not hasattr(state, "log_alpha"):
        return state
    output, _ = reference.forward(network(state.actor.params), np.asarray(obs, np.float64))
    middle = np.median(output, axis=0)
    shift = np.zeros_like(middle)
    for first, medians in ((0, subject.means), (len(middle) // 2, subject.log_stds)):
        some = slice(first, first + len(medians))
        shift[some] = medians - middle[some]
    return state._replace(actor=state.actor._replace(params=shift_last_bias(state.actor.params, shift)))


def start(algorithm: Algorithm[Any], spec: Spec) -> Any:
    """Before the first step; targets far from the online networks, target actions near ±1, α far from 1.

    In NumPy, for JAX itself would take seconds to compile as much.
    What critics say depends on what they see more than on their biases, so that each is the smallest somewhere.
    """
    shapes, rng = jax.eval_shape(algorithm.init, jax.random.key(0)), np.random.default_rng(1)
    state = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    for name in state._fields:
        value, gain = getattr(state, name), 2.0 if "critics" in name else 1.0
        if name == "log_alpha":
            value = value._replace(params=np.float32(-0.7))
        elif name.startswith("target"):
            value = random_params(value, rng, gain)
        else:
            value = value._replace(params=random_params(value.params, rng, gain))
        if name.startswith("target_actor"):
            value = shift_last_bias(value, [1.5, -1.5, *[0.0] * (spec.action.array.shape[0] - 2)])
        state = state._replace(**{name: value})
    return state


def context(step: int, index: int = 0, rounds: int = 1) -> UpdateContext:
    return UpdateContext(jnp.int32(step), jnp.int32(index), rounds, jax.random.key(3), jnp.int32(0))


def set_up(subject: Subject) -> Setup:
    """Some updates in JAX first, so that moments, targets and temperature are those of learning."""
    entry, spec, size = find(subject.name), subject.spec, subject.size
    algorithm = entry.make(entry.config(**subject.options), spec)
    update, rounds = jax.jit(algorithm.update, compiler_options=FAST), algorithm.rounds
    state = start(algorithm, spec)
    for step in range(1, WARM_UP + 1):
        batch = random_batch(step, size, spec)
        state = shift_policy(state, batch.obs, subject)
        state, _ = update(state, batch, context(step, step % rounds, rounds), jax.random.key(10 + step))
    state = shift_policy(state, batch.obs, subject)
    batches = (random_batch(seed, size, spec) for seed in count(100))
    batch = next(batch for batch in batches if not near_a_branch(subject, state, batch, rounds))
    return Setup(subject, algorithm, update, state, batch)


cached_set_up = functools.cache(set_up)


def arguments(subject: Subject, state: Any, batch: Transition, now: UpdateContext, key: jax.Array) -> dict[str, Any]:
    """Of NumPy's update on its own state."""
    numbers = {"state": state, "batch": batch_in_numpy(batch), "step": int(now.step), "settings": subject.settings}
    return numbers | subject.draws(batch, now, key)


def near_a_branch(subject: Subject, state: Any, batch: Transition, rounds: int) -> bool:
    """Whether float32 may take another branch of a ReLU somewhere, which is no error, but a jump of a gradient."""
    before, key = subject.in_numpy(state), jax.random.key(NOISE_SEED)
    ticks = (context(2, index, rounds) for index in range(rounds))
    return any(subject.nearest_branch(**arguments(subject, before, batch, now, key)) < KINK for now in ticks)


def network(params: Any) -> Network:
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(params)]


def members(params: Any) -> list[Network]:
    """The networks of an ensemble, in either layout, or a single one."""
    if isinstance(params, tuple):
        return [one for member in params for one in members(member)]
    leaves = network(params)
    return [leaves] if leaves[0].ndim <= 1 else [list(member) for member in zip(*leaves, strict=True)]


def adams(trained: gradients.TrainState) -> list[reference.Adam]:
    mu, nu, steps = (optax.tree_utils.tree_get(trained.optimiser, name) for name in ("mu", "nu", "count"))
    networks = members(trained.params)
    counts = np.broadcast_to(steps, len(networks)).tolist()
    return [reference.Adam(*one) for one in zip(networks, members(mu), members(nu), counts, strict=True)]


def in_numpy(state: Any) -> reference.State:
    """A state with one actor in float64."""
    return reference.State(
        actor=adams(state.actor)[0],
        critics=adams(state.critics),
        target_critics=members(state.target_critics),
        target_actor=network(state.target_actor) if hasattr(state, "target_actor") else [],
        log_alpha=adams(state.log_alpha)[0] if hasattr(state, "log_alpha") else reference.Adam(),
    )


def batch_in_numpy(batch: Transition) -> reference.Batch:
    return reference.Batch(*(np.asarray(values, np.float64) for values in batch))


def normals(batch: Transition, keys: Sequence[jax.Array]) -> list[Floats]:
    """Standard normal draws in the shape of actions."""
    return [np.asarray(jax.random.normal(key, batch.action.shape), np.float64) for key in keys]


def soft_normals(batch: Transition, target_key: jax.Array, actor_key: jax.Array) -> list[Floats]:
    """Of the next action and of the actor's loss; of either key, the second half is for dropout."""
    return normals(batch, [jax.random.split(key)[0] for key in (target_key, actor_key)])


def noise_of(name: str, batch: Transition, key: jax.Array) -> list[Floats]:
    """The standard normal draws of an update with this key."""
    if name == "ddpg":
        return []
    keys = jax.random.split(key, 3)
    return normals(batch, [keys[0]]) if name == "td3" else soft_normals(batch, keys[0], keys[2])


def nearest_branch(
    name: str,
    state: reference.State,
    batch: reference.Batch,
    noise: list[Floats],
    step: int,
    settings: reference.Settings,
) -> float:
    """The smallest |input| of a ReLU that a gradient goes through."""
    after, _ = UPDATES[name](state, batch, noise, step, settings)
    output, _ = reference.forward(state.actor.values, batch.obs)
    action = reference.draw(output, noise[1]).action if name == "sac" else np.tanh(output)
    passes = [(state.actor.values, batch.obs)]
    for old, new in zip(state.critics, after.critics, strict=True):
        passes.append((old.values, np.concatenate([batch.obs, batch.action], axis=1)))
        passes.append((new.values, np.concatenate([batch.obs, action], axis=1)))
    return min(reference.nearest_kink(values, x) for values, x in passes)


def subject_of(name: str, small: bool) -> Subject:
    unusual = UNUSUAL[name] if small else {}
    return Subject(
        name,
        options=unusual | HIDDEN if small else {},
        spec=SMALL if small else LARGE,
        size=64 if small else 256,
        settings=reference.Settings(**USUAL.get(name, {}) | unusual),  # type: ignore[arg-type]  # floats, all of them
        draws=lambda batch, _, key: {"noise": noise_of(name, batch, key)},
        update=UPDATES[name],
        nearest_branch=functools.partial(nearest_branch, name),
        in_numpy=in_numpy,
    )


SUBJECTS = {(name, small): subject_of(name, small) for name in UPDATES for small in (True, False)}


def named(state: Any) -> dict[str, Floats]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(asdict(state))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def is_parameter(name: str) -> bool:
    return "values" in name or "target" in name


def excess(actual: Floats, expected: Floats, allowed: float) -> float:
    """‖actual − expected‖ in units of what is allowed; where nothing is allowed, any difference is too much."""
    distance = float(np.linalg.norm(actual - expected))
    return distance / allowed if allowed > 0.0 else np.inf if distance > 0.0 else 0.0


def state_errors(actual: Any, expected: Any) -> dict[str, float]:
    """Of every array, its distance from the expected one in units of the allowed."""
    found, wanted = named(actual), named(expected)
    assert found.keys() == wanted.keys()
    return {n: excess(found[n], wanted[n], SAME * float(np.linalg.norm(wanted[n]))) for n in wanted}


def change_errors(before: Any, actual: Any, expected: Any) -> dict[str, float]:
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
    missing = {name for name, value in expected.items() if np.isnan(value)}  # not computed in this update
    assert missing == {name for name, value in actual.items() if np.isnan(value)}
    return {
        f"metric {name}": abs(float(actual[name]) - value) / (REPORTED * abs(value))
        for name, value in expected.items()
        if name not in missing
    }


def assert_small(errors: dict[str, float], limit: float = 1.0) -> None:
    wrong = {name: f"{error:.3g} times the tolerance" for name, error in errors.items() if not error <= limit}
    assert not wrong


def errors_of(subject: Subject, before: Any, after: Any, metrics: Any, expected: tuple[Any, Any]) -> dict[str, float]:
    """Of a state in JAX, and of the report with it."""
    actual = subject.in_numpy(after)
    errors = state_errors(actual, expected[0]) | metric_errors(metrics, expected[1])
    return errors | change_errors(before, actual, expected[0])


def compare_one_update(setup: Setup, now: UpdateContext) -> dict[str, float]:
    subject, key = setup.subject, jax.random.key(NOISE_SEED)
    before = subject.in_numpy(setup.state)
    after, metrics = setup.update(setup.state, setup.batch, now, key)
    expected = subject.update(**arguments(subject, before, setup.batch, now, key))
    return errors_of(subject, before, after, metrics, expected)


@pytest.mark.parametrize("small", [True, False], ids=["small", "default"])
@pytest.mark.parametrize(("name", "step"), [("ddpg", 7), ("td3", 7), ("td3", 8), ("sac", 7), ("sac", 8)])
def test_one_update_is_that_of_numpy(name: str, step: int, small: bool) -> None:
    assert_small(compare_one_update(cached_set_up(SUBJECTS[name, small]), context(step)))


def compare_stacked(subject: Subject, now: UpdateContext, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The layout for a GPU, on whatever runs this."""
    monkeypatch.setattr("smrl.nn.networks.jax.default_backend", lambda: "gpu")
    setup = set_up(subject)
    assert not isinstance(setup.state.critics.params, tuple)
    return compare_one_update(setup, now)


@pytest.mark.parametrize("name", ["td3", "sac"])
def test_stacked_critics_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_small(compare_stacked(SUBJECTS[name, True], context(8), monkeypatch))


@functools.cache
def cached_learner(algorithm: Algorithm[Any], times: int, fresh_batches: int) -> Any:
    return jax.jit(learner(algorithm, rule_of(times), fresh_batches), donate_argnums=0)


def reuse_in_numpy(
    setup: Setup, batches: list[Transition], step: int, key: jax.Array, times: int
) -> tuple[Any, reference.Metrics, float]:
    """The complete update again and again on every batch, each with draws of its own; the reports' mean.

    The third is how near a gradient ever was to a jump.
    """
    subject = setup.subject
    state, reports, nearest = subject.in_numpy(setup.state), [], np.inf
    for index, batch in enumerate(batches):
        update_key, _ = jax.random.split(jax.random.fold_in(key, index))
        for m in range(times):
            now, reuse_key = context(step, index, len(batches)), jax.random.fold_in(update_key, m)
            taken = arguments(subject, state, batch, now, reuse_key)
            nearest = min(nearest, subject.nearest_branch(**taken))
            state, report = subject.update(**taken)
            reports.append(report)
    return state, means(reports), nearest


def means(reports: list[reference.Metrics]) -> reference.Metrics:
    """The mean of every metric over the updates that computed it."""
    by_name = {metric: np.array([report[metric] for report in reports]) for metric in reports[0]}
    return {
        metric: float(values[~np.isnan(values)].mean()) if not np.isnan(values).all() else np.nan
        for metric, values in by_name.items()
    }


def compare_reuses(setup: Setup, step: int, times: int, fresh_batches: int = 1) -> dict[str, float]:
    """All that an environment step learns."""
    subject, key, rounds = setup.subject, jax.random.key(6), setup.algorithm.rounds * fresh_batches
    for seed in count(200, rounds):
        batches = [random_batch(seed + index, subject.size, subject.spec) for index in range(rounds)]
        *expected, nearest = reuse_in_numpy(setup, batches, step, key, times)
        if nearest >= KINK:
            break
    donated = jax.tree.map(jnp.copy, setup.state)  # others still need the state
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batches)
    learned = AgentState(donated, (), jnp.int32(0), jnp.int32(0))
    after, metrics = cached_learner(setup.algorithm, times, fresh_batches)(learned, stacked, step, step, key)
    return errors_of(subject, subject.in_numpy(setup.state), after.algorithm, metrics, (expected[0], expected[1]))


@pytest.mark.parametrize(("name", "step"), [("td3", 7), ("td3", 8), ("sac", 7), ("sac", 8)])
def test_three_reuses_are_three_updates_of_numpy(name: str, step: int) -> None:
    errors = compare_reuses(cached_set_up(SUBJECTS[name, True]), step, times=3)
    assert_small(errors, limit=5.0)  # errors add up, and grow


def some_but_not_all(where: Any) -> bool:
    return bool(np.any(where) and not np.all(where))


@pytest.mark.parametrize("small", [True, False], ids=["small", "default"])
def test_log_std_meets_both_ends_of_its_clamp(small: bool) -> None:
    setup = cached_set_up(SUBJECTS["sac", small])
    actor, batch = in_numpy(setup.state).actor.values, batch_in_numpy(setup.batch)
    for obs in (batch.obs, batch.next_obs):
        raw = np.split(reference.forward(actor, obs)[0], 2, axis=1)[1]
        assert some_but_not_all(raw[:, 0] > 2.0)
        assert some_but_not_all(raw[:, 1] < -20.0)


@pytest.mark.parametrize("small", [True, False], ids=["small", "default"])
def test_smoothing_clips_noise_and_action(small: bool) -> None:
    setup = cached_set_up(SUBJECTS["td3", small])
    batch, settings = batch_in_numpy(setup.batch), setup.subject.settings
    noise = settings.target_noise * noise_of("td3", setup.batch, jax.random.key(NOISE_SEED))[0]
    action = np.tanh(reference.forward(in_numpy(setup.state).target_actor, batch.next_obs)[0])
    clipped = action + np.clip(noise, -settings.noise_clip, settings.noise_clip)
    assert some_but_not_all(np.abs(noise) > settings.noise_clip)
    assert some_but_not_all(clipped > 1.0)
    assert some_but_not_all(clipped < -1.0)


@pytest.mark.parametrize("small", [True, False], ids=["small", "default"])
@pytest.mark.parametrize("name", ["td3", "sac"])
def test_each_twin_is_the_smaller_somewhere(name: str, small: bool) -> None:
    setup = cached_set_up(SUBJECTS[name, small])
    state, batch = in_numpy(setup.state), batch_in_numpy(setup.batch)
    for critics, obs in (
        (state.target_critics, batch.next_obs),
        ([critic.values for critic in state.critics], batch.obs),
    ):
        first, second = (reference.q_value(critic, obs, batch.action)[0] for critic in critics)
        assert some_but_not_all(first < second)


def losses() -> dict[str, tuple[Callable[[Network], Any], Network]]:
    """Every loss of the reference as a function of what it trains, where that is."""
    setup = cached_set_up(SUBJECTS["sac", True])
    state, batch = in_numpy(setup.state), batch_in_numpy(setup.batch)
    deterministic = in_numpy(cached_set_up(SUBJECTS["td3", True]).state)
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


def central_difference(loss: Callable[[Network], Any], values: Network, array: int, direction: Floats) -> float:
    """(L(θ + hv) − L(θ − hv)) / 2h along v in one array; for |v| = 1, h³ and rounding are both about 1e-16."""
    width, ends = 5e-6, []
    for sign in (1.0, -1.0):
        moved = list(values)
        moved[array] = values[array] + sign * width * direction
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
            direction = np.zeros_like(slope)
            direction[index] = 1.0
            difference = central_difference(loss, values, array, direction)
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
    optimiser = gradients.Adam(1e-2)
    trained = optimiser.start(jnp.zeros(13))
    expected = reference.Adam([np.zeros(13)], [np.zeros(13)], [np.zeros(13)])
    for sign in (1.0, 1.0, -0.5):
        weights = jnp.asarray(sign * slopes, jnp.float32)
        trained, _ = gradients.apply_gradient(trained, functools.partial(weighted_sum, weights), optimiser)
        expected = reference.step_adam(expected, [sign * slopes], 1e-2)
    actual = adams(trained)[0]
    assert actual.count == expected.count == 3
    np.testing.assert_allclose(actual.values, expected.values, rtol=1e-4)
    np.testing.assert_allclose(actual.mu, expected.mu, rtol=1e-6)
    np.testing.assert_allclose(actual.nu, expected.nu, rtol=1e-6)
