"""The paper's statements about M reuses of a batch in deep learning, computed with `smrl.reuse`."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from smrl.paper.theory.finding import Finding, gap
from smrl.smr.loop import reuse
from smrl.types import Array, Key

TOLERANCE = 1e-5  # float32, for parameters of order 1
TIMES, RATE = 10, 0.05
HIDDEN = 8


class Critic(NamedTuple):
    """A critic with its target network and its optimiser."""

    theta: Array
    target: Array
    optimiser: Any


class Reused(NamedTuple):
    """Parameters after M reuses, and what the theorem compares them with."""

    after: Array
    summed: Array  # θ - α Σ ∇L_i(θ^(i)), where L_i has the targets of reuse i
    one_loss: Array  # the same with the first loss throughout
    enlarged: Array  # one step of rate Mα


def gradient_sum(seed: int = 0, momentum: float = 0.0) -> Finding:
    """M reuses of SGD give θ - α Σ ∇L(θ^(i)), and not one step of rate Mα."""
    found = reuse_critic(seed, optax.sgd(RATE, momentum), soft=0.0)
    apart, enlarged = _apart(found.after, found.summed), _apart(found.after, found.enlarged)
    measured = f"gap {gap(apart, TOLERANCE)}; {enlarged:.3f} from one step of rate Mα (M = {TIMES}, α = {RATE:g})"
    holds = apart < TOLERANCE and enlarged > 100 * TOLERANCE
    return Finding("deep case: M reuses of SGD are θ - α Σ ∇L(θ^(i))", measured, holds)


def one_loss(seed: int = 0, soft: float = 0.005) -> Finding:
    """The claim that the M gradients are of one loss; the soft updates of the target network change the loss."""
    found = reuse_critic(seed, optax.sgd(RATE), soft)
    own, first = _apart(found.after, found.summed), _apart(found.after, found.one_loss)
    measured = (
        f"with soft updates of {soft:g} inside the loop the sum over M losses is {gap(own, TOLERANCE)} off, "
        f"that over the first loss {gap(first, TOLERANCE)}"
    )
    return Finding("deep case: the M gradients are of one loss", measured, first < TOLERANCE)


def adam(seed: int = 0, adaptive: bool = True) -> Finding:
    """The claim that the sum of gradients describes Adam too, the optimiser of the paper's experiments."""
    found = reuse_critic(seed, optax.adam(RATE) if adaptive else optax.sgd(RATE), soft=0.0)
    apart = _apart(found.after, found.summed)
    measured = f"gap {gap(apart, TOLERANCE)} for {'Adam' if adaptive else 'SGD'} (M = {TIMES}, α = {RATE:g})"
    return Finding("deep case: the sum of gradients covers Adam", measured, apart < TOLERANCE)


def never_equal(rate: float = 1.5, times: int = 3) -> Finding:
    """The claim that M reuses are never one step of rate Mα; a squared loss is a counter-example."""
    start, y = 1.0, 0.25

    def update(theta: Array, batch: Array, _: Key) -> Array:
        return theta - rate * jax.grad(lambda theta: (theta - batch) ** 2)(theta)

    after = float(reuse(update, times)(jnp.float32(start), jnp.float32(y), jax.random.key(0))[0])
    once = start - times * rate * 2 * (start - y)
    measured = (
        f"for L = (θ - y)², α = {rate:g}, M = {times} the reuses give y {(after - y) / (start - y):+.3g}(θ₀ - y), "
        f"one step of rate Mα gives y {(once - y) / (start - y):+.3g}(θ₀ - y)"
    )
    return Finding("deep case: always unlike one step of rate Mα", measured, abs(after - once) > TOLERANCE)


def reuse_critic(seed: int, optimiser: optax.GradientTransformation, soft: float) -> Reused:
    """Reuse a batch M times for a critic of one hidden layer and the paper's squared critic loss."""
    keys = jax.random.split(jax.random.key(seed), 5)
    x, after_x = jax.random.normal(keys[0], (2, 32, 3))  # (s, a) and (s', a')
    reward, theta = jax.random.normal(keys[1], (32,)), 0.5 * jax.random.normal(keys[2], (4 * HIDDEN,))

    def q(theta: Array, x: Array) -> Array:
        return jnp.tanh(x @ theta[: 3 * HIDDEN].reshape(3, HIDDEN)) @ theta[3 * HIDDEN :]

    @jax.jit
    @jax.grad
    def gradient(theta: Array, target: Array) -> Array:
        return ((q(theta, x) - reward - 0.9 * q(target, after_x)) ** 2).mean()

    def update(critic: Critic, batch: None, _: Key) -> Critic:
        change, state = optimiser.update(gradient(critic.theta, critic.target), critic.optimiser)
        theta = critic.theta + change
        return Critic(theta, (1 - soft) * critic.target + soft * theta, state)

    jitted = jax.jit(update)
    first = theta * 0.9  # the target network lags behind
    current = Critic(theta, first, optimiser.init(theta))
    own, fixed = jnp.zeros_like(theta), jnp.zeros_like(theta)
    for _ in range(TIMES):
        own, fixed = own + gradient(current.theta, current.target), fixed + gradient(current.theta, first)
        current = jitted(current, None, keys[3])
    copy = jax.tree.map(jnp.array, Critic(theta, first, optimiser.init(theta)))  # because the state is donated
    looped, _ = reuse(update, TIMES)(copy, None, keys[4])
    return Reused(looped.theta, theta - RATE * own, theta - RATE * fixed, theta - TIMES * RATE * gradient(theta, first))


def _apart(left: Array, right: Array) -> float:
    return float(jnp.abs(left - right).max())
