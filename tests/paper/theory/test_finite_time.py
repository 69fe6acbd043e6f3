"""The conditions and lemmas of the finite-time bound, over random chains and constants."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from smrl.paper.theory import lemmas
from smrl.paper.theory.finite_time import REMEMBERS, REMEMBERS_NONRETURNABLE, Conditions, within
from smrl.paper.theory.mdp import behaviour, effective_rate, mixing, random_mdp
from smrl.paper.theory.scaling import arrival

some = settings(max_examples=100, deadline=None, derandomize=True)


@some
@given(st.integers(0, 2**32 - 1), st.integers(3, 6), st.integers(1, 3))
def test_behaviour_of_nonreturnable(seed: int, states: int, actions: int) -> None:
    mdp = random_mdp(np.random.default_rng(seed), states, actions, nonreturnable=True)
    assert not mdp.transitions[np.arange(states), :, np.arange(states)].any()
    found = behaviour(mdp)
    np.testing.assert_allclose(found.stationary @ found.chain, found.stationary, atol=1e-10)
    away = np.abs(np.linalg.matrix_power(found.chain, found.mixing_time) - found.stationary).sum(1) / 2
    assert away.max() <= 0.25
    # μ_min is an average of these chances over the starts, so asking for M μ_min/2 of the least is too much for M > 2
    delay = Conditions.of(found.rarest, found.mixing_time, mdp.gamma).delay
    assert found.rarest / 2 <= np.linalg.matrix_power(found.chain, delay).min() <= found.rarest * (1 + 1e-9)


@pytest.mark.parametrize("rows", [REMEMBERS, REMEMBERS_NONRETURNABLE])
def test_chains_that_meet_the_condition_for_two_remember_their_start(rows: tuple[tuple[float, ...], ...]) -> None:
    found = mixing(np.array(rows))
    assert found.stationary.argmin() == 0
    for steps in (2, 5, 9):
        after = np.linalg.matrix_power(found.chain, steps)
        np.testing.assert_allclose(after[:, 0], found.rarest, atol=1e-12)
        assert after.min() >= found.rarest - 1e-12
        assert np.ptp(after, axis=0).max() > 1e-7
    assert rows is REMEMBERS or not np.diag(found.chain).any()


@some
@given(st.floats(1e-9, 0.25), st.integers(1, 1000))
def test_repaired_rate(product: float, times: int) -> None:
    assert float(effective_rate(product / times, times)) >= 7 / 8 * product


@some
@given(st.floats(0.01, 0.5), st.integers(1, 50), st.floats(0, 0.999), st.integers(1, 10**7), st.floats(1e-6, 0.99))
def test_last_step_of_the_lemma_on_epsilon(rarest: float, mixing: int, gamma: float, later: int, delta: float) -> None:
    case = Conditions.of(rarest, mixing, gamma)
    t = case.delay + later
    inside = (case.delay + 1) * case.h / (rarest / 2 * (t + 1 + case.t0)) * np.log(2 * (case.delay + 1) * t / delta)
    assert case.h / (t + case.t0) <= 2 * np.sqrt(inside)


@some
@given(st.floats(0.02, 0.5), st.integers(1, 30), st.floats(0.05, 0.97), st.integers(1, 30), st.integers(2, 3000))
def test_lemma_on_beta_with_the_repair(rarest: float, mixing: int, gamma: float, times: int, later: int) -> None:
    case = Conditions.of(rarest, mixing, gamma, factor=8 / 7)
    sigma = rarest / 2
    assert max(lemmas.beta_shares(case, times, sigma, 7 / 8 * sigma, case.delay + later)) <= 1 + 1e-9


@some
@given(st.floats(0.02, 0.19), st.integers(1, 30), st.floats(0.05, 0.97), st.integers(1, 10), st.integers(2, 3000))
def test_lemma_on_beta_as_printed(rarest: float, mixing: int, gamma: float, times: int, later: int) -> None:
    case = Conditions.of(rarest, mixing, gamma)
    sigma = rarest / 2
    assert max(lemmas.beta_shares(case, times, times * sigma, sigma, case.delay + later)) <= 1 + 1e-9


def test_weights_of_the_lemma_on_beta_by_a_plain_loop() -> None:
    case, times, chance, last = Conditions.of(0.2, 2, 0.5), 3, 0.1, 40
    rates = [float(case.rate(t, times)) for t in range(last + 1)]
    beta = [rates[k] * np.prod([1 - chance * rates[j] for j in range(k + 1, last + 1)]) for k in range(last + 1)]
    late, tau = last + 1 + case.t0, case.delay
    squares = sum(each**2 for each in beta[1:])
    lagged = sum(beta[k] * sum(rates[j - 1] for j in range(k - tau + 1, k + 1)) for k in range(tau, last + 1))
    _, part_b, part_c = lemmas.beta_shares(case, times, chance, chance, last)
    assert part_b == pytest.approx(squares * late * chance / (2 * case.h))
    assert part_c == pytest.approx(lagged * late * chance / (8 * case.h * tau))


@some
@given(st.floats(1e-4, 1), st.floats(0, 0.99), st.floats(1e-3, 1))
def test_dropped_term_is_within_a_constant_where_the_bound_is_not_trivial(
    reward: float, gamma: float, epsilon: float
) -> None:
    share = (1 - gamma) ** 2 * epsilon / reward  # of ε, at the corollary's T
    assume(epsilon <= 2 * reward / (1 - gamma))  # beyond that every table is within ε
    assert share <= 2 * (1 - gamma) * (1 + 1e-9)


def test_powers_of_epsilon_and_arrival() -> None:
    steps = np.geomspace(100, 100_000, 13)
    errors = 20 * steps[:, None] ** -0.4 * np.ones(5)
    assert within(steps, errors) == pytest.approx(-2.5)
    assert arrival(steps, errors) == pytest.approx((20 / 0.25) ** 2.5, rel=1e-6)
