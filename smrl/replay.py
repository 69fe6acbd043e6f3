"""The replay memory: a ring of transitions on the host that settles γ, n-step returns and time-outs.

Rows are numbered from the run's first for ever; row i lives in slot i % capacity. N environments add their rows in
turns, so row i is of environment i % N. An observation is kept once: what follows row i is the observation of row
i + N, except at an episode's last row and at the newest N, whose successors are kept aside. Memory that was never
written is never touched, so it costs nothing before it is used.
"""

from typing import Any

import numpy as np

from smrl.types import Spec, Transition

Rows = dict[str, np.ndarray[Any, Any]]


class Replay:
    """Uniform replay over all rows that are still there.

    >>> replay = Replay(100, Spec(obs_size=1, action_size=1), gamma=0.9)
    >>> replay.add(np.zeros(1), np.zeros(1), 1.0, np.ones(1), terminated=False, truncated=True)
    >>> replay.sample(np.random.default_rng(0), rounds=1, batch_size=2).discount
    array([[0.9, 0.9]], dtype=float32)
    """

    def __init__(self, capacity: int, spec: Spec, gamma: float, n_step: int = 1, envs: int = 1) -> None:
        self.capacity, self.gamma, self.n_step, self.envs = capacity, gamma, n_step, envs
        self.added = 0
        self._rows: Rows = {
            "obs": np.empty((capacity, spec.obs_size), np.float32),
            "action": np.empty((capacity, spec.action_size), np.float32),
            "reward": np.empty(capacity, np.float32),
            "terminated": np.empty(capacity, np.bool_),
            "last": np.empty(capacity, np.bool_),  # of its episode, by termination or time-out
        }
        self._successors: dict[int, np.ndarray] = {}  # row → what was observed after it

    @property
    def oldest(self) -> int:
        """The first row that is still there."""
        return max(0, self.added - self.capacity)

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
        rows["obs"][slot] = obs
        rows["action"][slot] = action
        rows["reward"][slot] = reward
        rows["terminated"][slot] = terminated
        rows["last"][slot] = terminated or truncated
        self._successors[row] = np.array(next_obs, np.float32)
        self.added = row + 1

    def cut(self, env: int = 0) -> None:
        """End an environment's running episode after its newest row, as a time-out would."""
        newest = self.added - 1 - (self.added - 1 - env) % self.envs
        if newest >= self.oldest:
            self._rows["last"][newest % self.capacity] = True

    def sample(self, generator: np.random.Generator, rounds: int, batch_size: int) -> Transition:
        """Draw (rounds, batch) transitions, uniformly with replacement."""
        first = generator.integers(self.oldest, self.added, size=rounds * batch_size)
        slot, rows = first % self.capacity, self._rows
        reward, end = rows["reward"].take(slot), first
        for k in range(1, self.n_step):
            goes_on = ~rows["last"][end % self.capacity] & (end + self.envs < self.added)
            end = end + self.envs * goes_on
            reward = reward + np.where(goes_on, self.gamma**k, 0.0) * rows["reward"][end % self.capacity]
        end_slot = end % self.capacity
        discount = self.gamma ** ((end - first) // self.envs + 1.0) * ~rows["terminated"].take(end_slot)

        next_obs = rows["obs"].take((end + self.envs) % self.capacity, axis=0)
        for index in np.flatnonzero(rows["last"].take(end_slot) | (end + self.envs >= self.added)):
            next_obs[index] = self._successors[int(end[index])]

        batch: tuple[Any, ...] = (  # NumPy's arrays are as good as JAX's to whoever takes them
            rows["obs"].take(slot, axis=0),
            rows["action"].take(slot, axis=0),
            reward.astype(np.float32),
            discount.astype(np.float32),
            next_obs,
        )
        return Transition(*(field.reshape(rounds, batch_size, *field.shape[1:]) for field in batch))

    def since(self, row: int) -> Rows:
        """What was added from a row on and is still there, as arrays for `restore`."""
        start = max(row, self.oldest)
        slots = np.arange(start, self.added) % self.capacity
        kept_aside = [number for number in self._successors if number >= start]
        successors = [self._successors[number] for number in kept_aside]
        return {name: values[slots] for name, values in self._rows.items()} | {
            "start": np.array(start),
            "last_before": self._rows["last"][self._before(start) % self.capacity],
            "successor_rows": np.array(kept_aside, np.int64),
            "successors": np.array(successors, np.float32),
        }

    def restore(self, saved: Rows) -> None:
        """Append what `since` gave, in the order in which it was given."""
        start, count = int(saved["start"]), len(saved["reward"])
        if self.added == start:
            # Since the rows before these were saved, an episode may have been cut; those that go on have a successor.
            before = self._before(start)
            self._rows["last"][before % self.capacity] = saved["last_before"]
            for row in before[~saved["last_before"] & (before + self.envs < start + count)]:
                del self._successors[int(row)]
        slots = np.arange(start, start + count) % self.capacity
        for name, values in self._rows.items():
            values[slots] = saved[name]
        self._successors |= dict(zip(saved["successor_rows"].tolist(), saved["successors"], strict=True))
        self.added = start + count
        self._successors = {row: obs for row, obs in self._successors.items() if row >= self.oldest}

    def _before(self, start: int) -> np.ndarray[Any, Any]:
        """The rows that the first ones from a row on may follow."""
        return np.arange(max(start - self.envs, self.oldest, 0), start)
