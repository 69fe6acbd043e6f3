"""Batches from two replay memories: what the run has collected itself, and data from before it."""

from dataclasses import dataclass

import numpy as np

from smrl.memory.replay import Replay, draw
from smrl.types import Transition


@dataclass(frozen=True)
class MixedReplay:
    """A run's own memory and one of data that never changes; both have the same spec, γ and n-step windows.

    Without a ``share``, every row of both is drawn with the same probability. With one, each batch has the same number
    of rows of the data, which come first: with 0.5 these are the symmetric batches of RLPD (Ball et al. 2023,
    "Efficient online reinforcement learning with offline data").
    """

    own: Replay
    data: Replay
    share: float | None = None

    @property
    def added(self) -> int:
        """Return the number of transitions so far, those of the data included."""
        return self.own.added + self.data.added

    def sample(self, generator: np.random.Generator, rounds: int, batch_size: int) -> Transition:
        """Draw (rounds, batch) transitions with replacement."""
        if self.share is None:
            return self._sample_union(generator, rounds, batch_size)
        count = data_rows(self.share, batch_size)
        parts = self.data.sample(generator, rounds, count), self.own.sample(generator, rounds, batch_size - count)
        return Transition(*(np.concatenate(fields, axis=1) for fields in zip(*parts, strict=True)))

    def sample_pair(self, generator: np.random.Generator, count: int) -> tuple[Transition, Transition] | None:
        """Draw from the run's own memory, of which alone episodes are held out; see `Replay.sample_pair`."""
        return self.own.sample_pair(generator, count)

    def largest_return(self) -> float:
        """Return the largest discounted return of the run's own episodes; see `Replay.largest_return`."""
        return self.own.largest_return()

    def _sample_union(self, generator: np.random.Generator, rounds: int, batch_size: int) -> Transition:
        size, oldest = len(self.data.drawable), self.own.drawable.start
        data_accepts, own_accepts = self.data.accepts, self.own.accepts

        def accepts(place: np.ndarray) -> np.ndarray:
            found, of_data = np.ones(len(place), np.bool_), place < size
            if data_accepts:
                found[of_data] = data_accepts(place[of_data])
            if own_accepts:
                found[~of_data] = own_accepts(place[~of_data] - size + oldest)
            return found

        union = range(size + len(self.own.drawable))  # the rows of the data, then the run's own
        tests = accepts if data_accepts or own_accepts else None
        place = draw(generator, union, rounds * batch_size, self.own.n_step, tests)
        of_data = place < size
        data, own = self.data.gather(place[of_data]), self.own.gather(place[~of_data] - size + oldest)
        batch = []
        for ours, theirs in zip(own, data, strict=True):
            field = np.empty((len(place), *ours.shape[1:]), ours.dtype)
            field[of_data], field[~of_data] = theirs, ours
            batch.append(field.reshape(rounds, batch_size, *ours.shape[1:]))
        return Transition(*batch)


def data_rows(share: float, batch_size: int) -> int:
    """Return how many rows of a batch come from the data.

    >>> data_rows(0.5, 256), data_rows(0.001, 256)
    (128, 0)
    """
    return round(share * batch_size)
