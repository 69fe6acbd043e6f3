"""Small random MDPs in float64: optimal values, the chain of state-action pairs, and Q-learning with reuse."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from smrl.errors import SmrlError, require
from smrl.paper.theory.finding import Floats, Ints

CHUNK = 1024  # steps drawn at once because single draws are slow
BELOW_ONE = 1 - 1e-12  # keeps pair + chance below pair + 1 despite rounding

Rate = Callable[[int, Ints], Floats]  # step t from 0 and, per run, the earlier visits of the current (s, a) → α


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """A finite MDP; rewards are uniform within ±``noise`` of their means, or normal with this standard deviation."""

    transitions: Floats  # P[s, a, s'], each row a distribution
    rewards: Floats  # mean reward r[s, a]
    gamma: float
    noise: float = 0.0
    normal: bool = False  # normal noise: rewards of finite variance and without a bound

    def __post_init__(self) -> None:
        """Check that the tables define an MDP."""
        check_gamma(self.gamma)
        states, actions = self.rewards.shape
        require(self.transitions.shape == (states, actions, states), "transitions must be shaped (S, A, S).")
        sound = bool((self.transitions >= 0).all()) and np.allclose(self.transitions.sum(-1), 1)
        require(sound, "every row of the transitions must be a distribution over the next states.")
        require(self.noise >= 0, f"the noise of the reward must not be negative, and it is {self.noise}.")

    @property
    def reward_bound(self) -> float:
        """r_max, the largest possible |r_t|."""
        return inf if self.normal else float(np.abs(self.rewards).max() + self.noise)

    @property
    def value_bound(self) -> float:
        """r_max / (1 - γ), the bound of all values."""
        return self.reward_bound / (1 - self.gamma)

    def scaled(self, factor: float) -> "FiniteMDP":
        """Return the same MDP with all rewards multiplied."""
        return replace(self, rewards=factor * self.rewards, noise=factor * self.noise)


def check_gamma(gamma: float) -> None:
    """Require a discount factor in [0, 1)."""
    require(0 <= gamma < 1, f"gamma must be at least 0 and below 1, not {gamma}.")


def check_update(rate: ArrayLike, gamma: float, times: int) -> None:
    """Require a learning rate in [0, 1], a discount factor in [0, 1) and M of at least 1."""
    check_gamma(gamma)
    require(times >= 1, f"the reuse ratio M must be at least 1, not {times}.")
    rates = np.asarray(rate)
    wrong = rates[~((rates >= 0) & (rates <= 1))]  # includes NaN
    require(not wrong.size, f"the learning rate must be within [0, 1], not {next(iter(wrong), 0):g}.")


def random_mdp(
    rng: np.random.Generator,
    states: int = 4,
    actions: int = 2,
    gamma: float = 0.8,
    noise: float = 0.0,
    normal: bool = False,
    stay: float = 0.0,
    nonreturnable: bool = False,
) -> FiniteMDP:
    """Draw transitions (flat Dirichlet) and mean rewards in [-1, 1].

    With probability ``stay``, s' = s instead of the draw; ``nonreturnable`` rules out s' = s.
    """
    require(states >= 1 + nonreturnable and actions >= 1, "an MDP needs actions, and two states to leave one always.")
    require(0 <= stay <= 1, f"the chance to stay must be within [0, 1], not {stay}.")
    require(not (nonreturnable and stay), "a non-returnable MDP leaves no chance to stay.")
    itself = np.eye(states)[:, None, :]
    weights = rng.exponential(size=(states, actions, states)) * (1 - itself * nonreturnable)
    transitions = stay * itself + (1 - stay) * weights / weights.sum(-1, keepdims=True)
    return FiniteMDP(transitions, rng.uniform(-1, 1, (states, actions)), gamma, noise, normal)


def value_iteration(mdp: FiniteMDP, tolerance: float = 1e-12) -> Floats:
    """Compute Q* by value iteration, within the tolerance in the maximum norm."""
    values = np.zeros_like(mdp.rewards)
    while True:
        better = mdp.rewards + mdp.gamma * mdp.transitions @ values.max(-1)
        # by contraction, the remaining error is at most γ / (1 - γ) times the last change
        missing = np.abs(better - values).max() * mdp.gamma / (1 - mdp.gamma)
        values = better
        # the second bound is the precision of float64
        if missing <= max(tolerance, 1e-14 * np.abs(values).max()):
            return values


class Sample(NamedTuple):
    """A transition, or an array of transitions with one per Q-table."""

    state: int | Ints
    action: int | Ints
    reward: float | Floats
    following: int | Ints


def q_smr_step(table: Floats, sample: Sample, rate: float | Floats, gamma: float, times: int) -> Floats:
    """Return a copy of the Q-table after M = ``times`` reuses of a transition, each with a recomputed maximum.

    The table is (S, A), or (R, S, A) with one transition per row; the rate may differ by row.

    >>> q_smr_step(np.zeros((2, 1)), Sample(0, 0, 1.0, 1), 0.5, 0.9, 2)[:, 0].tolist()
    [0.75, 0.0]
    """
    check_update(rate, gamma, times)
    new = np.array(table, np.float64, order="C", ndmin=3)
    reuse_in_place(new, sample, rate, gamma, times)
    return new.reshape(np.shape(table))


def reuse_in_place(tables: Floats, sample: Sample, rate: float | Floats, gamma: float, times: int) -> None:
    """Run the theorems' reuse loop on contiguous tables (R, S, A), without checks and independent of `smrl.reuse`."""
    _, states, actions = tables.shape
    flat = tables.reshape(-1)  # a view; one flat index is faster than three
    start = np.arange(0, flat.size, states * actions)
    here = start + sample.state * actions + sample.action
    after = start + sample.following * actions + np.arange(actions)[:, None]
    keep, gain, discount, value = 1 - rate, rate * sample.reward, rate * gamma, flat[here]
    for _ in range(times):
        value = keep * value + (gain + discount * np.maximum.reduce(flat[after]))
        flat[here] = value


def effective_rate(rate: ArrayLike, times: int) -> Floats:
    """Return the effective learning rate 1 - (1 - α)^M, accurate for small rates too."""
    check_update(rate, 0, times)
    with np.errstate(divide="ignore"):  # α = 1 gives log 0, and then correctly 1
        return np.asarray(-np.expm1(times * np.log1p(-np.asarray(rate, np.float64))))


@dataclass(frozen=True, eq=False)
class Behaviour:
    """A Markov chain of state-action pairs, ordered by s, then a."""

    chain: Floats  # (SA, SA)
    stationary: Floats  # (SA,)
    mixing_time: int  # steps until total variation from the stationary distribution is at most 1/4, for every start

    @property
    def rarest(self) -> float:
        """μ_min, the smallest stationary probability of a pair."""
        return float(self.stationary.min())


def behaviour(mdp: FiniteMDP) -> Behaviour:
    """Return the chain of the pairs (s, a) under the uniform policy."""
    states, actions = mdp.rewards.shape
    return mixing(np.repeat(mdp.transitions.reshape(-1, states), actions, axis=1) / actions)


def mixing(chain: Floats, patience: int = 10_000) -> Behaviour:
    """Compute the stationary distribution and the mixing time of a chain."""
    size = len(chain)
    equations = np.vstack([chain.T - np.eye(size), np.ones(size)])
    stationary = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    reach = np.eye(size)
    for steps in range(1, patience + 1):
        reach = reach @ chain
        if 0.5 * np.abs(reach - stationary).sum(1).max() <= 0.25:
            require(stationary.min() > 0, "the behaviour policy never visits some pairs, so no bound applies to them.")
            return Behaviour(chain, stationary, steps)
    raise SmrlError(f"the chain of state-action pairs is periodic or reducible: it did not mix in {patience} steps.")


def play(
    mdp: FiniteMDP, rate: Rate, times: int, steps: int, tables: Floats, rng: np.random.Generator
) -> Iterator[Sample]:
    """Update Q-tables (rows, S, A) in place along trajectories of the uniform policy; yield each step's transitions."""
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
    """Return the Q-tables after these numbers of steps from Q = 0, (checkpoints, rows, S, A)."""
    tables = np.zeros((rows, *mdp.rewards.shape))
    run = enumerate(play(mdp, rate, times, max(checkpoints), tables, rng), start=1)
    return np.array([tables.copy() for t, _ in run if t in checkpoints])


def distance(tables: Floats, optimal: Floats) -> Floats:
    """Return ‖Q - Q*‖∞ of every Q-table."""
    return np.abs(tables - optimal).max((-2, -1))
