"""Check an environment for problems that make training fail or learn badly."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args

import gymnasium
import numpy as np

from smrl.envs.environment import Environment, Finding, Level
from smrl.envs.make import Raw, make
from smrl.errors import SmrlError
from smrl.types import Continuous

STEPS, SECONDS = 5_000, 6.0  # limits of the search with random actions
REPEATED_STEPS, REPEATED_SECONDS = 300, 1.2  # limits of the episodes that are run three times
LARGE, SMALL = 1e3, 1e-3  # rewards and observations beyond these are badly scaled
WIDE_ACTION = 1e6
SLOW = 50.0  # steps per second


class Step(NamedTuple):
    """The result of a step, or of a reset if ``length``, the number of steps in the episode, is 0."""

    length: int
    obs: np.ndarray
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class Probe(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keep the last observation as the environment returned it, and measure the time of steps."""

    raw: Any = None
    seconds = 0.0

    def reset(self, **options: Any) -> Any:
        result = self.env.reset(**options)
        self.raw = result[0]
        return result

    def step(self, action: Any) -> Any:
        start = time.perf_counter()
        result = self.env.step(action)
        self.seconds += time.perf_counter() - start
        self.raw = result[0]
        return result


def check(env: str | Callable[..., Raw]) -> list[Finding]:
    """Try an environment for some seconds and return errors first, then warnings, then notes."""
    findings: list[Finding] = []
    try:
        for finding in _examine(env):
            findings.append(finding)  # one by one, to keep what was found before a fault
    except SmrlError as error:
        is_seed = "argument 'seed'" in str(error)
        advice = "give reset a parameter seed, for super().reset(seed=seed)" if is_seed else "correct this first"
        findings.append(Finding("error", str(error), f"Training is not possible: {advice}."))
    return sorted(findings, key=lambda finding: get_args(Level).index(finding.level))


def _examine(env: str | Callable[..., Raw]) -> Iterator[Finding]:
    with contextlib.closing(make(env)) as one:
        yield from _describe(one)
        if one.is_device:
            what = f'{one.name} is a device by its metadata["real_time"], so it was neither reset nor stepped'
            yield Finding("note", what, "This check acts at random and at full speed; see docs/robots.md.")
        else:
            yield from _try(one, env)


def _try(one: Environment, env: str | Callable[..., Raw]) -> Iterator[Finding]:
    with contextlib.closing(make(env)) as two:
        if one.env.unwrapped is two.env.unwrapped:
            advice = "Training and evaluation would disturb each other: return a new environment from every call."
            yield Finding("error", f"two calls returned the same {one.name}", advice)
            return
        first = list(_roll(one, 0, REPEATED_STEPS, REPEATED_SECONDS))
        yield from _check_random_steps(one)
        yield from _check_repetition(_first_difference(first, one), _first_difference(first, two))


def _describe(environment: Environment) -> Iterator[Finding]:
    action, meaning = environment.spec.action, "The inputs and outputs of the networks"
    if isinstance(action, Continuous):
        yield Finding("note", str(environment.spec), f"{meaning}; actions are scaled to these bounds.")
        if (largest := np.abs(action.bounds).max()) > WIDE_ACTION:
            advice = "Declare bounds within which actions make a difference."
            yield Finding("warning", f"actions reach {largest:g}", advice)
    else:
        yield Finding("note", str(environment.spec), f"{meaning}.")
    yield from environment.notes


def _roll(environment: Environment, seed: int, steps: int, seconds: float) -> Iterator[Step]:
    """Yield the steps of episodes with seeds ``seed``, ``seed`` + 1, … and random actions.

    The first two actions are the lowest and the highest if actions are continuous.
    """
    space, draw = environment.spec.action, np.random.default_rng(seed)
    deadline = time.perf_counter() + seconds
    step = None
    for count in range(steps):
        if step is None or step.terminated or step.truncated:
            step = Step(0, environment.reset(seed))
            seed += 1
            yield step
        is_extreme = count < 2 and isinstance(space, Continuous)
        action = np.full(space.array.shape, 2 * count - 1, np.float32) if is_extreme else space.random(draw, 1)[0]
        step = Step(step.length + 1, *environment.step(action))
        yield step
        if time.perf_counter() > deadline:
            return


def _check_random_steps(environment: Environment) -> Iterator[Finding]:
    probe = Probe(environment.env)
    largest = np.zeros(environment.spec.obs.shape)  # absolute value of each entry of the observations
    rewards: list[float] = []
    ends: list[Step] = []
    findings: dict[str, Finding] = {}  # about single observations, the first of each kind
    before: tuple[Any, np.ndarray] | None = None
    for step in _roll(Environment(probe, environment.name), 1_000, STEPS, SECONDS):
        for finding in _check_observation(probe.raw, probe.observation_space, before):
            findings.setdefault(finding.meaning, finding)
        before = probe.raw, step.obs
        np.maximum(largest, np.abs(step.obs), out=largest)
        if step.length:
            rewards.append(step.reward)
        if step.terminated or step.truncated:
            ends.append(step)
    limit = environment.env.spec.max_episode_steps if environment.env.spec else None
    yield from _check_episodes(ends, len(rewards), limit)
    yield from _check_rewards(np.array(rewards), ends)
    if largest.max() > LARGE:
        advice = "Networks learn badly from it: normalise, for example by gymnasium.wrappers.TransformObservation."
        yield Finding("warning", f"observation {largest.argmax()} reached ±{largest.max():g}", advice)
    yield from findings.values()
    speed = len(rewards) / probe.seconds
    advice = f"100,000 steps take {1e5 / speed:,.0f} seconds without learning."
    yield Finding("warning" if speed < SLOW else "note", f"{speed:,.0f} steps per second", advice)


def _check_observation(raw: Any, space: Any, before: tuple[Any, np.ndarray] | None) -> Iterator[Finding]:
    array = np.asarray(raw)
    if not isinstance(raw, np.ndarray) or array.dtype != space.dtype:
        what = f"observations come as {type(raw).__name__} of {array.dtype}, declared as ndarray of {space.dtype}"
        yield Finding("warning", what, "smrl converts them, wrappers may not: return the declared type.")
    rounded = array.astype(space.dtype) if space.dtype.kind == "f" else array  # float64 π exceeds float32 π
    is_outside = (rounded < space.low) | (rounded > space.high)
    if is_outside.any():
        index = int(np.argmax(is_outside))
        bounds = f"[{space.low.flat[index]:g}, {space.high.flat[index]:g}]"
        what = f"observation {index} was {array.flat[index]:g}, outside its declared bounds {bounds}"
        yield Finding("warning", what, "smrl does not use these bounds, wrappers may: correct observation_space.")
    if before and not np.array_equal(np.asarray(before[0], before[1].dtype).reshape(before[1].shape), before[1]):
        advice = "smrl copies observations, but those that a wrapper keeps would change: return a copy."
        yield Finding("warning", "the next step changes the returned observation", advice)


def _check_episodes(ends: list[Step], steps: int, limit: int | None) -> Iterator[Finding]:
    lengths = [end.length for end in ends]
    terminated = sum(end.terminated for end in ends)
    if lengths:
        span = " to ".join(map(str, sorted({min(lengths), max(lengths)})))
        what = f"{len(lengths)} episodes of {span} steps, {terminated} terminated"
        yield Finding("note", what, "With random actions; the others reached a time limit.")
    elif limit and limit > steps:
        yield Finding("note", f"no episode ended within {steps} steps", f"The time limit is {limit} steps.")
    else:
        advice = "It may never end: add a limit by gymnasium.wrappers.TimeLimit or register's max_episode_steps."
        yield Finding("warning", f"no episode ended within {steps} steps", advice)
    if len(lengths) > 2 and terminated == len(lengths) and min(lengths) == max(lengths) > 1:
        advice = "If that is a time limit, values of states near it will be wrong: return truncated, not terminated."
        yield Finding("warning", f"all {len(lengths)} episodes terminated at step {lengths[0]}", advice)


def _check_rewards(rewards: np.ndarray, ends: list[Step]) -> Iterator[Finding]:
    if len(rewards) > 9 and np.ptp(rewards) == 0:
        advice = "At most the length of episodes can be learned from it: let it depend on the actions, or be less rare."
        lengths = {end.length for end in ends if end.terminated}
        by_length = rewards[0] and len(lengths) > 1  # as in InvertedPendulum: 1 until it falls
        yield Finding("note" if by_length else "warning", f"the reward was {rewards[0]:g} in every step", advice)
    elif abs(rewards).mean() > LARGE or abs(rewards).max() < SMALL:
        advice = "Such values are hard to learn: bring them near 1, for example by gymnasium.wrappers.TransformReward."
        yield Finding("warning", f"rewards lie in [{rewards.min():g}, {rewards.max():g}]", advice)


def _first_difference(first: list[Step], environment: Environment) -> int | None:
    again = _roll(environment, 0, REPEATED_STEPS, 2 * REPEATED_SECONDS)
    for one, two in zip(first, again, strict=False):  # a slow repetition may end early
        if (one.length, *one[2:]) != (two.length, *two[2:]) or not np.array_equal(one.obs, two.obs):
            return two.length
    return None


def _check_repetition(again: int | None, fresh: int | None) -> Iterator[Finding]:
    if again is not None and fresh is not None:
        step, where, advice = again, "", "draw all random numbers from self.np_random, which reset seeds"
    elif again is not None:
        step, where, advice = again, " after other episodes", "make reset undo everything that an episode changes"
    elif fresh is not None:
        step, where, advice = fresh, " in a new instance", "draw no random numbers in the constructor"
    else:
        return
    what = f"the same seed and actions gave a different episode from step {step} on{where}"
    yield Finding("warning", what, f"A killed run cannot resume bit for bit, nor a run be repeated: {advice}.")
