"""The replay memory: a ring of transitions on the host that handles γ, n-step returns and time-outs.

Rows are numbered from the first of the run and never renumbered; row i is stored in slot i % capacity. N environments
add their rows in turns, so row i belongs to environment i % N. An observation is stored once: the successor of row i is
the observation of row i + N, except for the last row of an episode and for the newest N rows, whose successors are
stored separately. Memory that was never written is never touched, so it costs nothing before it is used.

Of an observation that is a stack of frames only the newest frame is stored (`smrl.memory.frames`); the older ones are
those of rows i - N, i - 2N, … of the same episode, and before its start the first frame is repeated. So that the
oldest rows have theirs, a few rows more are stored than are sampled.
"""

from pathlib import Path
from typing import Any, Literal

import numpy as np

from smrl.errors import require
from smrl.memory.frames import Plain, Stacked, allocate
from smrl.types import Spec, Transition

Rows = dict[str, np.ndarray[Any, Any]]
Windows = Literal["partial", "full"]
TRIALS = 30  # to draw a whole window


class Replay:
    """Uniform replay over all rows that are still there.

    An n-step window is cut at the end of its episode and at the newest row; with ``windows`` "full" only rows that
    have n steps left are drawn. A ``folder`` is where the observations are stored in place of the machine's memory.

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
        gamma: float,
        n_step: int = 1,
        envs: int = 1,
        windows: Windows = "partial",
        folder: Path | None = None,
    ) -> None:
        self.gamma, self.n_step, self.envs, self.windows = gamma, n_step, envs, windows
        self.added = 0
        self._sampled, self._stack = capacity, spec.obs.stack
        self.capacity = capacity = capacity + (self._stack - 1) * envs  # rows that are stored
        self._frames = Stacked(spec.obs) if self._stack > 1 else Plain(spec.obs)
        self._rows: Rows = {
            "obs": allocate(self._frames.stored, capacity, folder),
            "action": spec.action.array.zeros(capacity),
            "reward": np.zeros(capacity, np.float32),
            "terminated": np.zeros(capacity, np.bool_),
            "last": np.zeros(capacity, np.bool_),  # of its episode, by termination or time-out
        }
        self._successors: dict[int, np.ndarray] = {}  # row → what was observed after it

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return sum(values.nbytes for values in self._rows.values()) // self.capacity

    @property
    def oldest(self) -> int:
        """The first row that is still stored."""
        return max(0, self.added - self.capacity)

    @property
    def settled(self) -> int:
        """The first row that may still change: `cut` may make the newest row of an environment an episode's last."""
        return max(self.oldest, self.added - self.envs)

    def add(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: float,
        next_obs: np.ndarray,
        terminated: bool,
        truncated: bool,
    ) -> None:
        """Append the next environment's transition; a time-out (truncated) ends the episode but still bootstraps."""
        row, slot, rows = self.added, self.added % self.capacity, self._rows
        self._successors.pop(row - self.capacity, None)
        if row >= self.envs and not rows["last"][(row - self.envs) % self.capacity]:
            self._successors.pop(row - self.envs, None)
        rows["obs"][slot] = self._frames.newest(obs)
        rows["action"][slot] = action
        rows["reward"][slot] = reward
        rows["terminated"][slot] = terminated
        rows["last"][slot] = terminated or truncated
        self._successors[row] = np.array(self._frames.newest(next_obs), rows["obs"].dtype, order="C")
        self.added = row + 1

    def cut(self, env: int = 0) -> None:
        """End an environment's running episode after its newest row, as a time-out would."""
        newest = self.added - 1 - (self.added - 1 - env) % self.envs
        if newest >= self.oldest:
            self._rows["last"][newest % self.capacity] = True

    def sample(self, generator: np.random.Generator, rounds: int, batch_size: int) -> Transition:
        """Draw (rounds, batch) transitions, uniformly with replacement."""
        first = self._draw(generator, rounds * batch_size)
        rows, slots = self._rows, self._slots(first)
        end, reward, discount = self._follow(first, slots[-1])
        end_slots = slots if end is first else self._slots(end)
        after = end + self.envs

        obs = self._frames.joined(rows["obs"], slots)
        next_obs = self._frames.joined(rows["obs"], [*end_slots, after % self.capacity][1:])
        for index in (rows["last"].take(end_slots[-1]) | (after >= self.added)).nonzero()[0].tolist():
            row = int(end[index])
            self._frames.replace(next_obs, index, self._successors[row])
            if rows["terminated"][row % self.capacity]:
                discount[index] = 0

        batch: tuple[Any, ...] = (  # JAX takes NumPy's arrays as they are
            obs,
            rows["action"].take(slots[-1], axis=0),
            reward.astype(np.float32, copy=False),
            discount,
            next_obs,
        )
        return Transition(*(field.reshape(rounds, batch_size, *field.shape[1:]) for field in batch))

    def _draw(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """The first rows of windows."""
        oldest = max(0, self.added - self._sampled)
        first = generator.integers(oldest, self.added, size=count)
        if self.windows == "partial" or self.n_step == 1:
            return first
        for _ in range(TRIALS):
            short = np.flatnonzero(~self._is_whole(first))
            if not short.size:
                return first
            first[short] = generator.integers(oldest, self.added, size=short.size)
        # Few rows have n steps left: find them all.
        whole = np.flatnonzero(self._is_whole(np.arange(oldest, self.added))) + oldest
        require(
            whole.size > 0, f"no episode so far has {self.n_step} steps: lower --n-step, or choose --windows partial."
        )
        return whole[generator.integers(whole.size, size=count)]

    def _is_whole(self, first: np.ndarray) -> np.ndarray:
        return self._follow(first, first % self.capacity)[0] - first == (self.n_step - 1) * self.envs

    def _follow(self, first: np.ndarray, slot: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The last row of the window from each row, given with its slot, the discounted sum of its rewards, and γⁿ."""
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
        """The slots of all frames in the stack that a row observes, the oldest frame first and the newest last."""
        observed = [row]
        for _ in range(1, self._stack):
            before = observed[0] - self.envs
            is_first = (before < self.oldest) | self._rows["last"][before % self.capacity]
            observed.insert(0, np.where(is_first, observed[0], before))
        return [row % self.capacity for row in observed]

    def rows(self, start: int, stop: int) -> Rows:
        """The rows from start to stop that are still there, as arrays for `restore`.

        Below `settled` the answer for the same rows is always the same.
        """
        numbers = np.arange(max(start, self.oldest), stop)
        rows = {name: values[numbers % self.capacity] for name, values in self._rows.items()}
        apart = numbers[rows["last"] | (numbers + self.envs >= self.added)]
        return rows | {
            "start": np.array(max(start, self.oldest)),
            "successor_rows": apart,
            "successors": np.array([self._successors[row] for row in apart.tolist()], rows["obs"].dtype),
        }

    def restore(self, saved: Rows) -> None:
        """Append what `rows` gave; the memory can be sampled once all rows up to the newest are back."""
        numbers = np.arange(len(saved["reward"])) + saved["start"]
        # Only checkpoints of format 1 have it: the episodes of the rows before these may have been cut meanwhile.
        cut = saved.get("last_before", np.zeros(0, np.bool_))
        self._rows["last"][(saved["start"] - len(cut) + np.arange(len(cut))) % self.capacity] = cut
        for name, values in self._rows.items():
            values[numbers % self.capacity] = saved[name]
        self.added = int(saved["start"]) + len(numbers)
        successors = self._successors | dict(zip(saved["successor_rows"].tolist(), saved["successors"], strict=True))
        self._successors = {row: obs for row, obs in successors.items() if row >= self.oldest}
