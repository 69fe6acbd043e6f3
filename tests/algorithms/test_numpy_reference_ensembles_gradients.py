"""The gradients that ``numpy_reference_ensembles`` writes by hand, against finite differences of its losses."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy_reference_ensembles as reference
import pytest
from numpy_reference import Batch, Network, forward
from test_numpy_reference import central_difference

SIZE, OBS, ACTION, ATOMS = 12, 4, 3, 5
SPREAD = 2.0  # of targets: some differences beyond the Huber loss's ±1


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def mlp(seed: int, *sizes: int) -> Network:
    rng = rng_of(seed)
    return [rng.normal(size=shape) * n**-0.5 for n, m in pairwise(sizes) for shape in ((m,), (n, m))]


def critic(seed: int, outputs: int = 1) -> Network:
    return mlp(seed, OBS + ACTION, 8, 6, outputs)


def droq_critic(seed: int) -> Network:
    rng = rng_of(seed + 100)
    norms = [array for m in (8, 6) for array in (rng.normal(size=m), rng.uniform(0.5, 1.5, size=m))]
    return critic(seed) + norms


def masks(seed: int) -> reference.Masks:
    rng, rate = rng_of(seed), 0.2
    return [(rng.random((SIZE, m)) >= rate) / (1.0 - rate) for m in (8, 6)]


def batch() -> Batch:
    rng = rng_of(1)
    obs, next_obs = rng.normal(size=(2, SIZE, OBS))
    return Batch(obs, rng.uniform(-1, 1, (SIZE, ACTION)), SPREAD * rng.normal(size=SIZE), np.full(SIZE, 0.9), next_obs)


def clamped_actor() -> Network:
    """Of log std the first is above 2 for half the batch, the second below −20 for half, the third free."""
    actor = mlp(2, OBS, 8, 6, 2 * ACTION)
    middle = np.median(forward(actor, batch().obs)[0], axis=0)
    actor[-2][ACTION : ACTION + 2] += [2.0, -20.0] - middle[ACTION : ACTION + 2]
    return actor


def actor_loss(score: reference.Score, floor: float = 0.0) -> Callable[[Network], Any]:
    noise = rng_of(3).normal(size=(SIZE, ACTION))
    return lambda values: reference.scored_actor_loss(values, score, batch().obs, noise, 0.6, floor)


def losses() -> dict[str, tuple[Callable[[Network], Any], Network]]:
    """Every loss as a function of what it trains, where that is."""
    data, atoms = batch(), SPREAD * rng_of(4).normal(size=(SIZE, 7))
    mean_q = reference.mean_score([critic(5), critic(6), critic(7)], data.obs)
    mean_atom = reference.mean_score([critic(5, ATOMS), critic(6, ATOMS)], data.obs)
    twins = [droq_critic(5), droq_critic(7)]  # the first is the smaller for a third of the batch
    smallest = reference.droq_smallest_score(twins, data.obs, [masks(7), masks(8)])
    return {
        "darc critic": (
            lambda values: reference.regularised_critic_loss(values, critic(6), data, data.reward, 0.7),
            critic(5),
        ),
        "quantiles": (lambda values: reference.quantile_huber_loss(values, data, atoms), critic(5, ATOMS)),
        "tqc actor": (actor_loss(mean_atom), clamped_actor()),
        "redq actor": (actor_loss(mean_q), clamped_actor()),
        "floored actor": (actor_loss(mean_q, 1e-6), clamped_actor()),
        "log temperature": (
            lambda values: reference.log_temperature_loss(values[0], data.reward, -1.5),
            [np.asarray(-0.7)],
        ),
        "droq critic": (
            lambda values: reference.droq_critic_loss(values, data, data.reward, masks(7)),
            droq_critic(5),
        ),
        "droq actor": (actor_loss(smallest), clamped_actor()),
    }


@pytest.mark.parametrize("name", losses())
def test_gradients_by_hand_are_finite_differences(name: str) -> None:
    """Along random directions, to which every coordinate contributes."""
    loss, values = losses()[name]
    gradient, rng = loss(values)[1], rng_of(9)
    assert [slope.shape for slope in gradient] == [value.shape for value in values]
    for array, slope in enumerate(gradient):
        for _ in range(3):
            direction = rng.normal(size=slope.shape)
            direction /= np.linalg.norm(direction)
            expected = float((slope * direction).sum())
            actual = central_difference(loss, values, array, direction)
            assert actual == pytest.approx(expected, rel=1e-6, abs=1e-7 * float(np.abs(slope).max()))
