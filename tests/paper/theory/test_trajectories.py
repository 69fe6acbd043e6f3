"""Runs along trajectories, and the limits that are fitted to them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smrl.paper.theory.finding import Floats, Interval, Ints, bootstrap, limit, line, slope
from smrl.paper.theory.mdp import FiniteMDP, Sample, distance, play, q_smr_step, random_mdp, tables_at, value_iteration


def visits_rate(t: int, n: Ints) -> Floats:
    return 1 / (1.0 + n)


def test_runs_are_the_updates_of_their_transitions() -> None:
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, 3, 2, noise=0.2, stay=0.3)
    tables = np.zeros((4, 3, 2))
    counted, again = np.zeros((4, 3, 2)), np.zeros((4, 3, 2))
    for sample in play(mdp, visits_rate, 3, 200, tables, rng):
        for row in range(4):
            s, a, r, after = (np.broadcast_to(part, 4)[row] for part in sample)
            one = Sample(int(s), int(a), float(r), int(after))
            again[row] = q_smr_step(again[row], one, 1 / (1 + counted[row, s, a]), mdp.gamma, 3)
            counted[row, s, a] += 1
        np.testing.assert_allclose(tables, again, atol=1e-12)


def test_transitions_and_rewards_have_their_distributions() -> None:
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, 3, 2, noise=0.5, nonreturnable=True)
    seen, rewards = np.zeros((3, 2, 3)), np.zeros((3, 2))
    for sample in play(mdp, visits_rate, 1, 500, np.zeros((200, 3, 2)), rng):
        state, action, reward, after = map(np.asarray, sample)
        np.add.at(seen, (state, action, after), 1)
        np.add.at(rewards, (state, action), reward)
    counts = seen.sum(-1)
    np.testing.assert_allclose(seen / counts[..., None], mdp.transitions, atol=0.02)
    np.testing.assert_allclose(rewards / counts, mdp.rewards, atol=0.02)
    assert not seen[np.arange(3), :, np.arange(3)].any()  # s' ≠ s


@settings(max_examples=5, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 10))
def test_runs_converge_to_the_optimum(seed: int, times: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 3, 2, gamma=0.6, noise=0.3, stay=0.3)
    checkpoints = [256 << k for k in range(6)]
    tables = tables_at(checkpoints, mdp, visits_rate, times, 40, rng)
    ends = [
        limit(np.array(checkpoints, float), distance(tables, value_iteration(mdp) + wrong).mean(1))
        for wrong in (0, 0.25, -0.25)
    ]
    assert ends[0] < 0.125 < min(ends[1:]), ends


@pytest.mark.parametrize(("end", "power"), [(0.0, 0.3), (0.0, 0.5), (0.05, 0.4), (0.25, 0.5), (1.0, 0.8)])
def test_limit_is_that_of_a_power_law(end: float, power: float) -> None:
    x = np.geomspace(100, 10_000, 9)
    assert limit(x, end + 3 * x**-power) == pytest.approx(end, abs=1e-3)


def test_limit_is_not_negative() -> None:
    x = np.geomspace(100, 10_000, 9)
    assert limit(x, 1 / np.log(x) ** 3 - 0.001) == 0


def test_interval_narrows_with_the_runs_and_covers() -> None:
    rng = np.random.default_rng(0)
    x = np.geomspace(10, 1000, 5)
    few, many = (slope(x, x[:, None] ** -0.5 * np.exp(0.2 * rng.standard_normal((5, runs)))) for runs in (20, 2000))
    assert many.low < -0.5 < many.high
    assert many.high - many.low < 0.3 * (few.high - few.low)
    mean = bootstrap(lambda drawn: float(drawn.mean()), rng.normal(1, 1, (1, 400)), rng)
    assert mean.low < 1 < mean.high
    assert mean.high - mean.low == pytest.approx(2 * 2.576 / 20, rel=0.2)


def test_line_uses_the_sample_standard_deviation() -> None:
    drawn = line("", np.ones(1), np.array([[1.0, 3.0]]))
    assert drawn.high is not None
    assert drawn.high[0] == pytest.approx(2 + 2.576 * np.sqrt(2) / np.sqrt(2))


def test_interval_has_no_negative_zero() -> None:
    assert Interval(-0.001, -0.2, 0.1).text() == "0.00 [-0.20, 0.10]"


def test_normal_rewards_have_no_bound() -> None:
    assert FiniteMDP(np.ones((1, 1, 1)), np.zeros((1, 1)), 0.5, 1.0, normal=True).value_bound == np.inf
