"""Longer studies: the theorem's learning rate beside the rates n^-ω of the earlier bounds in the paper's remark."""

from dataclasses import replace
from functools import partial

import numpy as np

from smrl.paper.theory.finding import Finding, Floats, Ints
from smrl.paper.theory.finite import random_mdp, value_iteration
from smrl.paper.theory.finite_time import within
from smrl.paper.theory.fits import Interval, bootstrap
from smrl.paper.theory.scaling import ROWS, conditions_of
from smrl.paper.theory.trajectories import distance, tables_at

Omega = float | None  # of the rate 1/(1+n)^ω after n visits; None is the theorem's rate
OMEGAS: tuple[Omega, ...] = (0.8, 0.77)
EPSILON = 0.25


def name_of(omega: Omega) -> str:
    """A rate in words."""
    return "the theorem's rate" if omega is None else f"n^-{omega:g}"


def errors_with(omegas: tuple[Omega, ...], gamma: float, checkpoints: list[int], seed: int) -> tuple[int, Floats]:
    """t0 of the theorem's rate, and the errors of Q-learning with each rate, (rates, checkpoints, runs)."""
    mdp = replace(random_mdp(np.random.default_rng(seed), 4, 2, noise=0.5, nonreturnable=True), gamma=gamma)
    case = conditions_of(mdp)
    powers = np.repeat([omega or 0.0 for omega in omegas], ROWS)

    def rate(t: int, n: Ints) -> Floats:
        return np.where(powers > 0, (1.0 + n) ** -powers, case.rate(t, 1))

    tables = tables_at(checkpoints, mdp, rate, 1, len(powers), np.random.default_rng(seed))
    return case.t0, distance(tables, value_iteration(mdp)).reshape(len(checkpoints), -1, ROWS).swapaxes(0, 1)


def in_epsilon(seed: int = 0, numerator: float = 2.0) -> Finding:
    """T grows like ε^(-2/ω) with the rates n^-ω, and like ε^-2 with the theorem's; ``numerator`` is the 2."""
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


def in_gamma(seed: int = 0, omegas: tuple[Omega, ...] = OMEGAS) -> Finding:
    """With the theorem's rate T grows more slowly in 1/(1-γ) than with the rates n^-ω, at the same ε."""
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
    """T from which 95 % of the runs are within ε, interpolated in logarithms; the errors are (checkpoints, runs)."""
    high = np.log(np.quantile(errors, 0.95, axis=1))
    last = int(np.flatnonzero(high > np.log(EPSILON)).max(initial=0))
    pair = slice(last, last + 2)
    return float(np.exp(np.interp(-np.log(EPSILON), -high[pair], np.log(steps[pair]))))
