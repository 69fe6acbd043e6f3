"""The replay memory and its checkpoints compared with a list of transitions, for random sequences of events."""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from written_runs import FACTS

from smrl.memory.replay import Replay
from smrl.runs import checkpoint
from smrl.runs.checkpoint import Saved
from smrl.types import ArraySpec, Continuous, Spec, Transition

GAMMA = 0.9
Frames = tuple[int, ...]  # no two frames are the same


class Step(NamedTuple):
    obs: Frames
    reward: float
    next_obs: Frames
    terminated: bool
    last: bool


def stacked(frames: Frames) -> np.ndarray:
    """An observation of 2×1 pixels with two channels per frame."""
    return np.concatenate([[[[n, -n]], [[2 * n, 7]]] for n in frames], axis=-1)


class EveryRow:
    """Instead of a random generator: draws each row once, in order."""

    def integers(self, low: int, high: int, size: int) -> np.ndarray:
        assert size == high - low
        return np.arange(low, high)


class Restoring(RuleBasedStateMachine):
    """Adds, cuts, saves, crashes and continues; the memory must always equal the list."""

    @initialize(
        capacity=st.integers(1, 20),
        envs=st.integers(1, 5),
        n_step=st.integers(1, 3),
        stack=st.integers(1, 3),
        shards=st.sampled_from([2, 3, 50]),
    )
    def begin(self, capacity: int, envs: int, n_step: int, stack: int, shards: int) -> None:
        spec = Spec(ArraySpec((2, 1, 2 * stack), "int32", stack), Continuous(1))
        self.make = partial(Replay, capacity, spec, gamma=GAMMA, n_step=n_step, envs=envs)
        self.capacity, self.envs, self.n_step, self.stack, self.shards = capacity, envs, n_step, stack, shards
        self.replay, self.steps = self.make(), list[Step]()
        self.saves: list[list[Step]] = []
        self.folder = Path(tempfile.mkdtemp())

    @rule(ends=st.lists(st.sampled_from(["", "terminated", "truncated"]), min_size=1, max_size=12))
    def add(self, ends: list[str]) -> None:
        for end in ends:
            row = len(self.steps)
            before = self.steps[row - self.envs] if row >= self.envs else None
            obs = before.next_obs if before and not before.last else (2 * row,) * self.stack
            step = Step(obs, 1.0 + row % 7, (*obs[1:], 2 * row + 1), end == "terminated", end != "")
            pair = stacked(step.obs), stacked(step.next_obs)
            self.replay.add(pair[0], np.ones(1), step.reward, pair[1], step.terminated, end == "truncated")
            self.steps.append(step)

    @rule(count=st.integers(1, 50))
    def add_many(self, count: int) -> None:
        self.add(["truncated" if row % 5 == 0 else "" for row in range(count)])

    @rule(env=st.integers(0, 4))
    def cut(self, env: int) -> None:
        env %= self.envs
        self.replay.cut(env)
        if rows := range(env, len(self.steps), self.envs):
            self.steps[rows[-1]] = self.steps[rows[-1]]._replace(last=True)

    @rule()
    def save(self) -> None:
        self.saves.append(list(self.steps))
        saved = Saved(len(self.saves), {}, FACTS)
        with patch.object(os, "fsync", lambda descriptor: None), patch.object(checkpoint, "MAX_SHARDS", self.shards):
            checkpoint.save(self.folder, saved, self.replay)

    @precondition(lambda self: self.saves)
    @rule()
    def crash(self) -> None:
        """Continue from the newest checkpoint."""
        self.replay, self.steps = self.make(), list(self.saves[-1])
        saved = checkpoint.load(self.folder, print, self.replay)
        assert saved is not None
        assert saved.step == len(self.saves)

    @precondition(lambda self: len(self.saves) > 1)
    @rule()
    def crash_and_lose_the_newest(self) -> None:
        """Continue from the one before it."""
        newest = self.folder / f"{len(self.saves):012d}"
        if newest.with_name(f"{len(self.saves) - 1:012d}").exists():  # not deleted before
            shutil.rmtree(newest)
            self.saves.pop()
            self.crash()

    @invariant()
    def samples_equal_the_list(self) -> None:
        if not self.steps:
            return
        oldest = max(0, len(self.steps) - self.capacity)
        assert self.replay.added == len(self.steps)
        assert self.replay.oldest == max(0, oldest - (self.stack - 1) * self.envs), "with the frames of older rows"
        batch = self.replay.sample(EveryRow(), 1, len(self.steps) - oldest)  # type: ignore[arg-type]
        wanted = [self.expected(row) for row in range(oldest, len(self.steps))]
        for name, got, right in zip(Transition._fields, batch, zip(*wanted, strict=True), strict=True):
            np.testing.assert_allclose(got[0], np.array(right), rtol=1e-6, err_msg=name)

    def expected(self, row: int) -> tuple[Any, ...]:
        """Return the n-step transition from a row, by its definition."""
        reward, discount = 0.0, 1.0
        for end in self.steps[row :: self.envs][: self.n_step]:
            reward += discount * end.reward
            discount *= GAMMA
            if end.last:
                break
        obs, next_obs = stacked(self.steps[row].obs), stacked(end.next_obs)
        return obs, (1,), reward, discount * (not end.terminated), next_obs

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


TestRestoring = Restoring.TestCase
TestRestoring.settings = settings(
    deadline=None, max_examples=60, stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow]
)
