"""The paper's statements, over random MDPs, rates and reuse ratios."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smrl.cli import theory as command
from smrl.errors import SmrlError
from smrl.theory import finite_time, limits, statements
from smrl.theory.finite import (
    FiniteMDP,
    behaviour,
    effective_rate,
    q_smr_step,
    random_mdp,
    value_iteration,
)

seeds = st.integers(0, 2**32 - 1)
rates = st.floats(0, 1)
reuses = st.integers(1, 30)
sizes = st.tuples(st.integers(2, 6), st.integers(1, 4))
gammas = st.floats(0, 0.99)
some = settings(max_examples=100, deadline=None, derandomize=True)
few = settings(max_examples=5, deadline=None, derandomize=True)


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
    after = 0 if same else 1
    looped = q_smr_step(table, 0, 0, 0.5, after, rate, gamma, times)
    assert looped[0, 0] == pytest.approx(statements.unrolled(table, 0, 0, 0.5, after, rate, gamma, times), abs=1e-10)
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
        table = q_smr_step(table, s, a, reward, after, float(rng.choice([rng.uniform(), 1])), gamma, times)
        assert np.abs(table).max() <= mdp.value_bound * (1 + 1e-12)


@some
@given(seeds, sizes, gammas, rates, reuses)
def test_leaving_a_state_is_one_larger_update(
    seed: int, sizes: tuple[int, int], gamma: float, rate: float, times: int
) -> None:
    _, table, _ = draw(seed, sizes, gamma)
    looped = q_smr_step(table, 0, 0, 0.5, 1, rate, gamma, times)
    once = q_smr_step(table, 0, 0, 0.5, 1, effective_rate(rate, times), gamma, 1)
    np.testing.assert_allclose(looped, once, atol=1e-10)


@some
@given(st.floats(0.1, 0.99), st.floats(0.1, 0.9), st.integers(2, 30))
def test_staying_is_not_one_larger_update(gamma: float, rate: float, times: int) -> None:
    looped = q_smr_step(np.zeros((1, 1)), 0, 0, 1.0, 0, rate, gamma, times)[0, 0]
    # the only state and action: its error shrinks by 1 - α(1-γ) at each reuse
    assert looped == pytest.approx((1 - (1 - rate * (1 - gamma)) ** times) / (1 - gamma), rel=1e-9)
    assert looped > float(effective_rate(rate, times)) + 1e-4


@some
@given(rates, reuses)
def test_effective_rate_within_bounds(rate: float, times: int) -> None:
    effective = float(effective_rate(rate, times))
    assert rate * (1 - 1e-12) <= effective <= min(1, times * rate) * (1 + 1e-12)
    assert effective == pytest.approx(1 - (1 - rate) ** times, abs=1e-12)


@some
@given(st.floats(1e-9, 0.25), st.integers(1, 1000))
def test_repaired_rate(product: float, times: int) -> None:
    assert float(effective_rate(product / times, times)) >= 7 / 8 * product


@some
@given(seeds, sizes, gammas, st.floats(1e-3, 1), reuses)
def test_bias_of_reuses_vanishes_with_the_rate(
    seed: int, sizes: tuple[int, int], gamma: float, rate: float, times: int
) -> None:
    mdp, table, _ = draw(seed, sizes, gamma)
    bound = gamma * (times - 1) * rate * 2 * mdp.value_bound
    assert limits.sampled_bias(mdp, table, rate, times) <= bound + 1e-9


@some
@given(st.floats(0.1, 0.98), st.floats(0.1, 0.9), st.floats(0.01, 0.9), st.integers(2, 30))
def test_constant_rate_is_biased_upwards_only_by_reuse(gamma: float, stay: float, rate: float, times: int) -> None:
    optimal, once = limits.constant_fixed_point(gamma, stay, rate, 1)
    assert once == pytest.approx(optimal, rel=1e-9)
    assert limits.constant_fixed_point(gamma, stay, rate, times)[1] > optimal


@few
@given(seeds, st.integers(1, 10))
def test_error_falls_with_decaying_rates(seed: int, times: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 3, 2, gamma=0.6, noise=0.3, stay=0.3)
    errors = limits.errors_along(
        mdp, lambda t, n: np.power(1.0 + n, -0.8, dtype=np.float64), times, [16, 6000], 20, rng
    )
    assert errors[1].mean() < 0.5 * errors[0].mean()


@few
@given(st.integers(0, 10_000), st.integers(2, 10), st.floats(0.01, 0.1))
def test_reuse_of_sgd_is_the_sum_of_gradients(seed: int, times: int, rate: float) -> None:
    assert statements.deep_sum(seed, times, rate).holds


@some
@given(seeds, sizes, gammas)
def test_value_iteration_solves_bellman(seed: int, sizes: tuple[int, int], gamma: float) -> None:
    mdp, _, _ = draw(seed, sizes, gamma)
    best = value_iteration(mdp)
    np.testing.assert_allclose(best, mdp.rewards + gamma * mdp.transitions @ best.max(1), atol=1e-9)


@some
@given(seeds, st.integers(3, 6), st.integers(1, 3))
def test_behaviour_of_nonreturnable(seed: int, states: int, actions: int) -> None:
    mdp = random_mdp(np.random.default_rng(seed), states, actions, nonreturnable=True)
    assert not mdp.transitions[np.arange(states), :, np.arange(states)].any()
    found = behaviour(mdp)
    np.testing.assert_allclose(found.stationary @ found.chain, found.stationary, atol=1e-10)
    away = np.abs(np.linalg.matrix_power(found.chain, found.mixing_time) - found.stationary).sum(1) / 2
    assert away.max() <= 0.25
    # μ_min is an average of these chances over the starts, so asking for M μ_min/2 of the least is too much for M > 2
    delay = finite_time.Conditions.of(found, mdp.gamma).delay
    assert found.rarest / 2 <= np.linalg.matrix_power(found.chain, delay).min() <= found.rarest * (1 + 1e-9)


def test_error_falls_like_root_of_steps() -> None:
    finding = finite_time.finite_time(seed=0, rows=60, span=16)
    assert finding.holds, finding.measured


def test_statements_that_fail() -> None:
    for finding in (
        statements.deep_never_equal(),
        finite_time.exploration_condition(),
        finite_time.two_states_mix(),
        limits.constant_rate_bias(rows=500),
    ):
        assert not finding.holds, finding.measured


@pytest.mark.parametrize(("rate", "gamma", "times"), [(0.5, 0.9, 0), (-0.1, 0.9, 1), (1.1, 0.9, 1), (0.5, 1.0, 1)])
def test_bad_update_is_refused(rate: float, gamma: float, times: int) -> None:
    with pytest.raises(SmrlError, match=r"must be .*\.$"):
        q_smr_step(np.zeros((2, 2)), 0, 0, 0.0, 1, rate, gamma, times)


def test_bad_mdp_is_refused() -> None:
    with pytest.raises(SmrlError, match="gamma"):
        random_mdp(np.random.default_rng(0), gamma=1.0)
    with pytest.raises(SmrlError, match="distribution"):
        FiniteMDP(np.ones((2, 1, 2)), np.zeros((2, 1)), 0.9)


def test_command_prints_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = (
        lambda seed: statements.effective_rates(),
        lambda seed: limits.convergence(seed, steps=512, rows=4),
        lambda seed: finite_time.finite_time(seed, rows=4, span=2),
    )
    monkeypatch.setattr(command, "STATEMENTS", quick)
    command.run(["--seed", "1", "--runs", str(tmp_path)])
    assert capsys.readouterr().out.count("hold") == 3
    names = {"effective-rate.png", "convergence.png", "finite-time.png"}
    assert {path.name for path in (tmp_path / "theory").iterdir()} == names


def test_command_refuses_a_bad_seed() -> None:
    with pytest.raises(SmrlError, match="seed"):
        command.run(["--seed", "-1"])
