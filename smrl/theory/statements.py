"""The paper's statements about one update; each function checks one numerically and says whether it holds."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from smrl.smr.loop import reuse
from smrl.theory.finite import FiniteMDP, Floats, check_update, effective_rate, q_smr_step, random_mdp
from smrl.types import Array, Key

ROUNDING = 1e-11  # tolerance for float64, over a few hundred operations on values of this size
RATIOS = (1, 2, 5, 10)


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a figure, with an optional band."""

    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None


@dataclass(frozen=True, eq=False)
class Finding:
    """A statement, what was measured, whether it holds as the paper states it, and the lines of its figure."""

    statement: str
    measured: str
    holds: bool
    lines: tuple[Line, ...] = ()


def unrolled(
    table: Floats, state: int, action: int, reward: float, following: int, rate: float, gamma: float, times: int
) -> float:
    """The update rule's right-hand side: (1-α)^M Q + Σ_i α (1-α)^i T Q^(M-1-i), with the loop's tables."""
    check_update(rate, gamma, times)
    tables = [table]
    for _ in range(times - 1):
        tables.append(q_smr_step(tables[-1], state, action, reward, following, rate, gamma, 1))
    backups = [reward + gamma * float(each[following].max()) for each in tables]
    weighted = [rate * (1 - rate) ** i * backups[times - 1 - i] for i in range(times)]
    return float((1 - rate) ** times * table[state, action] + sum(weighted))


def update_rule(seed: int = 0, samples: int = 400) -> Finding:
    """M reuses equal the weighted sum of their backups, whether or not s' = s."""
    rng = np.random.default_rng(seed)
    largest = {False: 0.0, True: 0.0}
    for index in range(samples):
        same = index % 2 == 0
        mdp, table, (s, a, r, after) = _draw(rng, same)
        rate, times = rng.uniform(), int(rng.integers(1, 21))
        looped = q_smr_step(table, s, a, r, after, rate, mdp.gamma, times)
        gap = abs(looped[s, a] - unrolled(table, s, a, r, after, rate, mdp.gamma, times))
        looped[s, a] = table[s, a]
        largest[same] = max(largest[same], gap, float(np.abs(looped - table).max()))
    measured = f"largest gap {largest[False]:.1e} where s' ≠ s, {largest[True]:.1e} where s' = s ({samples} updates)"
    return Finding("update rule: M reuses are the weighted sum", measured, max(largest.values()) < ROUNDING)


def stability(seed: int = 0, steps: int = 4000, rows: int = 64) -> Finding:
    """|Q| never exceeds r_max/(1-γ), for any transitions, any rates in [0, 1] and the worst rewards."""
    rng = np.random.default_rng(seed)
    states, actions, gamma = 4, 2, 0.9
    bound = 1 / (1 - gamma)
    table = rng.uniform(-bound, bound, (rows, states, actions))
    table[0] = 0  # the paper's initial table
    largest = 0.0
    for _ in range(steps):
        s, after = rng.integers(states, size=(2, rows))
        # half of the rows always get +1 or always -1, which drives their values to the bound
        reward = np.where(np.arange(rows) < rows // 2, rng.uniform(-1, 1, rows), np.arange(rows) % 2 * 2.0 - 1)
        times = int(rng.integers(1, 21))
        action, rate = rng.integers(actions, size=rows), rng.uniform(size=rows)
        table = q_smr_step(table, s, action, reward, after, rate, gamma, times)
        largest = max(largest, float(np.abs(table).max()))
    measured = f"largest |Q| is {largest / bound:.6f} of the bound, over {rows} × {steps:,} updates with M up to 20"
    return Finding("stability: |Q| ≤ r_max/(1-γ)", measured, largest <= bound * (1 + ROUNDING))


def nonreturnable(seed: int = 0, samples: int = 400) -> Finding:
    """Where s' ≠ s, M reuses equal one update of rate 1-(1-α)^M; where s' = s they do not."""
    rng = np.random.default_rng(seed)
    gaps: dict[bool, list[float]] = {False: [], True: []}
    for index in range(samples):
        same = index % 2 == 0
        mdp, table, (s, a, r, after) = _draw(rng, same)
        rate, times = rng.uniform(), int(rng.integers(2, 21))
        looped = q_smr_step(table, s, a, r, after, rate, mdp.gamma, times)
        once = q_smr_step(table, s, a, r, after, effective_rate(rate, times), mdp.gamma, 1)
        gaps[same].append(float(np.abs(looped - once).max()))
    differ = float(np.mean(np.array(gaps[True]) > ROUNDING))
    measured = (
        f"largest gap {max(gaps[False]):.1e} where s' ≠ s; where s' = s, {differ:.0%} of the updates differ, "
        f"by up to {max(gaps[True]):.2f}"
    )
    return Finding("non-returnable: one update of rate 1-(1-α)^M", measured, max(gaps[False]) < ROUNDING and differ > 0)


def effective_rates(points: int = 2001) -> Finding:
    """α ≤ 1-(1-α)^M ≤ min(1, Mα), so the Robbins–Monro conditions carry over."""
    rates = np.linspace(0, 1, points)
    worst, lines = 0.0, []
    for times in (*RATIOS, 20):
        effective = effective_rate(rates, times)
        worst = max(worst, float((rates - effective).max()), float((effective - np.minimum(1, times * rates)).max()))
        lines.append(Line(f"M = {times}", rates, effective, rates, np.minimum(1, times * rates)))
    measured = f"largest excess over either side {max(worst, 0):.1e}, at {points:,} rates for M = 1, 2, 5, 10, 20"
    return Finding("effective rate: α ≤ 1-(1-α)^M ≤ min(1, Mα)", measured, worst < ROUNDING, tuple(lines))


def deep_sum(seed: int = 0, times: int = 10, rate: float = 0.05) -> Finding:
    """M reuses of SGD give θ - α Σ ∇L(θ^(i)), computed with `smrl.reuse` and a small network."""
    after, summed, enlarged = _deep(seed, times, rate)
    gap, apart = float(jnp.abs(after - summed).max()), float(jnp.abs(after - enlarged).max())
    measured = f"gap {gap:.1e} in float32; {apart:.3f} from one step of rate Mα (M = {times}, α = {rate:g})"
    return Finding("deep case: M reuses of SGD are θ - α Σ ∇L(θ^(i))", measured, gap < 1e-5 and apart > 100 * gap)


def deep_never_equal(times: int = 10, rate: float = 0.05) -> Finding:
    """The claim that this never equals one step of rate Mα; a loss of constant gradient is a counter-example."""
    slope = jnp.array([1.0, -2.0])
    start = jnp.array([0.5, 0.25])

    def update(theta: Array, batch: Array, key: Key) -> tuple[Array, Array]:
        return theta - rate * jax.grad(lambda theta: theta @ batch)(theta), jnp.zeros(())

    after, _ = reuse(update, times)(jnp.array(start), slope, jax.random.key(0))
    gap = float(jnp.abs(after - (start - times * rate * slope)).max())
    moved = float(jnp.abs(after - start).max())
    measured = f"for the linear loss L(θ) = ⟨c, θ⟩ the two agree to {gap:.1e} though θ moved by {moved:.1f}"
    return Finding("deep case: always unlike one step of rate Mα", measured, gap > 1e-5)


def _deep(seed: int, times: int, rate: float) -> tuple[Array, Array, Array]:
    """Parameters after M reuses, after a step by the sum of the M gradients, and after one step of rate Mα."""
    keys = jax.random.split(jax.random.key(seed), 4)
    x, y = jax.random.normal(keys[0], (32, 3)), jax.random.normal(keys[1], (32,))
    theta = jnp.concatenate([jax.random.normal(keys[2], (24,)), jax.random.normal(keys[3], (8,))]) * 0.5

    def loss(theta: Array) -> Array:
        return ((jnp.tanh(x @ theta[:24].reshape(3, 8)) @ theta[24:] - y) ** 2).mean()

    def update(theta: Array, batch: None, key: Key) -> tuple[Array, Array]:
        return theta - rate * jax.grad(loss)(theta), loss(theta)

    gradient = jax.jit(jax.grad(loss))
    total, current = jnp.zeros_like(theta), theta
    for _ in range(times):
        total = total + gradient(current)
        current = current - rate * gradient(current)
    summed, enlarged = theta - rate * total, theta - times * rate * gradient(theta)
    after, _ = reuse(update, times)(jnp.array(theta), None, keys[0])  # a copy, because the state is donated
    return after, summed, enlarged


def _draw(rng: np.random.Generator, same: bool) -> tuple[FiniteMDP, Floats, tuple[int, int, float, int]]:
    """A random MDP, a table within the bound, and a transition, with s' = s if ``same``."""
    mdp = random_mdp(rng, int(rng.integers(2, 6)), int(rng.integers(1, 4)), rng.uniform(0, 0.95))
    states, actions = mdp.rewards.shape
    table = rng.uniform(-mdp.value_bound, mdp.value_bound, (states, actions))
    s, a = int(rng.integers(states)), int(rng.integers(actions))
    after = s if same else (s + int(rng.integers(1, states))) % states
    return mdp, table, (s, a, float(mdp.rewards[s, a]), after)
