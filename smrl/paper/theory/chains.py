"""Markov chains of state-action pairs: stationary distribution and mixing time."""

from dataclasses import dataclass

import numpy as np

from smrl.errors import SmrlError, require
from smrl.paper.theory.finding import Floats
from smrl.paper.theory.finite import FiniteMDP


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
    """The chain of the pairs (s, a) under the uniform policy."""
    states, actions = mdp.rewards.shape
    return mixing(np.repeat(mdp.transitions.reshape(-1, states), actions, axis=1) / actions)


def mixing(chain: Floats, patience: int = 10_000) -> Behaviour:
    """Stationary distribution and mixing time of a chain."""
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
