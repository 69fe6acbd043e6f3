"""Q-learning and Q-SMR, with all runs of many seeds in one compiled program.

    for t in range(T):                                   # environment steps
        a = ε-greedy in Q(s, ·);  r, s' = reward, next state
        for m in range(M):                               # the reuse loop of `smrl.reuse`, around `update`
            Q(s, a) ← (1 − α)·Q(s, a) + α·(r + γ·(1 − terminal)·max Q(s', ·))

M = 1 is Q-learning. Each reuse recomputes the maximum, which matters where s' = s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from smrl import randomness
from smrl.errors import require
from smrl.paper.tabular.grid_world import GridTask
from smrl.smr.loop import reuse
from smrl.smr.rules import rule_of
from smrl.types import Array, Key, Transition

BLOCK = 64  # steps per draw of random numbers; single draws would take ten times as long as everything else

RateKind = Literal["constant", "steps", "visits"]


@dataclass(frozen=True)
class Rate:
    """The learning rate: ``alpha``, or h / (M·(t + t0)) by steps t from 0, or 1 / n^omega by visits n of (s, a)."""

    kind: RateKind = "constant"
    alpha: float = 0.05
    h: float = 1.0
    t0: float = 1.0
    omega: float = 0.77

    def __post_init__(self) -> None:
        known = get_args(RateKind)
        require(self.kind in known, f"there is no learning rate '{self.kind}'; choose one of {', '.join(known)}.")
        require(0 <= self.alpha <= 1, f"alpha must be from 0 to 1, not {self.alpha:g}.")
        require(0 < self.h <= self.t0, f"h must be above 0 and at most t0, not {self.h:g} with t0 {self.t0:g}.")
        require(0 <= self.omega < float("inf"), f"omega must be at least 0, not {self.omega:g}.")

    def at(self, step: Array, visits: Array, times: Array) -> Array:
        """Return the rate at a step (from 0), given the visits of (s, a) including this one, and M = ``times``."""
        if self.kind == "steps":
            return self.h / (times * (step + self.t0))
        return visits.astype(jnp.float32) ** -self.omega if self.kind == "visits" else jnp.float32(self.alpha)


@dataclass(frozen=True)
class Settings:
    """Settings of tabular learning; the defaults are the paper's Q-learning on CliffWalking."""

    reuse: int | str = 1
    episodes: int = 500
    rate: Rate = Rate()
    gamma: float = 0.99
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        rule_of(self.reuse)  # refuses an invalid rule
        require(self.episodes >= 1, f"episodes must be at least 1, not {self.episodes}.")
        require(0 <= self.gamma < 1, f"gamma must be at least 0 and below 1, not {self.gamma:g}.")
        require(0 <= self.epsilon <= 1, f"epsilon must be from 0 to 1, not {self.epsilon:g}.")


@dataclass(frozen=True, eq=False)
class Result:
    """Results, (seeds, episodes) except for ``q``; a greedy episode follows each training episode."""

    training_return: np.ndarray
    training_steps: np.ndarray
    training_goal: np.ndarray  # whether the goal was reached
    greedy_return: np.ndarray
    greedy_steps: np.ndarray
    greedy_goal: np.ndarray
    q: np.ndarray  # (seeds, states, actions): the final Q-table


class Tables(NamedTuple):
    """A `GridTask` as arrays."""

    next_state: Array
    reward: Array
    terminal: Array
    start: Array
    goal: Array
    max_steps: Array


class Walk(NamedTuple):
    """State of a run: Q-table, visit counts, and the current training episode."""

    q: Array
    visits: Array
    step: Array  # of the whole run, from 0
    state: Array
    total: Array
    taken: Array  # steps of this episode
    over: Array


def update(q: Array, batch: tuple[Transition, Array], _: Key) -> tuple[Array, tuple[()]]:
    """Update the Q-table on a transition, whose observations are states, with a learning rate."""
    seen, rate = batch
    target = seen.reward + seen.discount * q[seen.next_obs].max()
    here = seen.obs, seen.action
    return q.at[here].set((1 - rate) * q[here] + rate * target), ()


def draws(root: Key, block: Array | int) -> Array:
    """Draw two uniform numbers for each step of a block: whether to explore, and which random action."""
    return jax.random.uniform(randomness.at(root, block), (BLOCK, 2))


def learn(tasks: GridTask | Sequence[GridTask], settings: Settings, seeds: Sequence[int]) -> Result:
    """Learn with each seed, on one task or on a task per seed."""
    tasks = [tasks] * len(seeds) if isinstance(tasks, GridTask) else list(tasks)
    require(len(seeds) > 0, "at least one seed is needed.")
    require(len(tasks) == len(seeds), f"{len(seeds)} seeds need as many tasks or a single one, not {len(tasks)}.")
    require(len({task.reward.shape for task in tasks}) == 1, "the tasks of all seeds must be of the same size.")
    kinds = {"reward": np.float32, "terminal": np.bool}
    columns = {name: [getattr(task, name) for task in tasks] for name in Tables._fields}
    tables = Tables(**{name: jnp.asarray(np.stack(part), kinds.get(name, np.int32)) for name, part in columns.items()})
    found = _learn(tables, jnp.asarray(seeds, jnp.uint32), settings)
    return Result(*(np.asarray(leaf) for leaf in found))


@partial(jax.jit, static_argnums=2)
def _learn(tables: Tables, seeds: Array, settings: Settings) -> tuple[Array, ...]:
    # Not vmapped over seeds: in a vmapped while_loop all seeds wait for the slowest, and every step copies every table.
    return jax.lax.map(lambda item: _run(item[0], item[1], settings), (tables, seeds))


def _run(task: Tables, seed: Array, settings: Settings) -> tuple[Array, ...]:
    rule = rule_of(settings.reuse)
    repeat = reuse(update, rule)
    root = randomness.key(seed, randomness.Purpose.EXPLORE)  # type: ignore[arg-type]  # a traced seed works too

    def step(numbers: Array, walk: Walk) -> Walk:
        explore, where = numbers[walk.step % BLOCK]
        greedy = jnp.argmax(walk.q[walk.state]).astype(jnp.int32)  # ties go to the first action
        here = walk.state, jnp.where(explore < settings.epsilon, (where * walk.q.shape[1]).astype(jnp.int32), greedy)
        visits = walk.visits.at[here].add(1)
        rate = settings.rate.at(walk.step, visits[here], jnp.asarray(rule.times((), walk.step + 1)))
        over, reward = task.terminal[here], task.reward[here]
        seen = Transition(*here, reward, jnp.where(over, 0, settings.gamma), task.next_state[here])
        q, _ = repeat(walk.q, (seen, rate), root, walk.step + 1)
        return Walk(q, visits, walk.step + 1, seen.next_obs, walk.total + reward, walk.taken + 1, over)

    def unfinished(walk: Walk) -> Array:
        return ~walk.over & (walk.taken < task.max_steps)

    def block(walk: Walk) -> Walk:
        index = walk.step // BLOCK
        inside = partial(step, draws(root, index))
        return jax.lax.while_loop(lambda walk: unfinished(walk) & (walk.step // BLOCK == index), inside, walk)

    def episode(walk: Walk, _: None) -> tuple[Walk, tuple[Array, ...]]:
        walk = jax.lax.while_loop(unfinished, block, Walk(walk.q, walk.visits, walk.step, *fresh))
        training = walk.total, walk.taken, walk.over & (walk.state == task.goal)
        return walk, (*training, *_greedy_episode(task, walk.q))

    fresh = task.start, jnp.float32(0), jnp.int32(0), jnp.bool(False)
    shape = task.reward.shape
    nothing = Walk(jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.int32), jnp.int32(0), *fresh)
    walk, numbers = jax.lax.scan(episode, nothing, length=settings.episodes)
    return *numbers, walk.q


def _greedy_episode(task: Tables, q: Array) -> tuple[Array, Array, Array]:
    """Return the return, the steps and the success of a greedy episode.

    They are computed by doubling: the effect of 2ᵏ steps from every state, applied twice, is that of 2ᵏ⁺¹ steps. So a
    policy that walks in circles until the time limit costs no more than any other. An extra state absorbs episodes
    that have ended.
    """
    end = q.shape[0]
    here = jnp.arange(end), jnp.argmax(q, 1)
    over, arrival = task.terminal[here], task.next_state[here]
    per_step = task.reward[here], jnp.ones(end, jnp.int32), (over & (arrival == task.goal)).astype(jnp.int32)
    follow = jnp.append(jnp.where(over, end, arrival), end)
    gains = jax.tree.map(lambda gain: jnp.append(gain, 0), per_step)

    def double(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        left, state, totals, follow, gains = carry
        now = left % 2 == 1
        totals = jax.tree.map(lambda total, gain: total + jnp.where(now, gain[state], 0), totals, gains)
        gains = jax.tree.map(lambda gain: gain + gain[follow], gains)
        return left // 2, jnp.where(now, follow[state], state), totals, follow[follow], gains

    walk = task.max_steps, task.start, (jnp.float32(0), jnp.int32(0), jnp.int32(0)), follow, gains
    total, steps, arrived = jax.lax.while_loop(lambda carry: carry[0] > 0, double, walk)[2]
    return total, steps, arrived > 0
