"""Longer studies: how the number of steps grows with 1/(1-γ), 1/μ_min and t_mix, beside the corollary."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smrl.paper.theory.chains import behaviour
from smrl.paper.theory.finding import Finding, Floats, Ints, Line
from smrl.paper.theory.finite import FiniteMDP, random_mdp, value_iteration
from smrl.paper.theory.finite_time import Conditions
from smrl.paper.theory.fits import bootstrap
from smrl.paper.theory.trajectories import distance, tables_at

ROWS, TIMES, SPAN = 150, 10, 32


def conditions_of(mdp: FiniteMDP) -> Conditions:
    """The theorem's conditions for an MDP under the uniform policy."""
    found = behaviour(mdp)
    return Conditions.of(found.rarest, found.mixing_time, mdp.gamma)


def scaling(name: str, x: Sequence[float], mdps: Sequence[FiniteMDP], power: float, seed: int) -> Finding:
    """Exponent of x in the T after which 95 % of the runs are within ε, beside the corollary's ``power``.

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


def in_gamma(seed: int = 0, power: float = 5.0) -> Finding:
    """T over 1/(1-γ), with the same transitions and rewards."""
    gammas = (0.5, 0.7, 0.8, 0.9, 0.95)
    base = random_mdp(np.random.default_rng(seed), 4, 2, noise=0.5, nonreturnable=True)
    mdps = [replace(base, gamma=gamma) for gamma in gammas]
    return scaling("1/(1-γ)", [1 / (1 - gamma) for gamma in gammas], mdps, power, seed)


def in_rarest(seed: int = 0, power: float = 2.0) -> Finding:
    """T over 1/μ_min, in MDPs whose steps lead to each other state alike, so that μ_min = 1/(SA) and t_mix = 1."""
    mdps = []
    for states in (4, 6, 9, 14, 20):
        others = (1 - np.eye(states)) / (states - 1)
        rewards = np.random.default_rng(seed).uniform(-1, 1, (states, 2))
        mdps.append(FiniteMDP(np.repeat(others[:, None], 2, axis=1), rewards, 0.8, 0.5))
    return scaling("1/μ_min", [1 / conditions_of(mdp).rarest for mdp in mdps], mdps, power, seed)


def in_mixing(seed: int = 0, power: float = 1.0) -> Finding:
    """T over t_mix, in MDPs of two groups of three states that are changed with a small chance."""
    rewards = np.random.default_rng(seed).uniform(-1, 1, (6, 2))
    group = np.arange(6) // 3
    same = (group[:, None] == group) & ~np.eye(6, dtype=bool)
    other = group[:, None] != group
    mdps = [
        FiniteMDP(np.repeat((same * (1 - p) / 2 + other * p / 3)[:, None], 2, axis=1), rewards, 0.8, 0.5)
        for p in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    ]
    return scaling("t_mix", [behaviour(mdp).mixing_time for mdp in mdps], mdps, power, seed)
