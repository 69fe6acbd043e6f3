"""The replay memory: a ring of transitions on the host that handles γ, n-step returns and time-outs.

Rows are numbered from the start of the run and never renumbered; row i is stored in slot i % capacity. N environments
add their rows in turns, so row i belongs to environment i % N. An observation is stored once: the successor of row i is
the observation of row i + N, except for the last row of an episode and for the newest N rows, whose successors are
stored separately. Memory that was never written is never touched, so it costs nothing before it is used.

If an observation is a stack of frames, only its newest frame is stored (`smrl.memory.frames`). The older frames are
those of rows i - N, i - 2N, … of the same episode; before its start the first frame is repeated. A few more rows are
stored than are sampled, so that the oldest sampled rows have all their frames.

A memory that holds out keeps 1 episode in 16 from `sample` while its rows are among the newest ones; `sample_pair`
draws from them. A row that has grown old is drawn like any other, so no experience is lost.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from smrl.errors import require
from smrl.memory.frames import PlainFrames, StackedFrames, allocate
from smrl.types import Spec, Transition

Rows = dict[str, np.ndarray[Any, Any]]
Windows = Literal["partial", "full"]
Accepts = Callable[[np.ndarray], np.ndarray]  # rows → whether each may be drawn
MAX_RESAMPLES = 30  # attempts to draw full n-step windows before all of them are searched for
CHUNK = 10_000  # rows that a snapshot copies at a time
HELD_OUT_EVERY = 16  # episodes of which one is held out
HELD_OUT_STEPS = 10_000  # environment steps for which a row is held out
CANDIDATES = 4_096  # rows among which the nearest to a held-out one is searched


class Replay:
    """Uniform replay over all rows that are still stored.

    An n-step window ends early at the end of its episode and at the newest row. With ``windows="full"`` only rows that
    have n steps left are drawn. With a ``folder`` the observations are stored on disk instead of in memory. With
    ``hold_out`` the rows of held-out episodes are not drawn by `sample` while they are among the newest ``hold_out``.

    >>> from smrl.types import ArraySpec, Continuous
    >>> replay = Replay(100, Spec(ArraySpec((1,)), Continuous(1)), gamma=0.9)
    >>> replay.add(np.zeros(1), np.zeros(1), 1.0, np.ones(1), terminated=False, truncated=True)
    >>> replay.sample(np.random.default_rng(0), rounds=1, batch_size=2).discount
    array([[0.9, 0.9]], dtype=float32)
    """

    def __init__(
        self,
        capacity: int,
        spec: Spec,
        *,
        gamma: float,
        n_step: int = 1,
        envs: int = 1,
        windows: Windows = "partial",
        folder: Path | None = None,
        hold_out: int | None = None,
    ) -> None:
        self.gamma, self.n_step, self.envs, self.windows = gamma, n_step, envs, windows
        self.added = 0
        self._sampled, self._stack = capacity, spec.obs.stack
        self.capacity = capacity = capacity + (self._stack - 1) * envs  # rows that are stored
        self._frames = StackedFrames(spec.obs) if self._stack > 1 else PlainFrames(spec.obs)
        self._rows: Rows = {
            "obs": allocate(self._frames.stored, capacity, folder),
            "action": spec.action.array.zeros(capacity),
            "reward": np.zeros(capacity, np.float32),
            "terminated": np.zeros(capacity, np.bool_),
            "last": np.zeros(capacity, np.bool_),  # whether its episode ends here, by termination or time-out
        }
        if hold_out is not None:
            self._rows["held_out"] = np.zeros(capacity, np.bool_)  # whether its episode is
        self.hold_out = hold_out
        self._successors: dict[int, np.ndarray] = {}  # row → what was observed after it
        self._returns = (0, -np.inf)  # see `largest_return`

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one row."""
        return sum(values.nbytes for values in self._rows.values()) // self.capacity

    @property
    def oldest(self) -> int:
        """Return the number of the first row that is still stored."""
        return max(0, self.added - self.capacity)

    @property
    def settled(self) -> int:
        """Return the number of the first row that may still change.

        Rows before it are final until the ring overwrites them. The newest row of each environment is not: `cut` may
        still end its episode there.
        """
        return max(self.oldest, self.added - self.envs)

    def add(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: float,
        next_obs: np.ndarray,
        terminated: bool,
        truncated: bool,
        episode: int = 0,
    ) -> None:
        """Append the next environment's transition; a time-out (truncated) ends the episode but still bootstraps.

        The number of the ``episode`` decides whether the row is held out.
        """
        row, slot, rows = self.added, self.added % self.capacity, self._rows
        self._successors.pop(row - self.capacity, None)
        if row >= self.envs and not rows["last"][(row - self.envs) % self.capacity]:
            self._successors.pop(row - self.envs, None)
        rows["obs"][slot] = self._frames.newest(obs)
        rows["action"][slot] = action
        rows["reward"][slot] = reward
        rows["terminated"][slot] = terminated
        rows["last"][slot] = terminated or truncated
        if self.hold_out is not None:
            rows["held_out"][slot] = is_held_out(episode)
        self._successors[row] = np.array(self._frames.newest(next_obs), rows["obs"].dtype, order="C")
        self.added = row + 1

    def cut(self, env: int = 0) -> None:
        """End an environment's running episode after its newest row, as a time-out would."""
        newest = self.added - 1 - (self.added - 1 - env) % self.envs
        if newest >= self.oldest:
            self._rows["last"][newest % self.capacity] = True

    @property
    def drawable(self) -> range:
        """Return the rows that can be drawn."""
        return range(max(0, self.added - self._sampled), self.added)

    def sample(self, generator: np.random.Generator, rounds: int, batch_size: int) -> Transition:
        """Draw (rounds, batch) transitions, uniformly with replacement, of those that are not held out."""
        batch = self.gather(self._draw(generator, rounds * batch_size))
        return Transition(*(field.reshape(rounds, batch_size, *field.shape[1:]) for field in batch))

    def gather(self, first: np.ndarray) -> Transition:
        """Return the transitions, or n-step windows, that begin at these rows."""
        rows, slots = self._rows, self._slots(first)
        end, reward, discount = self._follow(first, slots[-1])
        end_slots = slots if end is first else self._slots(end)
        after = end + self.envs

        obs = self._frames.build(rows["obs"], slots)
        next_obs = self._frames.build(rows["obs"], [*end_slots, after % self.capacity][1:])
        for index in (rows["last"].take(end_slots[-1]) | (after >= self.added)).nonzero()[0].tolist():
            row = int(end[index])
            self._frames.replace(next_obs, index, self._successors[row])
            if rows["terminated"][row % self.capacity]:
                discount[index] = 0

        action = rows["action"].take(slots[-1], axis=0)
        batch: tuple[Any, ...] = (obs, action, reward.astype(np.float32, copy=False), discount, next_obs)
        return Transition(*batch)  # JAX accepts NumPy arrays as they are

    def is_full(self, first: np.ndarray) -> np.ndarray:
        """Return whether each row has n steps left, itself included."""
        return self._follow(first, first % self.capacity)[0] - first == (self.n_step - 1) * self.envs

    @property
    def accepts(self) -> Accepts | None:
        """Return the test that a row must pass to be drawn by `sample`; None where all rows do."""
        if self.hold_out is None:
            return self._is_full
        is_full = self._is_full or (lambda first: np.ones(len(first), np.bool_))
        return lambda first: is_full(first) & ~self._is_near_held_out(first)

    def _draw(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Draw the first rows of windows."""
        return draw(generator, self.drawable, count, self.n_step, self.accepts)

    def sample_pair(self, generator: np.random.Generator, count: int) -> tuple[Transition, Transition] | None:
        """Draw ``count`` held-out transitions, and for each of them a similar one of those that `sample` draws.

        Similar is the nearest in observation and action of up to CANDIDATES rows that are as new, so that both have the
        same difficulty and differ in their use. Images are too large to be compared; for them any of these rows is
        taken. The transitions that are trained on come first. Return None while there are none of one kind.
        """
        rows = np.arange(max(self.drawable.start, self.added - (self.hold_out or 0)), self.added)
        rows = rows[self._is_full(rows)] if self._is_full else rows
        held_out = rows[self._rows["held_out"][rows % self.capacity]]
        trained = rows[~self._is_near_held_out(rows)]
        if not (held_out.size and trained.size):
            return None
        held_out = held_out[generator.integers(held_out.size, size=count)]
        if self._rows["obs"].ndim > 2:
            trained = trained[generator.integers(trained.size, size=count)]
            return self.gather(trained), self.gather(held_out)
        if trained.size > CANDIDATES:
            trained = trained[generator.integers(trained.size, size=CANDIDATES)]
        trained = trained[nearest(self._features(held_out), self._features(trained))]
        return self.gather(trained), self.gather(held_out)

    def _features(self, row: np.ndarray) -> np.ndarray:
        """Return observation and action of rows as vectors; discrete actions are far from each other."""
        obs, action = (self._rows[name][row % self.capacity].astype(np.float64) for name in ("obs", "action"))
        return np.concatenate([obs, action if action.ndim == 2 else 1e3 * action[:, None]], axis=1)

    def largest_return(self) -> float:
        """Return the largest discounted return Σ γᵏ r of a step in an episode that has ended; −∞ without one.

        Only rows that were still stored at the first call count.
        """
        seen, largest = self._returns
        reward, last = self._rows["reward"], self._rows["last"]
        new = np.arange(max(seen, self.oldest), self.added)
        for end in new[last[new % self.capacity]].tolist():
            row, total = end, 0.0
            while row >= self.oldest and (row == end or not last[row % self.capacity]):
                total = float(reward[row % self.capacity]) + self.gamma * total
                row, largest = row - self.envs, max(largest, total)
        self._returns = (self.added, largest)
        return largest

    @property
    def _is_full(self) -> Accepts | None:
        return self.is_full if self.windows == "full" and self.n_step > 1 else None

    def _is_near_held_out(self, first: np.ndarray) -> np.ndarray:
        """Return whether an n-step window that begins at each row may reach a row that is held out now."""
        oldest = self.added - (self.hold_out or 0) - (self.n_step - 1) * self.envs
        return self._rows["held_out"][first % self.capacity] & (first >= oldest)

    def _follow(self, first: np.ndarray, slot: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the last row of each window, the discounted sum of its rewards, and γⁿ; ``slot`` is that of first."""
        rows, end = self._rows, first
        reward = rows["reward"].take(slot)
        discount = np.full(len(first), self.gamma, np.float32)
        for k in range(1, self.n_step):
            goes_on = ~rows["last"][end % self.capacity] & (end + self.envs < self.added)
            end = end + self.envs * goes_on
            reward = reward + np.where(goes_on, self.gamma**k, 0.0) * rows["reward"][end % self.capacity]
            discount[goes_on] = self.gamma ** (k + 1)
        return end, reward, discount

    def _slots(self, row: np.ndarray) -> list[np.ndarray]:
        """Return the slots of the frames in the stack that each row observes, from the oldest frame to the newest."""
        observed = [row]
        for _ in range(1, self._stack):
            before = observed[0] - self.envs
            is_first = (before < self.oldest) | self._rows["last"][before % self.capacity]
            observed.insert(0, np.where(is_first, observed[0], before))
        return [row % self.capacity for row in observed]

    def rows(self, start: int, stop: int) -> Rows:
        """Return the rows from start to stop that are still stored, as arrays for `restore`.

        For rows below `settled` the result never changes.
        """
        numbers = np.arange(max(start, self.oldest), stop)
        rows = {name: values[numbers % self.capacity] for name, values in self._rows.items()}
        apart = numbers[rows["last"] | (numbers + self.envs >= self.added)]
        return rows | {
            "start": np.array(max(start, self.oldest)),
            "successor_rows": apart,
            "successors": np.array([self._successors[row] for row in apart.tolist()], rows["obs"].dtype),
        }

    def until(self, added: int) -> "Replay":
        """Return this memory as it was when it had ``added`` rows, to be sampled; it shares the rows.

        No row may have been overwritten since.
        """
        require(
            self.oldest == 0 and self.envs <= added <= self.added,
            f"the replay memory does not hold its first {added:,} rows.",
        )
        earlier = copy.copy(self)
        earlier.added, earlier._successors = added, dict(self._successors)
        for row in range(added - self.envs, added):
            if row not in self._successors:
                earlier._successors[row] = self._rows["obs"][row + self.envs]
        return earlier

    def restore(self, saved: Rows) -> None:
        """Append what `rows` returned; the memory can be sampled once all rows up to the newest are back."""
        numbers = np.arange(len(saved["reward"])) + saved["start"]
        for name, values in self._rows.items():
            if saved[name].dtype != values.dtype or saved[name].shape != (len(numbers), *values.shape[1:]):
                raise ValueError(f"{name} has the dtype {saved[name].dtype} and the shape {saved[name].shape}")
            values[numbers % self.capacity] = saved[name]
        self.added = int(saved["start"]) + len(numbers)
        successors = self._successors | dict(zip(saved["successor_rows"].tolist(), saved["successors"], strict=True))
        self._successors = {row: obs for row, obs in successors.items() if row >= self.oldest}


def is_held_out(episode: int) -> bool:
    """Return whether an episode is held out: one of every 16, at a place that multiplicative hashing chooses.

    >>> [episode for episode in range(64) if is_held_out(episode)]
    [2, 27, 37, 63]
    """
    block, place = divmod(episode, HELD_OUT_EVERY)
    hashed = block * 2_654_435_769 % 2**32  # 2³² over the golden ratio: the places of successive blocks differ much
    return place == (hashed * HELD_OUT_EVERY // 2**32 + 2) % HELD_OUT_EVERY


def nearest(points: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return the index of the nearest of some vectors to each point, in units of their standard deviations."""
    scale = among.std(axis=0)
    scale[scale == 0] = 1
    points, among = points / scale, among / scale
    distances = (among**2).sum(axis=1) - 2 * points @ among.T  # without |point|², which is the same for all
    return np.asarray(distances.argmin(axis=1))


def draw(generator: np.random.Generator, rows: range, count: int, n_step: int, accepts: Accepts | None) -> np.ndarray:
    """Draw ``count`` of these rows uniformly with replacement, of those that are accepted."""
    first = generator.integers(rows.start, rows.stop, size=count)
    if accepts is None:
        return first
    for _ in range(MAX_RESAMPLES):
        refused = np.flatnonzero(~accepts(first))
        if not refused.size:
            return first
        first[refused] = generator.integers(rows.start, rows.stop, size=refused.size)
    # Few rows are accepted: find them all.
    accepted = np.flatnonzero(accepts(np.arange(rows.start, rows.stop))) + rows.start
    require(accepted.size > 0, f"no episode so far has {n_step} steps: lower --n-step, or choose --windows partial.")
    return accepted[generator.integers(accepted.size, size=count)]


class Snapshot:
    """A replay memory as it was at one moment, to be read by another thread while rows are added.

    Rows below `settled` change only when the ring overwrites them. Rows that are about to be overwritten are therefore
    copied first (`keep`), and the reader takes them from these copies. It needs no lock.
    """

    def __init__(self, replay: Replay) -> None:
        self.capacity, self.added, self.row_bytes = replay.capacity, replay.added, replay.row_bytes
        self.oldest, self.settled = replay.oldest, replay.settled
        self._replay = replay
        self._tail = replay.rows(replay.settled, replay.added)
        self._copies: dict[int, Rows] = {}
        self._kept = self.oldest  # rows from `oldest` to here are in `_copies`

    def keep(self, count: int) -> None:
        """Copy the rows that the next ``count`` ones will overwrite; the adding thread calls this before it adds."""
        stop = min(self._replay.added + count - self.capacity, self.settled)
        for row in range(self._kept, stop):
            self._copies[row] = self._replay.rows(row, row + 1)
        self._kept = max(self._kept, stop)  # last, because the reader takes rows below it from `_copies`

    def rows(self, start: int, stop: int) -> Rows:
        """Return what `Replay.rows` would have returned at that moment; called by the reading thread."""
        if start >= self.settled:
            return self._tail
        begin = max(start, self.oldest)
        return _concatenate([self._chunk(first, min(first + CHUNK, stop)) for first in range(begin, stop, CHUNK)])

    def _chunk(self, start: int, stop: int) -> Rows:
        while True:
            try:
                read = self._replay.rows(min(max(self._kept, start), stop), stop)
            except KeyError:  # a row was overwritten after its fields were read and before its successor was
                continue
            # Looked up after reading: whatever was overwritten in the meantime lies below it.
            kept = min(max(self._kept, start), stop)
            return _concatenate([*(self._copies[row] for row in range(start, kept)), _since(read, kept, stop)])


def _concatenate(parts: list[Rows]) -> Rows:
    """Join consecutive rows."""
    if len(parts) == 1:
        return parts[0]
    successors = [part["successors"] for part in parts if len(part["successors"])] or [parts[0]["successors"]]
    joined = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0].keys() - {"start", "successors"}
    }
    joined |= {"start": parts[0]["start"], "successors": np.concatenate(successors)}
    return {name: joined[name] for name in parts[0]}  # in the same order, so that files have the same bytes


def _since(rows: Rows, start: int, stop: int) -> Rows:
    """Drop the rows before ``start`` from rows that end at ``stop``."""
    surplus, apart = len(rows["reward"]) - (stop - start), rows["successor_rows"] >= start
    parts = {"successor_rows": rows["successor_rows"][apart], "successors": rows["successors"][apart]}
    parts["start"] = np.array(start)
    return {name: parts[name] if name in parts else values[surplus:] for name, values in rows.items()}
