"""Batches from a run's own memory and from data, compared with their definitions."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare
from test_replay import GAMMA, SPEC, Step, expected, experience, fill

from smrl.errors import SmrlError
from smrl.memory.mixed import MixedReplay
from smrl.memory.replay import Replay, Windows

OWN = 60  # capacity of the own memory, to which 100 rows are added
SEEDS = {"own": 1, "data": 2}  # of experience, whose observations then differ


def memories(n_step: int = 1, windows: Windows = "partial") -> tuple[Replay, Replay, dict[str, list[Step]]]:
    """Return an own memory that has lost its first rows, a smaller one of data, and what was added to both."""
    steps = {"own": experience(100, SEEDS["own"]), "data": experience(40, SEEDS["data"])}
    steps["data"][-1] = steps["data"][-1]._replace(truncated=True)
    own, data = (Replay(capacity, SPEC, gamma=GAMMA, n_step=n_step, windows=windows) for capacity in (OWN, 40))
    fill(own, steps["own"])
    fill(data, steps["data"])
    return own, data, steps


def sample(memory: MixedReplay, rounds: int, batch_size: int, seed: int = 0) -> Any:
    return memory.sample(np.random.default_rng(seed), rounds, batch_size)


def is_data(obs: np.ndarray) -> np.ndarray:
    return np.asarray(obs[..., 0] >= 1000 * SEEDS["data"])


def length(steps: list[Step], row: int, n_step: int) -> int:
    """Return the steps of a window."""
    window = steps[row : row + n_step]
    return next((k + 1 for k, step in enumerate(window) if step.terminated or step.truncated), len(window))


@pytest.mark.parametrize(("share", "rows"), [(0.5, 8), (0.1, 2), (0.9, 14)])
def test_share_of_every_batch_is_exact(share: float, rows: int) -> None:
    own, data, _ = memories()
    batch = sample(MixedReplay(own, data, share), 50, 16)
    assert is_data(batch.obs).sum(axis=1).tolist() == [rows] * 50
    assert batch.obs.shape == (50, 16, 2)


@pytest.mark.parametrize("share", [None, 0.5])
@pytest.mark.parametrize(("n_step", "windows"), [(1, "partial"), (3, "partial"), (3, "full")])
def test_transitions_and_their_frequencies(share: float | None, n_step: int, windows: Windows) -> None:
    """Each row has the n-step return of its definition, and each that may be drawn is drawn equally often."""
    own, data, steps = memories(n_step, windows)
    batch = sample(MixedReplay(own, data, share), 40, 500)
    index_of = {
        tuple(step.obs.tolist()): (name, row) for name, several in steps.items() for row, step in enumerate(several)
    }
    counts: dict[tuple[str, int], int] = {}
    for place in np.ndindex(40, 500):
        name, row = index_of[tuple(batch.obs[place].tolist())]
        counts[name, row] = counts.get((name, row), 0) + 1
        if counts[name, row] > 3:
            continue  # checked already
        reward, discount, next_obs = expected(steps[name], row, n_step, 1)
        assert batch.reward[place] == pytest.approx(reward, rel=1e-5)
        assert batch.discount[place] == pytest.approx(discount)
        np.testing.assert_array_equal(batch.next_obs[place], next_obs)
        np.testing.assert_array_equal(batch.action[place], steps[name][row].action)
    first = {"own": 100 - OWN, "data": 0}
    wanted = {
        (name, row)
        for name, several in steps.items()
        for row in range(first[name], len(several))
        if windows == "partial" or length(several, row, n_step) == n_step
    }
    assert counts.keys() == wanted
    groups = [wanted] if share is None else [{key for key in wanted if key[0] == name} for name in steps]
    for group in groups:
        assert chisquare([counts[key] for key in sorted(group)]).pvalue > 0.01
    if share is not None:
        assert sum(count for (name, _), count in counts.items() if name == "data") == 40 * 250


def test_sampling_depends_only_on_the_generator() -> None:
    own, data, _ = memories()
    for share in (None, 0.5):
        memory = MixedReplay(own, data, share)
        first, same, other = (sample(memory, 2, 30, seed) for seed in (1, 1, 2))
        assert all(np.array_equal(a, b) for a, b in zip(first, same, strict=True))
        assert not np.array_equal(first.obs, other.obs)


def test_memory_without_data_draws_the_numbers_of_its_generator() -> None:
    """The rows of an ordinary run are those of one call of the generator, as they were before there was data."""
    own, _, steps = memories()
    rows = np.random.default_rng(7).integers(100 - OWN, 100, size=24)
    batch = own.sample(np.random.default_rng(7), 2, 12)
    np.testing.assert_array_equal(batch.obs.reshape(24, 2), [steps["own"][row].obs for row in rows])


def test_no_full_window_anywhere_is_refused() -> None:
    own, data = (Replay(10, SPEC, gamma=GAMMA, n_step=3, windows="full") for _ in range(2))
    for memory in (own, data):
        for row in range(5):
            memory.add(np.full(2, row), np.zeros(1), 0.0, np.full(2, row + 1), terminated=True, truncated=False)
    with pytest.raises(SmrlError, match="no episode so far has 3 steps"):
        sample(MixedReplay(own, data), 1, 4)


def test_added_counts_both() -> None:
    own, data, _ = memories()
    assert MixedReplay(own, data).added == 140
