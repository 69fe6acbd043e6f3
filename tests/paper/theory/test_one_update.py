"""The paper's statements about one update, over random MDPs, rates and reuse ratios."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smrl.errors import SmrlError
from smrl.paper.theory import limits, one_update
from smrl.paper.theory.mdp import FiniteMDP, Sample, effective_rate, q_smr_step, random_mdp, value_iteration

seeds = st.integers(0, 2**32 - 1)
rates = st.floats(0, 1)
reuses = st.integers(1, 30)
sizes = st.tuples(st.integers(2, 6), st.integers(1, 4))
gammas = st.floats(0, 0.99)
some = settings(max_examples=100, deadline=None, derandomize=True)


def draw(seed: int, sizes: tuple[int, int], gamma: float) -> tuple[FiniteMDP, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, *sizes, gamma)
    return mdp, rng.uniform(-mdp.value_bound, mdp.value_bound, mdp.rewards.shape), rng


@some
@given(seeds, sizes, gammas, rates, reuses, st.booleans())
def test_loop_is_weighted_sum(
    seed: int, sizes: tuple[int, int], gamma: float, rate: float, times: int, same: bool
) -> None:
    _, table, _ = draw(seed, sizes, gamma)
    sample = Sample(0, 0, 0.5, 0 if same else 1)
    looped = q_smr_step(table, sample, rate, gamma, times)
    assert looped[0, 0] == pytest.approx(one_update.unrolled(table, sample, rate, gamma, times), abs=1e-10)
    looped[0, 0] = table[0, 0]
    np.testing.assert_array_equal(looped, table)  # nothing else is touched


@some
@given(seeds, sizes, gammas, reuses)
def test_values_stay_within_bound(seed: int, sizes: tuple[int, int], gamma: float, times: int) -> None:
    mdp, table, rng = draw(seed, sizes, gamma)
    states, actions = sizes
    for _ in range(30):
        reward = mdp.reward_bound * float(rng.choice([-1, 1]))
        s, after, a = (int(rng.integers(count)) for count in (states, states, actions))
        rate = float(rng.choice([rng.uniform(), 1]))
        table = q_smr_step(table, Sample(s, a, reward, after), rate, gamma, times)
        assert np.abs(table).max() <= mdp.value_bound * (1 + 1e-12)


@some
@given(seeds, sizes, gammas, rates, reuses)
def test_leaving_a_state_is_one_larger_update(
    seed: int, sizes: tuple[int, int], gamma: float, rate: float, times: int
) -> None:
    _, table, _ = draw(seed, sizes, gamma)
    looped = q_smr_step(table, Sample(0, 0, 0.5, 1), rate, gamma, times)
    once = one_update.enlarged_step(table, Sample(0, 0, 0.5, 1), rate, gamma, times)
    np.testing.assert_allclose(looped, once, atol=1e-10)


@some
@given(st.floats(0.1, 0.99), st.floats(0.1, 0.9), st.integers(2, 30))
def test_staying_is_not_one_larger_update(gamma: float, rate: float, times: int) -> None:
    looped = q_smr_step(np.zeros((1, 1)), Sample(0, 0, 1.0, 0), rate, gamma, times)[0, 0]
    # the only state and action: its error shrinks by 1 - α(1-γ) at each reuse
    assert looped == pytest.approx((1 - (1 - rate * (1 - gamma)) ** times) / (1 - gamma), rel=1e-9)
    assert looped > float(effective_rate(rate, times)) + 1e-4


@some
@given(seeds, sizes, gammas, st.floats(0.01, 1), st.booleans())
def test_every_reuse_moves_less_than_the_one_before(
    seed: int, sizes: tuple[int, int], gamma: float, rate: float, same: bool
) -> None:
    _, table, _ = draw(seed, sizes, gamma)
    sample = Sample(0, 0, 0.5, 0 if same else 1)
    tables = [q_smr_step(table, sample, rate, gamma, count) for count in range(1, 6)]
    moves = [np.abs(after - before).max() for before, after in zip([table, *tables], tables, strict=False)]
    for first, then in itertools.pairwise(moves):
        assert then <= (1 - rate * (1 - gamma)) * first + 1e-12


@some
@given(rates, reuses)
def test_effective_rate_within_bounds(rate: float, times: int) -> None:
    effective = float(effective_rate(rate, times))
    assert rate * (1 - 1e-12) <= effective <= min(1, times * rate) * (1 + 1e-12)
    assert effective == pytest.approx(1 - (1 - rate) ** times, abs=1e-12)


@settings(some, max_examples=40)
@given(seeds, sizes, gammas, st.floats(1e-3, 1), st.integers(2, 30), st.floats(0, 1000))
def test_bias_of_reuses_vanishes_with_the_rate(
    seed: int, sizes: tuple[int, int], gamma: float, rate: float, times: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, *sizes, gamma, noise=1.0, normal=True)
    table = value_iteration(mdp) + scale * rng.uniform(-1, 1, sizes)  # rewards and table have no bound
    bound = limits.bias_bound(mdp, table, rate, times)
    assert limits.sampled_bias(mdp, table, rate, times) <= bound + 1e-9 * (1 + scale)


@some
@given(st.floats(0.1, 0.98), st.floats(0.1, 0.9), st.floats(0.01, 0.9), st.integers(2, 30))
def test_constant_rate_is_biased_upwards_only_by_reuse(gamma: float, stay: float, rate: float, times: int) -> None:
    optimal, once = limits.constant_fixed_point(gamma, stay, rate, 1)
    assert once == pytest.approx(optimal, rel=1e-9)
    assert limits.constant_fixed_point(gamma, stay, rate, times)[1] > optimal


@some
@given(st.floats(0.01, 3), st.integers(2, 9))
def test_squared_loss_agrees_with_the_enlarged_rate_only_where_sgd_diverges(rate: float, times: int) -> None:
    reused, enlarged = (1 - 2 * rate) ** times, 1 - 2 * rate * times  # factors of θ - y
    if rate <= 1 or times % 2 == 0:
        assert reused > enlarged


def test_squared_loss_agrees_at_one_divergent_rate() -> None:
    assert (1 - 2 * 1.5) ** 3 == 1 - 2 * 1.5 * 3 == -8
    assert "y -8(θ₀ - y), one step of rate Mα gives y -8(θ₀ - y)" in one_update.never_equal().measured


def test_squared_loss_of_a_root_agrees_at_every_rate() -> None:
    gradient, theta = jax.grad(lambda theta: jnp.sqrt(theta) ** 2), 4.0
    for _ in range(10):
        theta -= 0.05 * float(gradient(theta))
    assert theta == pytest.approx(4 - 10 * 0.05 * float(gradient(4.0)), rel=1e-5)


@some
@given(seeds, sizes, gammas)
def test_value_iteration_solves_bellman(seed: int, sizes: tuple[int, int], gamma: float) -> None:
    mdp, _, _ = draw(seed, sizes, gamma)
    best = value_iteration(mdp)
    np.testing.assert_allclose(best, mdp.rewards + gamma * mdp.transitions @ best.max(1), atol=1e-9)


@pytest.mark.parametrize(("rate", "gamma", "times"), [(0.5, 0.9, 0), (-0.1, 0.9, 1), (1.1, 0.9, 1), (0.5, 1.0, 1)])
def test_bad_update_is_refused(rate: float, gamma: float, times: int) -> None:
    with pytest.raises(SmrlError, match=r"must be .*\.$"):
        q_smr_step(np.zeros((2, 2)), Sample(0, 0, 0.0, 1), rate, gamma, times)


def test_bad_mdp_is_refused() -> None:
    with pytest.raises(SmrlError, match="gamma"):
        random_mdp(np.random.default_rng(0), gamma=1.0)
    with pytest.raises(SmrlError, match="distribution"):
        FiniteMDP(np.ones((2, 1, 2)), np.zeros((2, 1)), 0.9)
