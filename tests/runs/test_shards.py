"""Shards of the replay memory: few, covering, and seldom written anew."""

import itertools
import random
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smrl.runs.shards import Shard, plan


def checkpoints(news: Iterable[int], capacity: int, limit: int = 50) -> Iterator[tuple[int, list[Shard], int]]:
    """Rows so far, shards and rows written at each checkpoint, for these numbers of new rows."""
    saved: list[Shard] = []
    added = 0
    for new in news:
        added += new
        shards = plan(saved, max(0, added - capacity), added, capacity, limit)
        yield added, shards, sum(stop - start for start, stop in set(shards) - set(saved))
        saved = shards


@given(st.lists(st.integers(0, 60), min_size=1, max_size=60), st.integers(1, 200), st.integers(2, 6))
@settings(deadline=None)
def test_shards_hold_every_row_once(news: list[int], capacity: int, limit: int) -> None:
    for added, shards, _ in checkpoints(news, capacity, limit):
        assert len(shards) <= limit
        assert all(start < stop for start, stop in shards)
        assert all(stop == start for (_, stop), (start, _) in itertools.pairwise(shards))
        oldest = max(0, added - capacity)
        assert (shards[0][0] <= oldest and shards[-1][1] == added) if shards else added == 0


EVERY_100_STEPS = [100] * 10_000  # a million steps
UNEQUAL = [int(2 ** random.Random(0).uniform(0, 10)) for _ in range(3_000)]


@pytest.mark.parametrize(
    ("news", "capacity"),
    [
        (EVERY_100_STEPS, 1_000_000),
        ([1] * 10_000, 1_000),
        (UNEQUAL, 1_000_000),
        ([1_000] * 50 + [1] * 3_000, 1_000_000),  # many large shards first
        ([2 ** ((k & -k).bit_length() - 1) for k in range(1, 3_000)], 1_000_000),  # small shards between large ones
    ],
)
def test_a_row_is_written_a_few_times(news: list[int], capacity: int) -> None:
    """Merging only the two smallest neighbours would write each of a million rows 72 times."""
    written = most = 0
    for _, shards, rows in checkpoints(news, capacity):
        written, most = written + rows, max(most, len(shards))
        assert rows <= max(news) + capacity // 3, "no checkpoint writes most of the memory"
    assert most == 50
    assert written / sum(news) < 4


def test_the_oldest_shard_goes_when_its_rows_are_gone() -> None:
    for added, shards, _ in checkpoints([10] * 1_000, capacity=1_000):
        assert all(stop > added - 1_000 for _, stop in shards)
        assert shards[0][0] >= added - 1_200, "rows that are gone stay on the disk for a while only"
