"""The paper's statements about one update of a Q-table; each function checks one numerically."""

from collections.abc import Callable

import numpy as np

from smrl.paper.theory.finding import Finding, Floats, Line, gap
from smrl.paper.theory.finite import FiniteMDP, Sample, check_update, effective_rate, q_smr_step, random_mdp

ROUNDING = 1e-11  # tolerance for float64, over a few hundred operations on values of this size
RATIOS = (1, 2, 5, 10, 20)

Step = Callable[[Floats, Sample, float, float, int], Floats]
EffectiveRate = Callable[[Floats, int], Floats]


def unrolled(table: Floats, sample: Sample, rate: float, gamma: float, times: int) -> float:
    """The update rule's right-hand side: (1-α)^M Q + Σ_i α (1-α)^i T Q^(M-1-i), with the loop's tables."""
    check_update(rate, gamma, times)
    tables = [table]
    for _ in range(times - 1):
        tables.append(q_smr_step(tables[-1], sample, rate, gamma, 1))
    backups = [sample.reward + gamma * float(each[sample.following].max()) for each in tables]
    weighted = [rate * (1 - rate) ** i * backups[times - 1 - i] for i in range(times)]
    return float((1 - rate) ** times * table[sample.state, sample.action] + sum(weighted))


def enlarged_step(table: Floats, sample: Sample, rate: float, gamma: float, times: int) -> Floats:
    """One update of the effective rate, with T Q computed once."""
    return q_smr_step(table, sample, effective_rate(rate, times), gamma, 1)


def update_rule(seed: int = 0, samples: int = 400, step: Step = q_smr_step) -> Finding:
    """M reuses equal the weighted sum of their backups, whether or not s' = s."""
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
    """|Q| never exceeds r_max/(1-γ) = 1/(1-γ), for any transitions, any rates in [0, 1] and the worst rewards."""
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
    """Where s' ≠ s, M reuses equal one update of rate 1-(1-α)^M; where s' = s they do not."""
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
    """In a table, M ≥ 2 reuses never equal one update of rate Mα: every reuse moves less than the one before it."""
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
    """α ≤ 1-(1-α)^M ≤ min(1, Mα), so the Robbins–Monro conditions carry over."""
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
    """A random MDP, a table within the bound, and a transition, with s' = s if ``same``."""
    mdp = random_mdp(rng, int(rng.integers(2, 6)), int(rng.integers(1, 4)), rng.uniform(0, 0.95))
    states, actions = mdp.rewards.shape
    table = rng.uniform(-mdp.value_bound, mdp.value_bound, (states, actions))
    s, a = int(rng.integers(states)), int(rng.integers(actions))
    after = s if same else (s + int(rng.integers(1, states))) % states
    return mdp, table, Sample(s, a, float(mdp.rewards[s, a]), after)
