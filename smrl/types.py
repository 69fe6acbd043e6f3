"""The vocabulary: what flows between environment, replay memory, reuse loop and algorithm. Imports no JAX."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from jax import Array as Array
else:
    Array = Any

Key = Array
Params = Any  # a pytree of arrays
Metrics = dict[str, Array]  # a metric that an update did not compute is NaN
State = TypeVar("State")


@dataclass(frozen=True)
class ArraySpec:
    """Shape and dtype of one observation or action, without a batch axis."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    stack: int = 1  # frames along the last axis, the oldest first; the next observation has one new frame

    def zeros(self, *leading: int) -> np.ndarray:
        """An array of zeros with these leading axes."""
        return np.zeros((*leading, *self.shape), self.dtype)


@dataclass(frozen=True)
class Continuous:
    """Real-valued actions: [-1, 1] in each dimension for the algorithm, a Box for the environment."""

    size: int
    low: tuple[float, ...] = ()  # bounds of the Box; ±1 where not given
    high: tuple[float, ...] = ()
    shape: tuple[int, ...] | None = None  # shape of the Box; a vector where not given
    dtype: str = "float32"

    @property
    def array(self) -> ArraySpec:
        """How the algorithm and the replay memory see an action."""
        return ArraySpec((self.size,))

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Low and high of the Box, as vectors."""
        low, high = self.low or (-1.0,) * self.size, self.high or (1.0,) * self.size
        return np.array(low, self.dtype), np.array(high, self.dtype)

    def random(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Uniformly random actions."""
        return generator.uniform(-1, 1, (count, self.size)).astype(np.float32)

    def decoder(self) -> Callable[[np.ndarray], np.ndarray]:
        """A function that turns one action or a batch of them into fresh arrays for the environment.

        >>> Continuous(3, low=(0, -2, 0), high=(4, 2, 10)).decoder()(np.float32([-1, 0, 1]))
        array([ 0.,  0., 10.], dtype=float32)
        """
        low, high = self.bounds
        shape = (self.size,) if self.shape is None else self.shape
        if (low == -1).all() and (high == 1).all():
            return lambda action: action.astype(self.dtype).reshape((*action.shape[:-1], *shape))
        centre, reach = (low + high) / 2, (high - low) / 2

        def decode(action: np.ndarray) -> np.ndarray:
            # Rounding may lead past a bound by the last bit, and some environments assert that actions are inside.
            scaled = np.minimum(np.maximum(action * reach + centre, low), high).astype(low.dtype, copy=False)
            return scaled.reshape((*action.shape[:-1], *shape))

        return decode

    def __str__(self) -> str:
        return f"{self.size} continuous action{'s' * (self.size > 1)}"


@dataclass(frozen=True)
class Discrete:
    """One of so many actions: 0, 1, … for the algorithm, counted from ``start`` for the environment."""

    count: int
    start: int = 0

    @property
    def array(self) -> ArraySpec:
        """How the algorithm and the replay memory see an action."""
        return ArraySpec((), "int32")

    def random(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Uniformly random actions."""
        return generator.integers(self.count, size=count, dtype=np.int32)

    def decoder(self) -> Callable[[np.ndarray], np.ndarray]:
        """A function that turns one action or a batch of them into the environment's numbers."""
        return lambda action: action.astype(np.int64) + self.start

    def __str__(self) -> str:
        return f"{self.count} discrete actions"


@dataclass(frozen=True)
class Spec:
    """What an algorithm must know of its environment."""

    obs: ArraySpec
    action: Continuous | Discrete

    def example(self, count: int = 1) -> "Transition":
        """A batch of zeros, to initialise networks and to compile with."""
        obs, scalars = self.obs.zeros(count), np.zeros(count, np.float32)
        return Transition(obs, self.action.array.zeros(count), scalars, scalars, obs)

    def to_json(self) -> dict[str, Any]:
        """What config.json says of it; a stack only where there is one."""
        saved = dataclasses.asdict(self)
        if self.obs.stack == 1:
            del saved["obs"]["stack"]
        return saved

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Spec":
        """The spec that `to_json` wrote."""

        def fields(part: str) -> dict[str, Any]:
            return {name: tuple(value) if isinstance(value, list) else value for name, value in saved[part].items()}

        action = fields("action")
        return cls(ArraySpec(**fields("obs")), Discrete(**action) if "count" in action else Continuous(**action))


class Transition(NamedTuple):
    """A batch of experience; the leading axis of every field is the batch.

    ``discount`` is γⁿ·(1 − terminated): the replay memory handles the discount factor, n-step returns and the rule
    that time-outs bootstrap, so no algorithm has to.
    """

    obs: Any  # (batch, *obs)
    action: Any  # (batch, size) in [-1, 1], or (batch,) integers
    reward: Any  # (batch,)
    discount: Any  # (batch,)
    next_obs: Any  # (batch, *obs)


class UpdateContext(NamedTuple):
    """When an update happens; the same for all reuses of one batch."""

    step: Array  # learning steps, from 1
    round: Array  # which fresh batch of this learning step, from 0
    rounds: int  # fresh batches per learning step
    batch_key: Key  # randomness that all reuses of one batch share
    agent_step: Array  # agent steps before the one that is learned after, in all environments together


class Appraisal(NamedTuple):
    """An action of the current policy and the value that the critics give it."""

    action: Array  # (batch, *action)
    q: Array  # (batch,), the mean of all critics
    log_prob: Array  # (batch,), zero for a deterministic policy
    alpha: Array  # the temperature, zero where there is none


def _unchanged(state: State, context: UpdateContext) -> State:
    return state


@dataclass(frozen=True)
class Algorithm(Generic[State]):
    """A bundle of pure functions. Observations and actions carry a leading batch axis."""

    init: Callable[[Key], State]
    explore: Callable[[State, Any, Array, Key], Array]  # state, obs, agent steps so far, key → action while training
    exploit: Callable[[State, Any], Array]  # state, obs → action of the greedy policy
    update: Callable[[State, Transition, UpdateContext, Key], tuple[State, Metrics]]  # ONE update on ONE batch
    td_error: Callable[[State, Transition, Key], Array]  # state, batch, key → Q − target, (batch,); learns nothing
    appraise: Callable[[State, Any, Key], Appraisal]  # state, obs, key → for the estimation bias
    after_updates: Callable[[State, UpdateContext], State] = _unchanged  # once after all updates of a learning step
    reset: Callable[[State, Key], State] | None = None  # a periodic reset; None: a new init
    rounds: int = 1  # fresh batches that one pass over all networks takes
    learn_every: int = 1  # agent steps per learning step
