"""Types that flow between environment, replay memory, reuse loop and algorithm. Imports no JAX."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from smrl.errors import SmrlError, require, short_repr
from smrl.layers import Layer, Rescale

if TYPE_CHECKING:
    from jax import Array as Array
else:
    Array = Any

Key = Array
Params = Any  # a pytree of arrays
Metrics = dict[str, Array]  # a metric that an update did not compute is NaN
State = TypeVar("State")

LARGEST_ARRAY = 2**24  # numbers in one observation; 256 images of 84×84×9 have as many
LARGEST_ACTION = 2**16  # dimensions of an action, or number of discrete actions
Axes = Annotated[tuple[Annotated[int, Meta(ge=1, le=LARGEST_ARRAY)], ...], Meta(max_length=8)]
Bounds = Annotated[tuple[float, ...], Meta(max_length=LARGEST_ACTION)]


@dataclass(frozen=True)
class ArraySpec:
    """Shape and dtype of one observation or action, without a batch axis."""

    shape: Axes
    dtype: str = "float32"
    stack: Annotated[int, Meta(ge=1)] = 1  # frames along the last axis, the oldest first; each step adds one

    def __post_init__(self) -> None:
        size = math.prod(self.shape)
        require(size <= LARGEST_ARRAY, f"an array of {size:,} numbers is too large: at most {LARGEST_ARRAY:,} fit.")
        require(_is_numeric(self.dtype), f"{short_repr(self.dtype)} is not a dtype of numbers.")
        is_stack = self.stack == 1 or sum(self.shape[-1:]) % self.stack == 0
        require(is_stack, f"{self.shape} is no stack of {self.stack} frames.")

    def zeros(self, *leading: int) -> np.ndarray:
        """Return zeros with the given leading axes."""
        return np.zeros((*leading, *self.shape), self.dtype)


@dataclass(frozen=True)
class Entry:
    """One Box of an observation: its keys in Dicts, its indices in Tuples as digits, and its shape."""

    path: tuple[str, ...]
    shape: Axes


@dataclass(frozen=True)
class Continuous:
    """Real-valued actions: [-1, 1] in each dimension for the algorithm, a Box for the environment."""

    size: Annotated[int, Meta(ge=1, le=LARGEST_ACTION)]
    low: Bounds = ()  # bounds of the Box; ±1 where not given
    high: Bounds = ()
    shape: Axes | None = None  # shape of the Box; a vector where not given
    dtype: str = "float32"

    def __post_init__(self) -> None:
        require(self.size <= LARGEST_ACTION, f"actions have at most {LARGEST_ACTION:,} dimensions, not {self.size:,}.")
        require(_is_numeric(self.dtype), f"{short_repr(self.dtype)} is not a dtype of numbers.")
        lengths = {len(self.low) or self.size, len(self.high) or self.size, math.prod(self.shape or (self.size,))}
        is_finite = all(map(math.isfinite, (*self.low, *self.high)))
        require(is_finite and lengths == {self.size}, f"{self.size} actions need as many finite bounds.")

    @property
    def array(self) -> ArraySpec:
        """Return the shape and dtype of an action as the algorithm and the replay memory see it."""
        return ArraySpec((self.size,))

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper bounds of the Box as vectors."""
        low, high = self.low or (-1.0,) * self.size, self.high or (1.0,) * self.size
        return np.array(low, self.dtype), np.array(high, self.dtype)

    @property
    def rescale(self) -> Rescale | None:
        """Return the layer that maps [-1, 1] to the bounds; None where these are ±1."""
        low, high = self.bounds
        if (low == -1).all() and (high == 1).all():
            return None
        return Rescale(reach=(high - low) / 2, centre=(low + high) / 2, low=low, high=high)

    def random(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Draw ``count`` uniformly random actions."""
        return generator.uniform(-1, 1, (count, self.size)).astype(np.float32)

    def decoder(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function that maps an action, or a batch of them, to the units of the environment.

        >>> Continuous(3, low=(0, -2, 0), high=(4, 2, 10)).decoder()(np.float32([-1, 0, 1]))
        array([ 0.,  0., 10.], dtype=float32)
        """
        shape = (self.size,) if self.shape is None else self.shape
        rescale = self.rescale
        if rescale is None:
            return lambda action: action.astype(self.dtype).reshape((*action.shape[:-1], *shape))
        reach, centre, low, high = rescale.reach, rescale.centre, rescale.low, rescale.high

        def decode(action: np.ndarray) -> np.ndarray:
            # Rounding may exceed a bound by one bit, and some environments assert that actions are in bounds.
            scaled = np.minimum(np.maximum(action * reach + centre, low), high).astype(low.dtype, copy=False)
            return scaled.reshape((*action.shape[:-1], *shape))

        return decode

    def encoder(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return the inverse of the decoder: it maps a batch of actions within the bounds to vectors in [-1, 1].

        >>> Continuous(3, low=(0, -2, 0), high=(4, 2, 10)).encoder()(np.float32([[0, 0, 10]]))
        array([[-1.,  0.,  1.]], dtype=float32)
        """
        low, high = (bound.astype(np.float64) for bound in self.bounds)
        centre, reach = (low + high) / 2, (high - low) / 2
        return lambda action: np.clip((action.reshape(-1, self.size) - centre) / reach, -1, 1).astype(
            np.float32
        )  # by rounding

    def __str__(self) -> str:
        return f"{self.size} continuous action{'s' * (self.size > 1)}"


@dataclass(frozen=True)
class Discrete:
    """Actions 0, …, count − 1 for the algorithm; the environment counts them from ``start``."""

    count: Annotated[int, Meta(ge=1, le=LARGEST_ACTION)]
    start: Annotated[int, Meta(ge=-(2**31), lt=2**31)] = 0

    def __post_init__(self) -> None:
        require(self.count <= LARGEST_ACTION, f"there are at most {LARGEST_ACTION:,} actions, not {self.count:,}.")

    @property
    def array(self) -> ArraySpec:
        """Return the shape and dtype of an action as the algorithm and the replay memory see it."""
        return ArraySpec((), "int32")

    def random(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Draw ``count`` uniformly random actions."""
        return generator.integers(self.count, size=count, dtype=np.int32)

    def decoder(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function that maps an action, or a batch of them, to the numbers of the environment."""
        return lambda action: action.astype(np.int64) + self.start

    def encoder(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return the inverse of the decoder, for a batch of actions."""
        return lambda action: (action.astype(np.int64) - self.start).astype(np.int32)

    def __str__(self) -> str:
        return f"{self.count} discrete actions"


@dataclass(frozen=True)
class Spec:
    """Observations and actions of an environment, as an algorithm needs to know them."""

    obs: ArraySpec
    action: Continuous | Discrete
    entries: tuple[Entry, ...] = ()  # of the environment's observation: joined and padded with zeros, they are obs

    def __post_init__(self) -> None:
        size, room = (sum(math.prod(part.shape) for part in parts) for parts in (self.entries, (self.obs,)))
        require(size <= room, f"entries of {size} numbers do not fit into observations of {room}")

    def __str__(self) -> str:
        what = f"observations of shape {self.obs.shape} and dtype {self.obs.dtype}, {self.action}"
        if isinstance(self.action, Discrete):
            return what
        low, high = self.action.bounds
        return f"{what} in [{low.min():g}, {high.max():g}]"

    def example(self, count: int = 1) -> "Transition":
        """Return a batch of zeros, to initialise networks and to compile with."""
        obs, scalars = self.obs.zeros(count), np.zeros(count, np.float32)
        return Transition(obs, self.action.array.zeros(count), scalars, scalars, obs)

    def to_json(self) -> dict[str, Any]:
        """Return the form that config.json stores; ``stack`` is left out where it is 1, ``entries`` where it is ()."""
        saved = dataclasses.asdict(self)
        if not self.entries:
            del saved["entries"]
        if self.obs.stack == 1:
            del saved["obs"]["stack"]
        return saved

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Spec":
        """Rebuild a spec from the result of `to_json`; nothing is allocated for one that is not valid."""
        action: Any = Discrete if "count" in saved["action"] else Continuous
        try:
            entries = msgspec.convert(saved.get("entries", ()), tuple[Entry, ...])
            return cls(msgspec.convert(saved["obs"], ArraySpec), msgspec.convert(saved["action"], action), entries)
        except (SmrlError, ValueError) as error:
            message = f"the spec of the environment in config.json is not valid: {error}"
            raise SmrlError(f"{message.removesuffix('.')}; restore the file from a copy.") from None


def _is_numeric(dtype: str) -> bool:
    try:
        return np.dtype(dtype).kind in "biuf"
    except (TypeError, ValueError, SyntaxError):  # NumPy evaluates a text with commas
        return False


class Transition(NamedTuple):
    """A batch of experience; the leading axis of every field is the batch.

    ``discount`` is γⁿ·(1 − terminated). The replay memory applies the discount factor, n-step returns and bootstrapping
    at time-outs, so algorithms need not.
    """

    obs: Any  # (batch, *obs)
    action: Any  # (batch, size) in [-1, 1], or (batch,) integers
    reward: Any  # (batch,)
    discount: Any  # (batch,)
    next_obs: Any  # (batch, *obs)


class UpdateContext(NamedTuple):
    """When an update happens. All reuses of one batch share it."""

    step: Array  # learning steps, from 1
    round: Array  # which fresh batch of this learning step, from 0
    rounds: int  # fresh batches per learning step
    batch_key: Key  # randomness that all reuses of one batch share
    agent_step: Array  # agent steps taken before this learning step, in all environments together


def _whole_state(state: Any) -> Any:
    return state


def _unchanged(state: State, context: UpdateContext) -> State:
    return state


@dataclass(frozen=True)
class Algorithm(Generic[State]):
    """A bundle of pure functions. Observations and actions have a leading batch axis.

    The last functions of the state serve diagnostics (estimation bias, TD error, hidden units), and ``network`` serves
    `smrl export`. An algorithm without them trains; asking such an algorithm for a diagnostic or an export raises an
    error, or leaves it out.
    """

    init: Callable[[Key], State]
    update: Callable[[State, Transition, UpdateContext, Key], tuple[State, Metrics]]  # ONE update on ONE batch
    explore: Callable[[Any, Any, Array, Key], Array]  # policy_params, obs, agent steps so far, key → training action
    exploit: Callable[[Any, Any], Array]  # policy_params, obs → greedy action
    policy_params: Callable[[State], Any] = _whole_state  # the part of the state that explore and exploit read
    after_updates: Callable[[State, UpdateContext], State] = _unchanged  # once after all updates of a learning step
    reset: Callable[[State, Key], State] | None = None  # a periodic reset; None calls init again
    rounds: int = 1  # fresh batches that one pass over all networks takes
    learn_every: int = 1  # agent steps per learning step
    q_values: Callable[[State, Any, Array], Array] | None = None  # state, obs, action → (critics, batch)
    policy_sample: Callable[[State, Any, Key], tuple[Array, Array]] | None = None  # state, obs, key → action, log π
    temperature: Callable[[State], Array] | None = None  # state → weight α of the entropy; None where there is none
    network: Callable[[Any], Sequence[Layer]] | None = None  # policy_params as NumPy arrays → the layers of exploit
    critic_networks: Callable[[State], Sequence[Sequence[Layer]]] | None = None  # state → layers of each Q of (s, a)
