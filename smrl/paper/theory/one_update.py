"""The paper's statements about the M updates on one transition of a Q-table or one batch of a critic."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from smrl.paper.theory.finding import Finding, Floats, Line, gap
from smrl.paper.theory.mdp import FiniteMDP, Sample, check_update, effective_rate, q_smr_step, random_mdp
from smrl.smr.loop import reuse
from smrl.types import Array, Key

ROUNDING = 1e-11  # tolerance in float64, after a few hundred operations on values of this size
RATIOS = (1, 2, 5, 10, 20)
TOLERANCE = 1e-5  # in float32, for parameters of order 1
TIMES, RATE = 10, 0.05
HIDDEN = 8

Step = Callable[[Floats, Sample, float, float, int], Floats]
EffectiveRate = Callable[[Floats, int], Floats]


def unrolled(table: Floats, sample: Sample, rate: float, gamma: float, times: int) -> float:
    """Return the update rule's right-hand side, (1-α)^M Q + Σ_i α (1-α)^i T Q^(M-1-i), with the loop's tables."""
    check_update(rate, gamma, times)
    tables = [table]
    for _ in range(times - 1):
        tables.append(q_smr_step(tables[-1], sample, rate, gamma, 1))
    backups = [sample.reward + gamma * float(each[sample.following].max()) for each in tables]
    weighted = [rate * (1 - rate) ** i * backups[times - 1 - i] for i in range(times)]
    return float((1 - rate) ** times * table[sample.state, sample.action] + sum(weighted))


def enlarged_step(table: Floats, sample: Sample, rate: float, gamma: float, times: int) -> Floats:
    """Make one update of the effective rate, with T Q computed once."""
    return q_smr_step(table, sample, effective_rate(rate, times), gamma, 1)


def update_rule(seed: int = 0, samples: int = 400, step: Step = q_smr_step) -> Finding:
    """Check that M reuses equal the weighted sum of their backups, whether or not s' = s."""
    rng = np.random.default_rng(seed)
    largest = {False: 0.0, True: 0.0}
    for index in range(samples):
        same = index % 2 == 0
        mdp, table, sample = _draw(rng, same)
        rate, times = rng.uniform(), int(rng.integers(1, 21))
        looped = step(table, sample, rate, mdp.gamma, times)
        here = sample.state, sample.action
        apart = abs(looped[here] - unrolled(table, sample, rate, mdp.gamma, times))
        looped[here] = table[here]
        largest[same] = max(largest[same], apart, float(np.abs(looped - table).max()))
    sizes = [gap(largest[same], ROUNDING) for same in (False, True)]
    measured = f"largest gap {sizes[0]} where s' ≠ s, {sizes[1]} where s' = s ({samples} updates)"
    return Finding("update rule: M reuses are the weighted sum", measured, max(largest.values()) < ROUNDING)


def stability(seed: int = 0, steps: int = 2000, rows: int = 64, largest_reward: float = 1.0) -> Finding:
    """Check that |Q| never exceeds r_max/(1-γ) = 1/(1-γ), for any transitions and rates and the worst rewards."""
    rng = np.random.default_rng(seed)
    states, actions, gamma = 4, 2, 0.9
    bound = 1 / (1 - gamma)
    tables = rng.uniform(-bound, bound, (rows, states, actions))
    tables[0] = 0  # the paper's initial table
    largest = 0.0
    for _ in range(steps):
        s, after = rng.integers(states, size=(2, rows))
        # half of the rows always get the largest reward or always the smallest, which drives their values to the bound
        extreme = np.arange(rows) % 2 * 2.0 - 1
        reward = largest_reward * np.where(np.arange(rows) < rows // 2, rng.uniform(-1, 1, rows), extreme)
        times = int(rng.integers(1, 21))
        action, rate = rng.integers(actions, size=rows), rng.uniform(size=rows)
        tables = q_smr_step(tables, Sample(s, action, reward, after), rate, gamma, times)
        largest = max(largest, float(np.abs(tables).max()))
    measured = f"largest |Q| is {largest / bound:.4f} of the bound, over {rows} × {steps:,} updates with M up to 20"
    return Finding("stability: |Q| ≤ r_max/(1-γ)", measured, largest <= bound * (1 + ROUNDING))


def nonreturnable(seed: int = 0, samples: int = 400, effective: EffectiveRate = effective_rate) -> Finding:
    """Check that M reuses equal one update of rate 1-(1-α)^M where s' ≠ s, and not where s' = s."""
    rng = np.random.default_rng(seed)
    gaps: dict[bool, list[float]] = {False: [], True: []}
    for index in range(samples):
        same = index % 2 == 0
        mdp, table, sample = _draw(rng, same)
        rate, times = rng.uniform(), int(rng.integers(2, 21))
        looped = q_smr_step(table, sample, rate, mdp.gamma, times)
        once = q_smr_step(table, sample, effective(np.asarray(rate), times), mdp.gamma, 1)
        gaps[same].append(float(np.abs(looped - once).max()))
    differ = float(np.mean(np.array(gaps[True]) > ROUNDING))
    measured = (
        f"largest gap {gap(max(gaps[False]), ROUNDING)} where s' ≠ s; where s' = s, {differ:.0%} of the updates "
        f"differ, by up to {max(gaps[True]):.2f}"
    )
    holds = max(gaps[False]) < ROUNDING and differ > 0
    return Finding("non-returnable: one update of rate 1-(1-α)^M", measured, holds)


def never_enlarged(seed: int = 0, samples: int = 400, least: int = 2) -> Finding:
    """Check that M ≥ 2 reuses never equal one update of rate Mα: every reuse moves Q less than the one before it."""
    rng = np.random.default_rng(seed)
    shares = []
    for index in range(samples):
        mdp, table, sample = _draw(rng, same=index % 2 == 0)
        rate, times = rng.uniform(0.01, 1), int(rng.integers(least, least + 19))
        moved, first = (np.abs(q_smr_step(table, sample, rate, mdp.gamma, count) - table).max() for count in (times, 1))
        shares.append(moved / (times * first))
    measured = f"M reuses move Q by {min(shares):.3f} to {max(shares):.3f} of what one update of rate Mα would"
    statement = "tabular case: M reuses are never one update of rate Mα"
    return Finding(statement, measured, bool(max(shares) < 1 - 1e-6))


def effective_rates(points: int = 2001, effective: EffectiveRate = effective_rate) -> Finding:
    """Check that α ≤ 1-(1-α)^M ≤ min(1, Mα), so that the Robbins–Monro conditions carry over."""
    rates = np.linspace(0, 1, points)
    worst, lines = 0.0, []
    for times in RATIOS:
        found, high = effective(rates, times), np.minimum(1, times * rates)
        worst = max(worst, float((rates - found).max()), float((found - high).max()))
        lines.append(Line(f"M = {times}", rates, found, rates, high))
    measured = (
        f"largest excess over either side {gap(worst, ROUNDING)}, at {points:,} rates for M = "
        f"{', '.join(map(str, RATIOS))}"
    )
    return Finding("effective rate: α ≤ 1-(1-α)^M ≤ min(1, Mα)", measured, worst < ROUNDING, tuple(lines))


def _draw(rng: np.random.Generator, same: bool) -> tuple[FiniteMDP, Floats, Sample]:
    """Draw a random MDP, a table within the bound, and a transition, with s' = s if ``same``."""
    mdp = random_mdp(rng, int(rng.integers(2, 6)), int(rng.integers(1, 4)), rng.uniform(0, 0.95))
    states, actions = mdp.rewards.shape
    table = rng.uniform(-mdp.value_bound, mdp.value_bound, (states, actions))
    s, a = int(rng.integers(states)), int(rng.integers(actions))
    after = s if same else (s + int(rng.integers(1, states))) % states
    return mdp, table, Sample(s, a, float(mdp.rewards[s, a]), after)


class Critic(NamedTuple):
    """A critic with its target network and its optimiser."""

    theta: Array
    target: Array
    optimiser: Any


class Reused(NamedTuple):
    """Parameters after M reuses, and those that the theorem compares them with."""

    after: Array
    summed: Array  # θ - α Σ ∇L_i(θ^(i)), where L_i has the targets of reuse i
    one_loss: Array  # the same with the first loss throughout
    enlarged: Array  # one step of rate Mα


def gradient_sum(seed: int = 0, momentum: float = 0.0) -> Finding:
    """Check that M reuses of SGD give θ - α Σ ∇L(θ^(i)), and not one step of rate Mα."""
    found = reuse_critic(seed, optax.sgd(RATE, momentum), soft=0.0)
    apart, enlarged = _apart(found.after, found.summed), _apart(found.after, found.enlarged)
    measured = f"gap {gap(apart, TOLERANCE)}; {enlarged:.3f} from one step of rate Mα (M = {TIMES}, α = {RATE:g})"
    holds = apart < TOLERANCE and enlarged > 100 * TOLERANCE
    return Finding("deep case: M reuses of SGD are θ - α Σ ∇L(θ^(i))", measured, holds)


def one_loss(seed: int = 0, soft: float = 0.005) -> Finding:
    """Check the claim that the M gradients are of one loss; Polyak updates of the target network change the loss."""
    found = reuse_critic(seed, optax.sgd(RATE), soft)
    own, first = _apart(found.after, found.summed), _apart(found.after, found.one_loss)
    measured = (
        f"with soft updates of {soft:g} inside the loop the sum over M losses is {gap(own, TOLERANCE)} off, "
        f"that over the first loss {gap(first, TOLERANCE)}"
    )
    return Finding("deep case: the M gradients are of one loss", measured, first < TOLERANCE)


def adam(seed: int = 0, adaptive: bool = True) -> Finding:
    """Check the claim that the sum of gradients describes Adam too, the optimiser of the paper's experiments."""
    found = reuse_critic(seed, optax.adam(RATE) if adaptive else optax.sgd(RATE), soft=0.0)
    apart = _apart(found.after, found.summed)
    measured = f"gap {gap(apart, TOLERANCE)} for {'Adam' if adaptive else 'SGD'} (M = {TIMES}, α = {RATE:g})"
    return Finding("deep case: the sum of gradients covers Adam", measured, apart < TOLERANCE)


def never_equal(rate: float = 1.5, times: int = 3) -> Finding:
    """Check the claim that M reuses are never one step of rate Mα; a squared loss is a counter-example."""
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
