"""Statistics over seeds against numbers computed by hand and by rliable."""

import math

import numpy as np
import pytest

from smrl.errors import SmrlError
from smrl.statistics import (
    area_under_curve,
    bootstrap_interval,
    iqm,
    mean_sd,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    return_at,
    steps_to,
)

# rliable 1.2.0 with arch 7.2.0 and NumPy 2.4.6, for the scores below:
#   metrics.aggregate_iqm, metrics.aggregate_optimality_gap, metrics.probability_of_improvement and
#   library.get_interval_estimates(…, reps=20000) and library.create_performance_profile(…, reps=20000)
OURS = np.array([[0.1, 0.9, 0.4], [0.3, 1.2, 0.5], [0.2, 0.8, 0.45], [0.6, 1.0, 0.3], [0.05, 0.7, 0.9]])
THEIRS = np.array([[0.2, 0.5, 0.4], [0.1, 0.6, 0.2], [0.15, 0.8, 0.1], [0.3, 0.4, 0.3]])
STEP = 0.02  # how far the ends of two intervals may be apart: their resamples differ


def test_mean_and_sample_deviation() -> None:
    mean, sd = mean_sd([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
    np.testing.assert_allclose(mean, [4, 5])
    np.testing.assert_allclose(sd, [13**0.5, 0])  # (9 + 1 + 16) ÷ (3 − 1)
    assert math.isnan(mean_sd([2.0])[1])


def test_iqm_drops_a_quarter_at_either_end() -> None:
    assert iqm([[5.0]]) == 5
    assert iqm([[1.0], [2.0], [9.0]]) == 4  # a quarter of three runs is none
    assert iqm([[8.0, 1.0], [3.0, 2.0], [100.0, 4.0], [-50.0, 6.0]]) == (2 + 3 + 4 + 6) / 4


def test_point_estimates_equal_those_of_rliable() -> None:
    np.testing.assert_allclose([iqm(OURS), iqm(THEIRS)], [0.55, 0.3])
    np.testing.assert_allclose([optimality_gap(OURS), optimality_gap(THEIRS)], [0.45333333333, 0.6625])
    np.testing.assert_allclose(probability_of_improvement(OURS, THEIRS), 0.78333333333)
    profile = performance_profile(OURS, [0, 0.2, 0.5, 0.8, 1])
    np.testing.assert_allclose(profile, np.array([15, 12, 7, 4, 1]) / 15)


@pytest.mark.parametrize(
    ("found", "low", "high"),
    [
        (bootstrap_interval(iqm, OURS, resamples=20_000), 0.43333, 0.68333),
        (bootstrap_interval(iqm, THEIRS, resamples=20_000), 0.225, 0.36667),
        (bootstrap_interval(optimality_gap, OURS, resamples=20_000), 0.35667, 0.53667),
        (bootstrap_interval(optimality_gap, THEIRS, resamples=20_000), 0.59583, 0.725),
        (bootstrap_interval(probability_of_improvement, OURS, THEIRS, resamples=20_000), 0.625, 0.925),
    ],
)
def test_intervals_equal_those_of_rliable(found: tuple[np.ndarray, ...], low: float, high: float) -> None:
    np.testing.assert_allclose(found[1:], [low, high], atol=STEP)


def test_intervals_against_rliable_itself() -> None:
    library, metrics = (pytest.importorskip(f"rliable.{name}") for name in ("library", "metrics"))
    statistics = {metrics.aggregate_iqm: iqm, metrics.aggregate_optimality_gap: optimality_gap}
    for theirs, ours in statistics.items():
        value, interval = library.get_interval_estimates(
            {"": OURS}, lambda scores, f=theirs: np.array([f(scores)]), reps=2_000
        )
        found = bootstrap_interval(ours, OURS, resamples=20_000)
        np.testing.assert_allclose(found.value, value[""][0])
        np.testing.assert_allclose(found[1:], interval[""][:, 0], atol=STEP)


def test_bootstrap_resamples_seeds_within_tasks() -> None:
    """Tasks that differ by a thousand and seeds that are alike have no spread at all."""
    alike = np.array([[0.0, 1000.0]] * 4)
    np.testing.assert_allclose(bootstrap_interval(iqm, alike), [500, 500, 500])
    found = bootstrap_interval(lambda scores: scores.mean(axis=(-2, -1)), [[0.0], [1.0]])
    np.testing.assert_array_equal(found, [0.5, 0, 1])  # the mean of two draws is 0, ½ or 1 with probability ¼, ½, ¼


def test_interval_has_its_level_and_is_deterministic() -> None:
    scores = np.random.default_rng(1).normal(size=(200, 1))
    found = bootstrap_interval(lambda drawn: drawn.mean(axis=(-2, -1)), scores, level=0.9)
    error = scores.std(ddof=1) / 200**0.5
    np.testing.assert_allclose([found.value - found.low, found.high - found.value], 1.645 * error, rtol=0.1)
    again = bootstrap_interval(lambda drawn: drawn.mean(axis=(-2, -1)), scores, level=0.9)
    assert found == again
    assert found != bootstrap_interval(lambda drawn: drawn.mean(axis=(-2, -1)), scores, level=0.9, seed=1)


def test_single_seed_has_no_interval() -> None:
    value, low, high = bootstrap_interval(iqm, [[1.0, 3.0]])
    assert value == 2
    assert np.isnan([low, high]).all()
    assert np.isnan(bootstrap_interval(probability_of_improvement, [[1.0], [2.0]], [[1.0]]).low)


@pytest.mark.parametrize("scores", [[], [1.0, 2.0], [[]]])
def test_scores_must_be_a_table(scores: list[float]) -> None:
    with pytest.raises(SmrlError, match="seeds × tasks"):
        bootstrap_interval(iqm, scores)


def test_profile_has_an_interval_at_every_threshold() -> None:
    found = bootstrap_interval(lambda drawn: performance_profile(drawn, [0.0, 0.5, 1.0]), OURS)
    assert found.low.shape == (3,)
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()


def test_probability_of_improvement_with_ties_and_several_tasks() -> None:
    assert probability_of_improvement([[1.0]], [[1.0]]) == 0.5
    assert (
        probability_of_improvement([[2.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]]) == 0.5
    )  # 1 on the one task, 0 on the other


def test_steps_to() -> None:
    steps, returns = [10, 20, 30], np.array([[0.0, 4.0, 0.0], [0.0, 0.0, 4.0], [1.0, 1.0, 1.0]])
    np.testing.assert_array_equal(steps_to(4, steps, returns), [20, 30, np.nan])
    assert np.isnan(steps_to(4, steps, returns.mean(axis=0)))  # though two seeds of three arrive
    assert steps_to(5 / 3, steps, returns.mean(axis=0)) == 20
    assert np.isnan(steps_to(math.nan, steps, returns[0]))


def test_return_at() -> None:
    steps, returns = [10, 20, 40], np.array([[0.0, 1.0, 5.0], [2.0, 2.0, 2.0]])
    for step, first in {10: 0.0, 15: 0.5, 20: 1.0, 25: 2.0, 40: 5.0}.items():
        np.testing.assert_allclose(return_at(step, steps, returns), [first, 2])
    assert np.isnan(return_at(9, steps, returns)).all()
    assert np.isnan(return_at(41, steps, returns)).all()


def test_area_under_curve() -> None:
    np.testing.assert_allclose(area_under_curve([0, 10, 30], [[0.0, 2.0, 2.0], [3.0, 3.0, 3.0]]), [50 / 30, 3])
