"""XQC against NumPy in float64: one update from the start, whose gradients are those of finite differences."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from specs import vectors

from smrl.algorithms.xqc import XQC, spread, xqc
from smrl.errors import SmrlError
from smrl.types import Transition, UpdateContext

SPEC = vectors(5, 2)
SIZES: dict[str, Any] = {"actor_hidden": (16, 12), "critic_hidden": (12, 16), "atoms": 11, "limit": 3.0, "tau": 0.02}
CONFIG = XQC(**SIZES, delay=2, learning_rate=1e-3, log_std_min=-1.0, log_std_max=0.5)
BATCH, SEED = 40, 5
Floats = Any


@pytest.fixture(autouse=True)
def full_precision() -> Iterator[None]:
    """Some devices multiply float32 in fewer bits unless told otherwise."""
    with jax.default_matmul_precision("highest"):
        yield


def batch() -> Transition:
    draw = np.random.default_rng(SEED)
    discount = draw.choice([0.0, 0.99], BATCH)
    fields = (draw.normal(size=(BATCH, 5)), draw.uniform(-1, 1, (BATCH, 2)), draw.normal(size=BATCH), discount)
    return Transition(*(jnp.asarray(one, jnp.float32) for one in (*fields, draw.normal(1, 2, (BATCH, 5)))))


def in_numpy(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def forward(params: Any, statistics: Any, x: Floats, training: bool) -> tuple[Floats, Any]:
    """The network as its docstring says, and the running statistics after it."""
    changed = {}

    def norm(x: Floats, name: str) -> Floats:
        running, learned = statistics[name], params[name]
        mean, var = (x.mean(0), x.var(0)) if training else (running["mean"], running["var"])
        changed[name] = {"mean": 0.99 * running["mean"] + 0.01 * mean, "var": 0.99 * running["var"] + 0.01 * var}
        return (x - mean) / np.sqrt(var + 1e-3) * learned["scale"] + learned["bias"]

    x = norm(x, "BatchNorm_0")
    for index in range(2):
        x = np.maximum(norm(x @ params[f"Dense_{index}"]["kernel"], f"BatchNorm_{index + 1}"), 0)
    return x @ params["Dense_2"]["kernel"] + params["Dense_2"]["bias"], changed


def policy(outputs: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """a = tanh(u) and log π(a)."""
    mean, log_std = outputs[:, :2], np.clip(outputs[:, 2:], -1.0, 0.5)
    u = mean + np.exp(log_std) * noise
    log_prob = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) - np.log(1 - np.tanh(u) ** 2)
    return np.tanh(u), log_prob.sum(-1)


def softmax(logits: Floats) -> Floats:
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def categorical(values: Floats, p: Floats, returns: Floats) -> Floats:
    """The projection of C51, as its paper's pseudo-code has it."""
    step, found = returns[1] - returns[0], np.zeros((len(values), len(returns)))
    for row, (some, probabilities) in enumerate(zip(values, p, strict=True)):
        for value, probability in zip(some, probabilities, strict=True):
            place = (np.clip(value, returns[0], returns[-1]) - returns[0]) / step
            low, high = int(np.floor(place)), int(np.ceil(place))
            if low == high:
                found[row, low] += probability
            else:
                found[row, low] += probability * (high - place)
                found[row, high] += probability * (place - low)
    return found


def slope(loss: Callable[[Any], float], params: Any, direction: Any) -> float:
    """The derivative of a loss along a direction."""
    h = 1e-6
    ahead, behind = (loss(jax.tree.map(lambda a, d, s=s: a + s * h * d, params, direction)) for s in (1, -1))
    return (ahead - behind) / (2 * h)


def check_gradient(loss: Callable[[Any], float], before: Any, after: Any) -> None:
    """Compare Adam's first moment after one step, a tenth of the gradient, along some directions."""
    gradient, draw = in_numpy(after.optimiser[0].mu), np.random.default_rng(0)
    params = in_numpy(before.params)
    for _ in range(6):
        direction = jax.tree.map(lambda leaf: draw.normal(size=leaf.shape), params)
        products = jax.tree.map(lambda g, d: 10 * np.sum(g * d), gradient, direction)
        np.testing.assert_allclose(sum(jax.tree.leaves(products)), slope(loss, params, direction), rtol=2e-4, atol=2e-5)


def step_and_project(trained: Any, rate: float) -> Any:
    """The parameters after Adam's first step along a gradient, with columns of unit norm."""

    def moved(theta: Floats, mean: Floats, square: Floats) -> Floats:
        theta = theta - rate * (mean / 0.1) / (np.sqrt(square / 0.001) + 1e-8)
        return theta / np.linalg.norm(theta, axis=0) if theta.ndim == 2 else theta

    before, adam = trained
    return jax.tree.map(moved, in_numpy(before.params), in_numpy(adam.mu), in_numpy(adam.nu))


def assert_same(left: Any, right: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), left, right)


def test_one_update_is_that_of_numpy() -> None:
    algorithm, data, key = xqc(CONFIG, SPEC), batch(), jax.random.key(3)
    start = algorithm.init(jax.random.key(1))
    draw = np.random.default_rng(2)

    def vary(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf + jnp.asarray(draw.uniform(0, 0.2, leaf.shape), jnp.float32), tree)

    start = start._replace(  # targets unlike the critics, and statistics unlike their start
        target_critics=vary(start.target_critics),
        actor_statistics=vary(start.actor_statistics),
        critic_statistics=vary(start.critic_statistics),
    )
    context = UpdateContext(jnp.int32(2), jnp.int32(0), 1, jax.random.key(0), jnp.int32(0))
    after, metrics = jax.jit(algorithm.update)(start, data, context, key)
    target_key, actor_key = jax.random.split(key)
    target_noise, actor_noise = (
        np.asarray(jax.random.normal(one, (2 * BATCH,)), np.float64).reshape(BATCH, 2)
        for one in (target_key, actor_key)
    )
    state, rows = in_numpy(start), in_numpy(data)
    returns, alpha = np.linspace(-3, 3, 11), float(np.exp(state.log_alpha.params))

    # y: the distribution of r + γ (1 − d) (Z − α log π(a′|s′)) under the target critic with the smaller Q
    outputs, _ = forward(state.actor.params, state.actor_statistics, rows.next_obs, False)
    next_action, next_log_prob = policy(outputs, target_noise)
    joined = np.concatenate([np.c_[rows.obs, rows.action], np.c_[rows.next_obs, next_action]])

    def probabilities(params: Any) -> tuple[list[Floats], Any]:
        found = [forward(one, known, joined, True) for one, known in zip(params, state.critic_statistics, strict=True)]
        return [softmax(logits) for logits, _ in found], tuple(changed for _, changed in found)

    p = [one[BATCH:] for one in probabilities(state.target_critics)[0]]
    smaller = np.argmin([one @ returns for one in p], axis=0)
    p = np.where(smaller[:, None] == 0, p[0], p[1])
    values = rows.reward[:, None] + rows.discount[:, None] * (returns - alpha * next_log_prob[:, None])
    y = categorical(values, p, returns)
    assert 0 < smaller.mean() < 1
    assert (np.abs(values) > 3).any(), "some are outside"

    def critic_loss(params: Any) -> float:
        return -sum(float((y * np.log(one[:BATCH])).sum(-1).mean()) for one in probabilities(params)[0])

    np.testing.assert_allclose(metrics["critic_loss"], critic_loss(state.critics.params), rtol=1e-5)
    check_gradient(critic_loss, start.critics, after.critics)
    assert_same(after.critics.params, step_and_project((start.critics, after.critics.optimiser[0]), 1e-3))
    assert_same(after.critic_statistics, probabilities(state.critics.params)[1])

    # The actor under the new critics, normalised by their new running statistics
    critics = list(zip(in_numpy(after.critics.params), in_numpy(after.critic_statistics), strict=True))

    def actor_terms(params: Any) -> tuple[float, float, Any]:
        outputs, changed = forward(params, state.actor_statistics, rows.obs, True)
        action, log_prob = policy(outputs, actor_noise)
        pairs = np.c_[rows.obs, action]
        q = np.min([softmax(forward(*critic, pairs, False)[0]) @ returns for critic in critics], axis=0)
        return float((alpha * log_prob - q).mean()), float(-log_prob.mean()), changed

    loss, entropy, statistics = actor_terms(state.actor.params)
    np.testing.assert_allclose([metrics["actor_loss"], metrics["entropy"]], [loss, entropy], rtol=1e-4)
    check_gradient(lambda params: actor_terms(params)[0], start.actor, after.actor)
    assert_same(after.actor.params, step_and_project((start.actor, after.actor.optimiser[0]), 1e-3))
    assert_same(after.actor_statistics, statistics)

    # The temperature: the gradient of α (H − H̄) by log α; H̄ is half of the number of actions
    assert_same(10 * after.log_alpha.optimiser[0].mu, alpha * (entropy + 1.0))
    moved = jax.tree.map(lambda old, new: 0.98 * old + 0.02 * new, state.target_critics, in_numpy(after.critics.params))
    assert_same(after.target_critics, moved)


def test_the_actor_waits() -> None:
    algorithm = xqc(CONFIG, SPEC)
    start = algorithm.init(jax.random.key(1))
    context = UpdateContext(jnp.int32(3), jnp.int32(0), 1, jax.random.key(0), jnp.int32(0))
    after, metrics = jax.jit(algorithm.update)(start, batch(), context, jax.random.key(3))
    assert np.isnan(metrics["actor_loss"])
    for part in ("actor", "log_alpha", "actor_statistics"):
        jax.tree.map(np.testing.assert_array_equal, getattr(after, part), getattr(start, part))


def test_spread_is_the_projection_of_c51() -> None:
    draw = np.random.default_rng(0)
    returns, p = np.linspace(-2, 2, 9), draw.dirichlet(np.ones(9), 6)
    values = draw.normal(0, 2, (6, 9))
    values[0, :3] = returns[[0, 4, 8]]  # on an atom
    found = np.asarray(spread(jnp.asarray(values), jnp.asarray(p), jnp.asarray(returns)))
    np.testing.assert_allclose(found, categorical(values, p, returns), atol=1e-5)
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    "bad",
    [{"weight_projection": True}, {"layer_norm": True}, {"dropout": 0.1}, {"weight_decay": 0.1}, {"network": "simba"}],
)
def test_other_regularisation_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(SmrlError, match="XQC normalises"):
        XQC(**bad)
