"""The paper's finite-time bound: its conditions, measured rates, and where its proof breaks for M ≥ 2."""

from dataclasses import dataclass
from functools import cache, partial
from math import ceil, log, log2, sqrt

import numpy as np
from numpy.typing import ArrayLike

from smrl.errors import SmrlError
from smrl.paper.theory.finding import Finding, Floats, Ints, bootstrap, gap, line, slope
from smrl.paper.theory.mdp import (
    Behaviour,
    FiniteMDP,
    behaviour,
    distance,
    effective_rate,
    mixing,
    random_mdp,
    tables_at,
    value_iteration,
)

REUSES = (1, 2, 10)
SPAN = 64  # steps of the longest run, in multiples of t0
SLOWEST = -0.45  # slope that passes for -1/2, because the rate holds in the limit and T is finite
DELTA = 0.05  # the bound holds with probability 1 - δ
REPAIR = 8 / 7  # factor of h with which the theorem holds for every M

# Chains of pairs whose first pair is the rarest and has the same chance from every start; others depend on the start.
REMEMBERS = ((0.1, 0.6, 0.3), (0.1, 0.3, 0.6), (0.1, 0.5, 0.4))
REMEMBERS_NONRETURNABLE = (  # every state has one action and is left by it
    (0, 0.3, 0.3, 0.2, 0.1, 0.1),
    (0, 0, 0.6, 0.2, 0.1, 0.1),
    (0, 0.6, 0, 0.1, 0.1, 0.2),
    (0.1, 0.25, 0.25, 0, 0.1, 0.3),
    (0.1, 0.25, 0.25, 0.3, 0, 0.1),
    (0.1, 0.25, 0.25, 0.1, 0.3, 0),
)


@dataclass(frozen=True)
class Conditions:
    """The theorem's conditions on the learning rate α_t = h / (M (t + t0)), met with equality."""

    h: float
    t0: int
    delay: int  # τ = ⌈log2(2/μ_min)⌉ t_mix
    rarest: float  # μ_min

    @classmethod
    def of(cls, rarest: float, mixing_time: int, gamma: float, factor: float = 1.0) -> "Conditions":
        """Return the smallest h and t0 that the theorem allows, with h ``factor`` times as large."""
        h = factor * 4 / (rarest * (1 - gamma))
        delay = ceil(log2(2 / rarest)) * mixing_time
        return cls(h, ceil(max(4 * h, delay)), delay, rarest)

    def rate(self, t: int | Ints, times: int | Ints, decay: float = 1.0) -> Floats:
        """Return 1-(1-α)^M for α_t = h / (M t0) · (t0 / (t + t0))^decay; the theorem has decay 1."""
        alpha = self.h / (times * self.t0) * (self.t0 / (t + self.t0)) ** decay
        return np.asarray(-np.expm1(times * np.log1p(-alpha)))

    def bound(self, mdp: FiniteMDP, steps: float) -> float:
        """Return the bound on the error with the constants of the proof's last display; it is independent of M."""
        left, late = 1 - mdp.gamma, steps + self.t0
        logarithm = log(2 * (self.delay + 1) * steps**2 * mdp.rewards.size / DELTA)
        first = 72 * sqrt(2 * (self.delay + 1) * self.h / (self.rarest * late) * logarithm)
        second = 4 * max(192 * self.h * self.delay / self.rarest, 2 * (self.delay + self.t0)) / late
        return mdp.reward_bound / left**2 * (first + second)


def example(seed: int) -> tuple[FiniteMDP, Behaviour, Conditions]:
    """Return a random non-returnable MDP with noisy rewards, its chain and the theorem's conditions for it."""
    mdp = random_mdp(np.random.default_rng(seed), 4, 2, gamma=0.8, noise=0.5, nonreturnable=True)
    found = behaviour(mdp)
    return mdp, found, Conditions.of(found.rarest, found.mixing_time, mdp.gamma)


@cache  # two statements use the same runs
def trials(seed: int, rows: int, span: int, decay: float) -> tuple[Floats, Floats]:
    """Return T + t0 at the checkpoints and the errors there, (M, checkpoints, rows).

    One update of rate 1-(1-α)^M replaces each loop of M reuses; both are equal because s' ≠ s always.
    """
    mdp, _, conditions = example(seed)
    checkpoints = [conditions.t0 * span >> k for k in range(4, -1, -1)]

    def rate(t: int, n: Ints) -> Floats:
        return np.repeat(conditions.rate(t, np.array(REUSES), decay), rows)

    tables = tables_at(checkpoints, mdp, rate, 1, len(REUSES) * rows, np.random.default_rng(seed + 1))
    errors = distance(tables, value_iteration(mdp)).reshape(len(checkpoints), -1, rows)
    return np.array(checkpoints) + float(conditions.t0), errors.swapaxes(0, 1)


def finite_time(seed: int = 0, rows: int = 100, span: int = SPAN, decay: float = 1.0) -> Finding:
    """Check that the error falls like 1/√T with the theorem's learning rate, for every M."""
    mdp, found, conditions = example(seed)
    late, errors = trials(seed, rows, span, decay)
    steps = late - conditions.t0
    fits = [slope(late, part) for part in errors]
    below = all(error <= conditions.bound(mdp, T) for T, error in zip(steps, errors.max((0, 2)), strict=True))
    texts = ", ".join(f"{fit.text()} (M = {M})" for M, fit in zip(REUSES, fits, strict=True))
    measured = (
        f"slope of log error over log(T + t0) {texts}, whose intervals must not lie above {SLOWEST:g}; T from "
        f"{steps[0]:,.0f} to {steps[-1]:,.0f}; μ_min {found.rarest:.3f}, t_mix {found.mixing_time}, "
        f"h {conditions.h:.0f}, t0 {conditions.t0:,}"
    )
    # a faster fall satisfies the bound too, so only a significantly slower one contradicts it
    holds = below and all(fit.low <= SLOWEST for fit in fits)
    names = [f"M = {M}: slope {fit.value:.2f}".replace("-", "−") for M, fit in zip(REUSES, fits, strict=True)]
    lines = tuple(line(name, late, part) for name, part in zip(names, errors, strict=True))
    return Finding("finite time: the error falls like 1/√T", measured, holds, lines)


def within(late: Floats, errors: Floats) -> float:
    """Return the exponent of ε in the T + t0 after which 95 % of the runs are within ε, given (checkpoints, runs)."""
    return float(np.polyfit(np.log(np.quantile(errors, 0.95, axis=1)), np.log(late), 1)[0])


def sample_complexity(seed: int = 0, rows: int = 100, span: int = SPAN, decay: float = 1.0) -> Finding:
    """Check that the steps after which 95 % of the runs are within ε grow no faster than 1/ε²."""
    late, errors = trials(seed, rows, span, decay)
    pooled = np.concatenate(list(errors), axis=1)
    exponent = bootstrap(partial(within, late), pooled, np.random.default_rng(seed))
    measured = (
        f"T + t0 grows like ε to the power {exponent.text()}, whose interval must not lie below {1 / SLOWEST:.2f} "
        f"({pooled.shape[1]} runs)"
    )
    return Finding("sample complexity: T grows like 1/ε²", measured, exponent.high >= 1 / SLOWEST)


def bound_is_informative(seed: int = 0, constants: float = 1.0) -> Finding:
    """Check whether the bound, times ``constants``, is below the trivial 2 r_max/(1-γ) at the longest T run here."""
    mdp, _, conditions = example(seed)
    trivial = 2 * mdp.value_bound / constants
    steps = 1.0
    while conditions.bound(mdp, steps) >= trivial:
        steps *= 1.1
    reached = SPAN * conditions.t0
    measured = (
        f"at T = {reached:,} it is {conditions.bound(mdp, reached) / trivial:,.1f} times the trivial "
        f"2 r_max/(1-γ), and falls below that only from T ≈ {steps:.0e} on"
    )
    return Finding("finite time: its bound says more than 2r_max/(1-γ) at the T run here", measured, steps <= reached)


def union_over_steps(seed: int = 0, by_length: bool = False) -> Finding:
    """Check the proof's δ/t: the union over t = τ, …, T may fail with chance δ Σ 1/t, so δ/T would be right."""
    _, _, conditions = example(seed)
    last = SPAN * conditions.t0
    cost = sum(1 / (last if by_length else t) for t in range(conditions.delay, last + 1))
    measured = f"the union over t = {conditions.delay}, …, {last:,} may fail with chance {cost:.2f} δ"
    return Finding("finite time, its proof: replacing δ by δ/t leaves a chance of 1 - δ", measured, cost <= 1)


def dropped_term(reward: float = 0.01) -> Finding:
    """Check whether the corollary may drop the 1/T term, whose share of ε at its T is (1-γ)² ε / r_max."""
    gamma, epsilon, mixing_time, rarest = 0.5, 0.5, 10.0, 0.1
    first = reward * sqrt(mixing_time) / ((1 - gamma) ** 2.5 * rarest)
    second = reward * mixing_time / ((1 - gamma) ** 3 * rarest**2)
    steps = (first / epsilon) ** 2
    share = second / steps / epsilon
    measured = (
        f"for r_max = {reward:g}, γ = {gamma:g}, ε = {epsilon:g} the corollary's T leaves the dropped term at "
        f"{share:.3g} ε; (1-γ)²ε/r_max = {(1 - gamma) ** 2 * epsilon / reward:.3g}"
    )
    return Finding("sample complexity, its proof: the 1/T term can be dropped", measured, share <= 1)


def exploration_condition(seed: int = 0, times: int = 10) -> Finding:
    """Check the proof's condition P(i_t = i | τ steps ago) ≥ M μ_min/2, which no chain satisfies for M > 2."""
    _, found, conditions = example(seed)
    least = float(np.linalg.matrix_power(found.chain, conditions.delay).min())
    measured = (
        f"least chance of a pair after τ = {conditions.delay} steps is {least:.4f}; M = {times} asks for "
        f"{times * conditions.rarest / 2:.4f} of each of {len(found.chain)} pairs; met up to M = "
        f"{2 * least / conditions.rarest:.2f}"
    )
    statement = "finite time: its proof's exploration condition, P ≥ Mμ_min/2"
    return Finding(statement, measured, least >= times * conditions.rarest / 2)


def condition_for_two(chains: tuple[ArrayLike, ...] = (REMEMBERS, REMEMBERS_NONRETURNABLE)) -> Finding:
    """Check the claim that for M = 2 only chains that forget their start after τ steps meet P ≥ Mμ_min/2 = μ_min."""
    short, rarest, others = [], [], []
    for chain in chains:
        found = mixing(np.array(chain, np.float64))
        after = np.linalg.matrix_power(found.chain, Conditions.of(found.rarest, found.mixing_time, 0).delay)
        spread = np.ptp(after, axis=0)  # between starts
        short.append(float(found.rarest - after.min()))
        rarest.append(float(spread[0]))
        others.append(float(spread.max()))
    missing, same, differs = (gap(size, 1e-12) for size in (max(short), max(rarest), min(others)))
    measured = (
        f"examples: {len(chains)}; the least chance after τ steps is μ_min (short by {missing}); between starts the "
        f"chance of the rarest pair differs by {same}, that of another pair by {differs}"
    )
    statement = "finite time: for M = 2 the condition asks a chain to forget its start"
    return Finding(statement, measured, max(others) < 1e-12)


def repaired_rate(largest: float = 0.25, points: int = 1000) -> Finding:
    """Check our repair: t0 ≥ 4h makes Mα ≤ 1/4, where 1-(1-α)^M ≥ (7/8) Mα, so h larger by 8/7 is enough."""
    products = np.linspace(1e-6, largest, points)
    least = min(float((effective_rate(products / times, times) / products).min()) for times in (1, 2, 5, 10, 20, 1000))
    measured = f"least 1-(1-α)^M over Mα is {least:.4f} while Mα ≤ {largest:g}, for M up to 1,000 (7/8 = 0.875)"
    return Finding("finite time, our repair of the proof: 1-(1-α)^M ≥ (7/8) Mα", measured, least >= 7 / 8)


def small_chains_mix(seed: int = 0, states: int = 2) -> Finding:
    """Check whether every non-returnable MDP mixes, as the theorem assumes: with two states none does."""
    mdp = random_mdp(np.random.default_rng(seed), states, 2, nonreturnable=True)
    statement = "finite time (beyond the paper): every non-returnable MDP mixes"
    try:
        return Finding(statement, f"{states} states: t_mix = {behaviour(mdp).mixing_time}", True)
    except SmrlError:
        measured = f"{states} states: every step changes the state, so the chain has period 2 and t_mix does not exist"
        return Finding(statement, measured, False)
