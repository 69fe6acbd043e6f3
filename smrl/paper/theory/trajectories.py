"""Q-learning with reuse along trajectories of the uniform policy, many runs at once."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from smrl.paper.theory.finding import Floats, Ints
from smrl.paper.theory.finite import FiniteMDP, Sample, reuse_in_place

CHUNK = 1024  # steps drawn at once, because single draws are slow
BELOW_ONE = 1 - 1e-12  # keeps pair + chance below pair + 1 in spite of rounding

Rate = Callable[[int, Ints], Floats]  # step t from 0 and, per run, the earlier visits of the current (s, a) → α


def play(
    mdp: FiniteMDP, rate: Rate, times: int, steps: int, tables: Floats, rng: np.random.Generator
) -> Iterator[Sample]:
    """Update the Q-tables (rows, S, A) in place for some steps, and yield each step's transitions after it."""
    states, actions = mdp.rewards.shape
    ladder = np.cumsum(mdp.transitions.reshape(-1, states), -1)
    ladder = (ladder / ladder[:, -1:] + np.arange(len(ladder))[:, None]).ravel()  # one sorted list for all pairs
    rows, visits = len(tables), np.zeros((len(tables), states * actions), np.int64)
    state, every = rng.integers(states, size=rows), np.arange(rows)
    for t in range(steps):
        if t % CHUNK == 0:
            shape = CHUNK, rows
            chosen, chances = rng.integers(actions, size=shape), rng.random(shape) * BELOW_ONE
            noise: Floats = mdp.noise * (rng.standard_normal(shape) if mdp.normal else rng.uniform(-1, 1, shape))
        action = chosen[t % CHUNK]
        pair = state * actions + action
        after = ladder.searchsorted(pair + chances[t % CHUNK], side="right") - pair * states
        sample = Sample(state, action, mdp.rewards[state, action] + noise[t % CHUNK], after)
        seen = visits[every, pair]
        reuse_in_place(tables, sample, rate(t, seen), mdp.gamma, times)
        visits[every, pair] = seen + 1
        state = after
        yield sample


def tables_at(
    checkpoints: Sequence[int], mdp: FiniteMDP, rate: Rate, times: int, rows: int, rng: np.random.Generator
) -> Floats:
    """The Q-tables after these numbers of steps from Q = 0, (checkpoints, rows, S, A)."""
    tables = np.zeros((rows, *mdp.rewards.shape))
    run = enumerate(play(mdp, rate, times, max(checkpoints), tables, rng), start=1)
    return np.array([tables.copy() for t, _ in run if t in checkpoints])


def distance(tables: Floats, optimal: Floats) -> Floats:
    """‖Q - Q*‖∞ of every Q-table."""
    return np.abs(tables - optimal).max((-2, -1))
