"""Which rows of the replay memory share a file, so that there are few files and no row is written often."""

import math
from collections.abc import Iterable

Shard = tuple[int, int]  # its first row, and the row after its last
LARGEST = 2**28  # bytes of a shard, which is in memory as a whole while it is written or read


def needed(capacity: int, row_bytes: int) -> int:
    """How many shards `plan` must be allowed, so that none of them is larger than `LARGEST`.

    >>> needed(1_000_000, 100), needed(1_000_000, 84 * 84 * 3)
    (3, 631)
    """
    return math.ceil(8 * capacity * row_bytes / LARGEST)


def plan(saved: Iterable[Shard], oldest: int, stop: int, capacity: int, limit: int) -> list[Shard]:
    """At most ``limit`` shards that hold the rows from ``oldest`` to ``stop``; those not yet saved are to be written.

    Each holds a fraction of the memory at most (8 / limit), for a shard stays on the disk until its last row has left
    the memory, and is copied as a whole to be written.

    >>> plan([(0, 30), (30, 31)], oldest=0, stop=32, capacity=100, limit=3)
    [(0, 30), (30, 31), (31, 32)]
    >>> plan([(0, 30), (30, 31), (31, 32)], oldest=0, stop=33, capacity=100, limit=3)
    [(0, 30), (30, 33)]
    """
    largest = 8 * capacity // limit + 1
    shards = sorted(shard for shard in saved if shard[1] > oldest)
    begin = shards[-1][1] if shards else oldest
    shards += [(start, min(start + largest, stop)) for start in range(begin, stop, largest)]
    while len(shards) > limit:
        first, last = _cheapest(shards, oldest, largest)
        shards[first : last + 1] = [(max(shards[first][0], oldest), shards[last][1])]
    return shards


def _cheapest(shards: list[Shard], oldest: int, largest: int) -> tuple[int, int]:
    """First and last of the neighbours to merge: those whose union exceeds the largest of them by the greatest factor.

    Each time a row is written anew its shard has grown by that factor, so it is written about log(rows) times.
    There are such neighbours, since any two hold more than ``largest`` rows only where shards are fewer than the limit.
    """
    sizes = [stop - max(start, oldest) for start, stop in shards]
    share, best = 1.0, (0, 0)
    for first in range(len(sizes) - 1):
        rows = most = sizes[first]
        for last in range(first + 1, len(sizes)):
            rows, most = rows + sizes[last], max(most, sizes[last])
            if rows > largest:
                break
            if most / rows < share:
                share, best = most / rows, (first, last)
    return best
