"""Where the proof of the finite-time bound breaks for M ≥ 2, and how it can be repaired."""

import numpy as np
from numpy.typing import ArrayLike

from smrl.errors import SmrlError
from smrl.paper.theory.chains import behaviour, mixing
from smrl.paper.theory.finding import Finding, gap
from smrl.paper.theory.finite import effective_rate, random_mdp
from smrl.paper.theory.finite_time import Conditions, example

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


def exploration_condition(seed: int = 0, times: int = 10) -> Finding:
    """The proof requires P(i_t = i | τ steps ago) ≥ M μ_min/2, which no chain satisfies for M > 2."""
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
    """The claim that for M = 2 only chains that forget their start after τ steps meet P ≥ Mμ_min/2 = μ_min."""
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
    """Our repair: t0 ≥ 4h makes Mα ≤ 1/4, where 1-(1-α)^M ≥ (7/8) Mα, so h larger by 8/7 is enough."""
    products = np.linspace(1e-6, largest, points)
    least = min(float((effective_rate(products / times, times) / products).min()) for times in (1, 2, 5, 10, 20, 1000))
    measured = f"least 1-(1-α)^M over Mα is {least:.4f} while Mα ≤ {largest:g}, for M up to 1,000 (7/8 = 0.875)"
    return Finding("finite time, our repair of the proof: 1-(1-α)^M ≥ (7/8) Mα", measured, least >= 7 / 8)


def small_chains_mix(seed: int = 0, states: int = 2) -> Finding:
    """Not every non-returnable MDP mixes, as the theorem assumes: with two states none does."""
    mdp = random_mdp(np.random.default_rng(seed), states, 2, nonreturnable=True)
    statement = "finite time (beyond the paper): every non-returnable MDP mixes"
    try:
        return Finding(statement, f"{states} states: t_mix = {behaviour(mdp).mixing_time}", True)
    except SmrlError:
        measured = f"{states} states: every step changes the state, so the chain has period 2 and t_mix does not exist"
        return Finding(statement, measured, False)
