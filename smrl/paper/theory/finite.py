"""Small random MDPs, their optimal values, and Q-learning with a reuse loop, in float64."""

from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from smrl.errors import require
from smrl.paper.theory.finding import Floats, Ints


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
        """The same MDP with all rewards multiplied."""
        return replace(self, rewards=factor * self.rewards, noise=factor * self.noise)


def check_gamma(gamma: float) -> None:
    """Require a discount factor in [0, 1)."""
    require(0 <= gamma < 1, f"gamma must be at least 0 and below 1, not {gamma}.")


def check_update(rate: ArrayLike, gamma: float, times: int) -> None:
    """Require a learning rate in [0, 1], a discount factor in [0, 1) and M of at least 1."""
    check_gamma(gamma)
    require(times >= 1, f"the reuse ratio M must be at least 1, not {times}.")
    rates = np.asarray(rate)
    wrong = rates[~((rates >= 0) & (rates <= 1))]  # so that NaN is wrong too
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

    With probability ``stay``, s' = s in place of the draw; ``nonreturnable`` rules out s' = s.
    """
    require(states >= 1 + nonreturnable and actions >= 1, "an MDP needs actions, and two states to leave one always.")
    require(0 <= stay <= 1, f"the chance to stay must be within [0, 1], not {stay}.")
    require(not (nonreturnable and stay), "a non-returnable MDP leaves no chance to stay.")
    itself = np.eye(states)[:, None, :]
    weights = rng.exponential(size=(states, actions, states)) * (1 - itself * nonreturnable)
    transitions = stay * itself + (1 - stay) * weights / weights.sum(-1, keepdims=True)
    return FiniteMDP(transitions, rng.uniform(-1, 1, (states, actions)), gamma, noise, normal)


def value_iteration(mdp: FiniteMDP, tolerance: float = 1e-12) -> Floats:
    """Q* by value iteration, within the tolerance in the maximum norm."""
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
    """The Q-table after M = ``times`` reuses of a transition, with the maximum recomputed each time; makes a copy.

    The table is (S, A), or (R, S, A) with one transition per row; the rate may differ by row.

    >>> q_smr_step(np.zeros((2, 1)), Sample(0, 0, 1.0, 1), 0.5, 0.9, 2)[:, 0].tolist()
    [0.75, 0.0]
    """
    check_update(rate, gamma, times)
    new = np.array(table, np.float64, order="C", ndmin=3)
    reuse_in_place(new, sample, rate, gamma, times)
    return new.reshape(np.shape(table))


def reuse_in_place(tables: Floats, sample: Sample, rate: float | Floats, gamma: float, times: int) -> None:
    """The reuse loop of the theorems on contiguous tables (R, S, A), without checks; independent of `smrl.reuse`."""
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
    """Effective learning rate 1 - (1 - α)^M, accurate for small rates too."""
    check_update(rate, 0, times)
    with np.errstate(divide="ignore"):  # α = 1 gives log 0, and then correctly 1
        return np.asarray(-np.expm1(times * np.log1p(-np.asarray(rate, np.float64))))
