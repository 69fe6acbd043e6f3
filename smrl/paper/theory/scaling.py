"""Longer studies: how the number of steps grows with 1/(1-γ), 1/μ_min, t_mix and 1/ε, beside the paper's claims."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from smrl.paper.theory.finding import Finding, Floats, Interval, Ints, Line, bootstrap
from smrl.paper.theory.finite_time import Conditions, within
from smrl.paper.theory.mdp import FiniteMDP, behaviour, distance, random_mdp, tables_at, value_iteration

ROWS, TIMES, SPAN = 150, 10, 32

Omega = float | None  # of the rate 1/(1+n)^ω after n visits; None is the theorem's rate
OMEGAS: tuple[Omega, ...] = (0.8, 0.77)
EPSILON = 0.25


def conditions_of(mdp: FiniteMDP) -> Conditions:
    """Return the theorem's conditions for an MDP under the uniform policy."""
    found = behaviour(mdp)
    return Conditions.of(found.rarest, found.mixing_time, mdp.gamma)


def growth(name: str, x: Sequence[float], mdps: Sequence[FiniteMDP], power: float, seed: int) -> Finding:
    """Measure the exponent of x in the T after which 95 % of the runs are within ε, beside the corollary's ``power``.

    The errors are taken at T = 32 t0, where they fall like 1/√T, so that T·ε² is (T + t0) times their squared quantile.
    """
    found = []
    for mdp in mdps:
        case = conditions_of(mdp)

        def rate(t: int, n: Ints, case: Conditions = case) -> Floats:
            return case.rate(t, TIMES)

        tables = tables_at([SPAN * case.t0], mdp, rate, 1, ROWS, np.random.default_rng(seed))
        found.append(distance(tables, value_iteration(mdp))[0] * np.sqrt((SPAN + 1) * case.t0))
    sizes, values = np.array(found), np.array(x, np.float64)

    def exponent(drawn: Floats) -> float:
        return float(np.polyfit(np.log(values), 2 * np.log(np.quantile(drawn, 0.95, axis=1)), 1)[0])

    grown = bootstrap(exponent, sizes, np.random.default_rng(seed))
    measured = (
        f"T grows like the power {grown.text()} of {name}, from {values[0]:.3g} to {values[-1]:.3g}; the corollary has "
        f"the power {power:g} ({ROWS} runs each, M = {TIMES})"
    )
    steps = np.quantile(sizes, 0.95, axis=1) ** 2
    corollary = steps[0] * (values / values[0]) ** power
    lines = (
        Line("measured", values, steps),
        Line(f"power {power:g} of the corollary, from the first point", values, corollary),
    )
    return Finding(f"scaling: T grows with {name} no faster than in the corollary", measured, grown.low <= power, lines)


def over_gamma(seed: int = 0, power: float = 5.0) -> Finding:
    """Measure T over 1/(1-γ), with the same transitions and rewards."""
    gammas = (0.5, 0.7, 0.8, 0.9, 0.95)
    base = random_mdp(np.random.default_rng(seed), 4, 2, noise=0.5, nonreturnable=True)
    mdps = [replace(base, gamma=gamma) for gamma in gammas]
    return growth("1/(1-γ)", [1 / (1 - gamma) for gamma in gammas], mdps, power, seed)


def over_rarest(seed: int = 0, power: float = 2.0) -> Finding:
    """Measure T over 1/μ_min in MDPs whose steps lead to all other states alike, so μ_min = 1/(SA) and t_mix = 1."""
    mdps = []
    for states in (4, 6, 9, 14, 20):
        others = (1 - np.eye(states)) / (states - 1)
        rewards = np.random.default_rng(seed).uniform(-1, 1, (states, 2))
        mdps.append(FiniteMDP(np.repeat(others[:, None], 2, axis=1), rewards, 0.8, 0.5))
    return growth("1/μ_min", [1 / conditions_of(mdp).rarest for mdp in mdps], mdps, power, seed)


def over_mixing(seed: int = 0, power: float = 1.0) -> Finding:
    """Measure T over t_mix in MDPs of two groups of three states, between which steps lead with a small chance."""
    rewards = np.random.default_rng(seed).uniform(-1, 1, (6, 2))
    group = np.arange(6) // 3
    same = (group[:, None] == group) & ~np.eye(6, dtype=bool)
    other = group[:, None] != group
    mdps = [
        FiniteMDP(np.repeat((same * (1 - p) / 2 + other * p / 3)[:, None], 2, axis=1), rewards, 0.8, 0.5)
        for p in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    ]
    return growth("t_mix", [behaviour(mdp).mixing_time for mdp in mdps], mdps, power, seed)


def name_of(omega: Omega) -> str:
    """Name a learning rate."""
    return "the theorem's rate" if omega is None else f"n^-{omega:g}"


def errors_with(omegas: tuple[Omega, ...], gamma: float, checkpoints: list[int], seed: int) -> tuple[int, Floats]:
    """Return t0 of the theorem's rate and the errors of Q-learning with each rate, (rates, checkpoints, runs)."""
    mdp = replace(random_mdp(np.random.default_rng(seed), 4, 2, noise=0.5, nonreturnable=True), gamma=gamma)
    case = conditions_of(mdp)
    powers = np.repeat([omega or 0.0 for omega in omegas], ROWS)

    def rate(t: int, n: Ints) -> Floats:
        return np.where(powers > 0, (1.0 + n) ** -powers, case.rate(t, 1))

    tables = tables_at(checkpoints, mdp, rate, 1, len(powers), np.random.default_rng(seed))
    return case.t0, distance(tables, value_iteration(mdp)).reshape(len(checkpoints), -1, ROWS).swapaxes(0, 1)


def rates_over_epsilon(seed: int = 0, numerator: float = 2.0) -> Finding:
    """Check that T grows like ε^(-2/ω) with the rates n^-ω and ε^-2 with the theorem's; ``numerator`` is the 2."""
    omegas = (None, *OMEGAS)
    checkpoints = [round(2 ** (k / 2)) for k in range(24, 35)]
    t0, errors = errors_with(omegas, 0.5, checkpoints, seed)
    rng = np.random.default_rng(seed)
    found: list[tuple[Omega, float, Interval]] = []
    for omega, part in zip(omegas, errors, strict=True):
        late = np.array(checkpoints, np.float64) + (t0 if omega is None else 0)
        found.append((omega, -numerator / (omega or 1), bootstrap(partial(within, late), part, rng)))
    texts = (f"{each.text()} with {name_of(omega)} (claimed {claimed:.2f})" for omega, claimed, each in found)
    measured = f"T grows like ε to the power {', '.join(texts)}; γ = 0.5, M = 1, {ROWS} runs each"
    holds = all(each.low <= claimed <= each.high for _, claimed, each in found)
    return Finding("learning rates: T grows like ε^(-2/ω) with n^-ω", measured, holds)


def rates_over_gamma(seed: int = 0, omegas: tuple[Omega, ...] = OMEGAS) -> Finding:
    """Check that T grows more slowly in 1/(1-γ) with the theorem's rate than with the rates n^-ω, at the same ε."""
    gammas = (0.8, 0.9)
    checkpoints = [round(2 ** (k / 2)) for k in range(19, 36)]
    errors = np.stack([errors_with((None, *omegas), gamma, checkpoints, seed)[1] for gamma in gammas], axis=1)
    rng, at = np.random.default_rng(seed), np.array(checkpoints, np.float64)
    scale = np.log((1 - gammas[0]) / (1 - gammas[1]))

    def exponent(drawn: Floats) -> float:
        few, many = (arrival(at, part) for part in drawn)
        return float(np.log(many / few) / scale)

    found = [bootstrap(exponent, part, rng) for part in errors]
    steps = [[arrival(at, each) for each in part] for part in errors]
    texts = (
        f"{each.text(1)} with {name_of(omega)} (T = {float(f'{few:.2g}'):,.0f}, {float(f'{many:.2g}'):,.0f})"
        for omega, each, (few, many) in zip((None, *omegas), found, steps, strict=True)
    )
    measured = (
        f"from γ = {gammas[0]:g} to {gammas[1]:g} the T within ε = {EPSILON:g} grows like the power {', '.join(texts)} "
        f"of 1/(1-γ); M = 1, {ROWS} runs each"
    )
    holds = all(found[0].high < each.low for each in found[1:])
    return Finding("learning rates: T grows faster in 1/(1-γ) with n^-ω than with the theorem's rate", measured, holds)


def arrival(steps: Floats, errors: Floats) -> float:
    """Return the T from which 95 % of the runs are within ε, interpolated in logarithms, given (checkpoints, runs)."""
    high = np.log(np.quantile(errors, 0.95, axis=1))
    last = int(np.flatnonzero(high > np.log(EPSILON)).max(initial=0))
    pair = slice(last, last + 2)
    return float(np.exp(np.interp(-np.log(EPSILON), -high[pair], np.log(steps[pair]))))
