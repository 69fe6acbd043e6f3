"""The paper's finite-time bound: its conditions, the measured rate of convergence, and where its proof breaks."""

from dataclasses import dataclass
from functools import cache
from math import ceil, log, log2, sqrt

import numpy as np

from smrl.errors import SmrlError, require
from smrl.theory.finite import Behaviour, FiniteMDP, Floats, Ints, behaviour, effective_rate, random_mdp
from smrl.theory.limits import errors_along, line, slopes
from smrl.theory.statements import Finding

REUSES = (1, 2, 10)
SPAN = 64  # steps of the longest run, in multiples of t0


@dataclass(frozen=True)
class Conditions:
    """The theorem's conditions on the learning rate α_t = h / (M (t + t0)), met with equality."""

    h: float
    t0: int
    delay: int  # τ = ⌈log2(2/μ_min)⌉ t_mix
    rarest: float  # μ_min

    @classmethod
    def of(cls, found: Behaviour, gamma: float) -> "Conditions":
        """The smallest h and t0 that the theorem allows."""
        h = 4 / (found.rarest * (1 - gamma))
        delay = ceil(log2(2 / found.rarest)) * found.mixing_time
        return cls(h, ceil(max(4 * h, delay)), delay, found.rarest)

    def rate(self, t: int, times: int) -> float:
        """α_t for the reuse ratio M."""
        require(times >= 1, f"the reuse ratio M must be at least 1, not {times}.")
        return self.h / (times * (t + self.t0))

    def bound(self, mdp: FiniteMDP, steps: float, delta: float = 0.05) -> float:
        """Bound on the error with the constants of the proof's last display, at confidence 1 - δ; independent of M."""
        left, late = 1 - mdp.gamma, steps + self.t0
        logarithm = log(2 * (self.delay + 1) * steps**2 * mdp.rewards.size / delta)
        first = 72 * sqrt(2 * (self.delay + 1) * self.h / (self.rarest * late) * logarithm)
        second = 4 * max(192 * self.h * self.delay / self.rarest, 2 * (self.delay + self.t0)) / late
        return mdp.reward_bound / left**2 * (first + second)


def example(seed: int) -> tuple[FiniteMDP, Behaviour, Conditions]:
    """A random non-returnable MDP with noisy rewards, and the theorem's conditions for it."""
    mdp = random_mdp(np.random.default_rng(seed), 4, 2, gamma=0.8, noise=0.5, nonreturnable=True)
    found = behaviour(mdp)
    return mdp, found, Conditions.of(found, mdp.gamma)


@cache  # two statements use the same runs
def trials(seed: int, rows: int, span: int) -> tuple[Floats, Floats]:
    """T + t0 at the checkpoints, and the errors there, (M, checkpoints, rows), with the theorem's learning rates.

    One update of rate 1-(1-α)^M replaces each loop of M reuses; both are equal because s' ≠ s always.
    """
    mdp, _, conditions = example(seed)
    checkpoints = [conditions.t0 * span >> k for k in range(4, -1, -1)]
    reuses = np.repeat(REUSES, rows)

    def rate(t: int, n: Ints) -> Floats:
        return np.asarray(1 - (1 - conditions.h / (reuses * (t + conditions.t0))) ** reuses)

    errors = errors_along(mdp, rate, 1, checkpoints, len(reuses), np.random.default_rng(seed + 1))
    return np.array(checkpoints) + float(conditions.t0), errors.reshape(len(checkpoints), -1, rows).swapaxes(0, 1)


def finite_time(seed: int = 0, rows: int = 100, span: int = SPAN) -> Finding:
    """The error falls like 1/√T with the theorem's learning rate, for every M."""
    mdp, found, conditions = example(seed)
    late, errors = trials(seed, rows, span)
    steps = late - conditions.t0
    fits = [slopes(late, part) for part in errors]
    below = all(error <= conditions.bound(mdp, T) for T, error in zip(steps, errors.max((0, 2)), strict=True))
    texts = ", ".join(f"{slope:.2f} ± {half:.2f} (M = {M})" for M, (slope, half) in zip(REUSES, fits, strict=True))
    measured = (
        f"slope of log error over log(T + t0) {texts}, T from {steps[0]:,.0f} to {steps[-1]:,.0f}; "
        f"μ_min {found.rarest:.3f}, t_mix {found.mixing_time}, h {conditions.h:.0f}, t0 {conditions.t0:,}"
    )
    # a faster fall satisfies the bound too, so only a significantly slower one contradicts it
    holds = below and all(slope - half <= -0.5 for slope, half in fits)
    names = [f"M = {M}: slope −{-slope:.2f} ± {half:.2f}" for M, (slope, half) in zip(REUSES, fits, strict=True)]
    lines = tuple(line(name, late, part) for name, part in zip(names, errors, strict=True))
    return Finding("finite time: the error falls like 1/√T", measured, holds, lines)


def sample_complexity(seed: int = 0, rows: int = 100, span: int = SPAN) -> Finding:
    """The steps after which 95 % of the runs are within ε grow like 1/ε²."""
    late, errors = trials(seed, rows, span)
    pooled = np.concatenate(list(errors), axis=1)
    rng = np.random.default_rng(seed)
    # the bootstrap draws whole runs, because the errors along one run are correlated
    draws = [pooled] + [pooled[:, rng.integers(pooled.shape[1], size=pooled.shape[1])] for _ in range(500)]
    exponents = [np.polyfit(np.log(np.quantile(draw, 0.95, axis=1)), np.log(late), 1)[0] for draw in draws]
    low, high = np.quantile(exponents[1:], [0.005, 0.995])
    measured = (
        f"T + t0 grows like ε^{exponents[0]:.2f}, 99 % interval [{low:.2f}, {high:.2f}], over {pooled.shape[1]} runs"
    )
    return Finding("sample complexity: T grows like 1/ε²", measured, bool(high >= -2))


def bound_is_informative(seed: int = 0) -> Finding:
    """The T from which the bound is below the trivial one, 2 r_max/(1-γ)."""
    mdp, _, conditions = example(seed)
    steps = 1.0
    while conditions.bound(mdp, steps) >= 2 * mdp.value_bound:
        steps *= 1.1
    reached = SPAN * conditions.t0
    measured = (
        f"at T = {reached:,} it is {conditions.bound(mdp, reached) / (2 * mdp.value_bound):,.0f} times the trivial "
        f"2 r_max/(1-γ), and falls below that only from T ≈ {steps:.0e} on"
    )
    return Finding("finite time: its bound says more than 2r_max/(1-γ) at the T run here", measured, steps <= reached)


def exploration_condition(seed: int = 0) -> Finding:
    """The proof requires P(i_t = i | τ steps ago) ≥ M μ_min/2, which no chain satisfies for large M."""
    _, found, conditions = example(seed)
    least = float(np.linalg.matrix_power(found.chain, conditions.delay).min())
    allowed = 2 * least / conditions.rarest
    measured = (
        f"least chance of a pair after τ = {conditions.delay} steps is {least:.4f}; asked: {conditions.rarest / 2:.4f} "
        f"for M = 1, {5 * conditions.rarest:.4f} for M = 10; met up to M = {allowed:.2f}"
    )
    return Finding("finite time: its proof's exploration condition, P ≥ Mμ_min/2", measured, allowed >= 10)


def repaired_rate(points: int = 1000) -> Finding:
    """Our repair: t0 ≥ 4h makes Mα ≤ 1/4, where 1-(1-α)^M ≥ (7/8) Mα, so h larger by 8/7 is enough."""
    products = np.linspace(1e-6, 0.25, points)
    least = min(float((effective_rate(products / times, times) / products).min()) for times in (1, 2, 5, 10, 20, 1000))
    measured = f"least 1-(1-α)^M over Mα is {least:.4f}, for M up to 1,000 (7/8 = 0.875)"
    return Finding(
        "finite time, our repair of the proof: 1-(1-α)^M ≥ (7/8) Mα while Mα ≤ 1/4", measured, least >= 7 / 8
    )


def two_states_mix(seed: int = 0) -> Finding:
    """Not every non-returnable MDP mixes, as the theorem assumes: with two states none does."""
    mdp = random_mdp(np.random.default_rng(seed), 2, 2, nonreturnable=True)
    statement = "finite time (beyond the paper): every non-returnable MDP mixes"
    try:
        return Finding(statement, f"two states mix in {behaviour(mdp).mixing_time} steps", True)
    except SmrlError:
        measured = "with two states every step changes the state, so the chain has period 2 and t_mix does not exist"
        return Finding(statement, measured, False)
