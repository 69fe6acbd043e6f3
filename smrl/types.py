"""The vocabulary: what flows between environment, replay, reuse and algorithm."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import numpy as np

Array = jax.Array
Key = jax.Array
Params = Any  # a pytree of arrays
Metrics = dict[str, Array]
State = TypeVar("State")


class Transition(NamedTuple):
    """A batch of experience; the leading axis of every field is the batch.

    ``discount`` is γⁿ·(1 − terminated): the discount factor, n-step returns and the rule that time-outs
    bootstrap are settled by the replay memory, so that no algorithm has to know them.
    """

    obs: Array  # (batch, obs)
    action: Array  # (batch, action), each in [-1, 1]
    reward: Array  # (batch,)
    discount: Array  # (batch,)
    next_obs: Array  # (batch, obs)


class Tick(NamedTuple):
    """When an update happens; the same for all reuses of one batch."""

    step: Array  # environment steps that learned, from 1
    round: Array  # which fresh batch of this step, from 0
    rounds: int  # how many fresh batches a step has
    batch_key: Key  # randomness that all reuses of one batch share


class Appraisal(NamedTuple):
    """What a critic expects of an action that its own policy draws."""

    action: Array  # (batch, action)
    q: Array  # (batch,), the mean of all critics
    log_prob: Array  # (batch,), zero for a deterministic policy
    alpha: Array  # the temperature, zero where there is none


@dataclass(frozen=True)
class Spec:
    """What an algorithm must know of its environment."""

    obs_size: int
    action_size: int


@dataclass(frozen=True)
class Algorithm(Generic[State]):
    """A bundle of pure functions; actions are in [-1, 1], observations carry a leading batch axis."""

    init: Callable[[Key], State]
    explore: Callable[[State, Array | np.ndarray, Array, Key], Array]  # state, obs, step, key → action
    exploit: Callable[[State, Array | np.ndarray], Array]  # state, obs → action
    update: Callable[[State, Transition, Tick, Key], tuple[State, Metrics]]  # ONE update on ONE batch
    appraise: Callable[[State, Array | np.ndarray, Key], Appraisal]  # how good Q believes the policy to be
    rounds: int = 1  # fresh batches that one pass over all networks takes
    learn_every: int = 1
