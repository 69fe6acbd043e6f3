"""Sample multiple reuse: the loop of the paper, for any update.

    for round in range(rounds):        # a fresh batch per round
        for m in range(M):             # the same batch, M times
            state = update(state, batch)

The inner loop is `repeat` and exists only here. `reuse` puts it around any update, and `learner` puts the rounds of an
algorithm around it.
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from smrl.errors import SmrlError, require, short_repr
from smrl.smr.auto import Auto, Probe
from smrl.smr.rules import LARGEST_REUSE, Budget, ProbingRule, Rule, Schedule, rule_of
from smrl.types import Algorithm, Array, Key, Metrics, State, Transition, UpdateContext

S = TypeVar("S")
Update = Callable[[S, Any, Key], Any]  # state, batch, key → state and report, or the state alone


def repeat(update: Update[S], state: S, batch: Any, key: Key, times: Array) -> tuple[S, Any]:
    """Update ``times`` times on the same batch, with the keys fold_in(key, 0), …; average the reports."""
    update = jax.jit(update, inline=True)  # so that it is traced once for its shapes and for the loop
    answer = jax.eval_shape(update, state, batch, key)
    structures: list[Any] = [jax.tree.structure(tree) for tree in (answer, state)]
    is_state_alone = structures[0] == structures[1]

    def once(m: Array, carry: tuple[S, Any]) -> tuple[S, Any]:
        state, total = carry
        answer = update(state, batch, jax.random.fold_in(key, m))
        state, report = (answer, None) if is_state_alone else answer
        return state, jax.tree.map(jnp.add, total, report)

    report = None if is_state_alone else answer[1]
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), report)
    state, total = jax.lax.fori_loop(0, times, once, (state, nothing))
    return state, jax.tree.map(lambda leaf: leaf / times, total)


def reuse(update: Update[S], times: int | str | Rule = 10) -> Callable[..., tuple[Any, Any]]:
    """Make ``learn(state, batch, key, step=None, probe=None)``, which updates ``times`` times on the same batch.

    ``update(state, batch, key)`` is any pure function that returns the new state and a pytree of numbers to report, or
    only the new state. ``times`` is a number, a schedule (``"10:300000,1"``: ten until step 300,000, then one) or a
    rule; a schedule and a rule need the step, counted from 1. With a rule that has a carry, the state is the pair
    ``(state, rule.init())``. A rule that measures on held-out rows (`smrl.Auto`) also needs ``learn(…, probe=probe)``
    with a `smrl.Probe` at every step that is due. M is data, not code, so ``learn`` compiles once. The state is
    donated: keep only the returned one.

    >>> learn = reuse(lambda x, batch, key: (x + batch, {"x": x}), times=3)
    >>> state, report = learn(jnp.float32(0), jnp.float32(2), jax.random.key(0))
    >>> float(state), float(report["x"])
    (6.0, 2.0)
    """
    require(callable(update), f"update must be a function (state, batch, key), not {short_repr(update)}.")
    rule = rule_of(times)
    require(not isinstance(rule, Budget), f"{rule} is the time of a run of smrl train; give a number or a schedule.")
    needs_step = not (isinstance(rule, Auto) or (isinstance(rule, Schedule) and not rule.until))
    has_carry = bool(jax.tree.leaves(rule.init()))

    def learn(
        state: Any, batch: Any, key: Key, step: Array | int | None = None, probe: Probe | None = None
    ) -> tuple[Any, Any]:
        if step is None and needs_step:
            raise SmrlError(f"the reuse rule {rule} depends on the step; call learn(state, batch, key, step).")
        measures = probe is None or isinstance(rule, ProbingRule)
        require(measures, f"the reuse rule {rule} does not measure; call learn without a probe.")
        state, carry = state if has_carry else (state, rule.init())
        times = jnp.asarray(rule.times(carry, jnp.asarray(1 if step is None else step)))
        state, report = repeat(update, state, batch, key, times)
        carry = rule.observe(carry, report)
        if probe is not None:
            carry = compare(update, rule, state, carry, probe, jax.random.fold_in(key, LARGEST_REUSE))
        return (state, carry) if has_carry else state, report

    return jax.jit(learn, donate_argnums=0)


def compare(update: Update[S], rule: Any, state: S, carry: Any, probe: Probe, key: Key) -> Any:
    """Return the next carry of a rule that measures: by an update on each batch of the probe, both discarded."""
    batches = probe.trained, probe.held_out
    answers = [update(state, batch, key) for batch in batches]
    reports = [answer[1] if isinstance(answer, tuple) and len(answer) == 2 else None for answer in answers]
    return rule.compare(carry, *reports, probe.largest_return)


class AgentState(NamedTuple, Generic[State]):
    """Everything that learning changes."""

    algorithm: State
    rule: Any  # the carry of the reuse rule
    batches: Array  # fresh batches drawn so far
    updates: Array  # updates made so far
    average: Any = None  # of the policy's parameters over learning steps; None where it is not taken


def initial_state(algorithm: Algorithm[State], rule: Rule, key: Key) -> AgentState[State]:
    """Return the state before the first update."""
    return AgentState(algorithm.init(key), rule.init(), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))


def learner(
    algorithm: Algorithm[State], rule: Rule, fresh_batches: int = 1, action_repeat: int = 1
) -> Callable[[AgentState[State], Transition, Any, Any, Key], tuple[AgentState[State], Metrics]]:
    """Make ``learn(state, batches, step, env_step, key)``: all updates of one learning step, to be compiled.

    Every field of ``batches`` has two leading axes, (rounds, batch), where rounds are those of the algorithm times
    ``fresh_batches``, the update-to-data ratio. ``step`` counts learning steps and ``env_step`` environment steps, both
    from 1; every agent step takes ``action_repeat`` environment steps.
    """
    rounds = algorithm.rounds * fresh_batches

    def learn(
        state: AgentState[State], batches: Transition, step: Any, env_step: Any, key: Key
    ) -> tuple[AgentState[State], Metrics]:
        times = jnp.asarray(rule.times(state.rule, env_step), jnp.int32)
        agent_step = (env_step - 1) // action_repeat

        def one_round(state: State, item: tuple[Array, Transition]) -> tuple[State, Metrics]:
            index, batch = item
            update_key, batch_key = jax.random.split(jax.random.fold_in(key, index))
            context = UpdateContext(step, index, rounds, batch_key, agent_step)

            def update(state: State, batch: Transition, key: Key) -> tuple[State, Metrics]:
                return algorithm.update(state, batch, context, key)

            return repeat(update, state, batch, update_key, times)

        new, reports = jax.lax.scan(one_round, state.algorithm, (jnp.arange(rounds), batches))
        new = algorithm.after_updates(new, UpdateContext(step, jnp.asarray(rounds), rounds, key, agent_step))
        report = jax.tree.map(lambda leaf: jnp.nanmean(leaf, axis=0), reports)
        carry = rule.observe(state.rule, report)
        return AgentState(new, carry, state.batches + rounds, state.updates + rounds * times), report

    return learn


def prober(
    algorithm: Algorithm[State], rule: ProbingRule, fresh_batches: int = 1, action_repeat: int = 1
) -> Callable[[State, Any, Probe, Any, Any, Key], Any]:
    """Make ``measure(state, carry, probe, step, env_step, key)`` → the next carry of the rule, to be compiled.

    The update is that of the first round of a learning step; see `learner` for the other arguments.
    """
    rounds = algorithm.rounds * fresh_batches

    def measure(state: State, carry: Any, probe: Probe, step: Any, env_step: Any, key: Key) -> Any:
        update_key, batch_key = jax.random.split(key)
        context = UpdateContext(step, jnp.zeros((), jnp.int32), rounds, batch_key, (env_step - 1) // action_repeat)

        def update(state: State, batch: Transition, key: Key) -> tuple[State, Metrics]:
            return algorithm.update(state, batch, context, key)

        return compare(update, rule, state, carry, probe, update_key)

    return measure
