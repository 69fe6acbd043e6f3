"""Is this environment fit for training, and what is wrong with it?"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import gymnasium
import numpy as np

from smrl.envs.environment import Environment
from smrl.envs.make import Raw, make
from smrl.errors import SmrlError
from smrl.types import Continuous

Level = Literal["error", "warning", "note"]
STEPS, SECONDS = 5_000, 6.0  # of random actions
REPEATED_STEPS, REPEATED_SECONDS = 300, 1.2  # of the episodes that are run three times
LARGE, SMALL, WIDE, SLOW = 1e3, 1e-3, 1e6, 50.0  # observation or reward, reward, action, steps per second


@dataclass(frozen=True)
class Finding:
    """One thing that was found, and what it means for training."""

    level: Level
    what: str
    meaning: str


class Moment(NamedTuple):
    """What an environment returned; length counts the steps of the episode, 0 is a reset."""

    length: int
    obs: np.ndarray
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


@dataclass
class Seen:
    """What the random steps showed."""

    largest: np.ndarray  # absolute value of each observation
    rewards: list[float] = field(default_factory=list)  # of every step
    ends: list[Moment] = field(default_factory=list)
    speed: float = 0.0  # steps per second
    flaws: dict[str, Finding] = field(default_factory=dict)  # of single observations


class Probe(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps the last observation as the environment returned it, and the time that steps take."""

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
    """Try an environment for some seconds; errors come first, then warnings, then notes."""
    findings: list[Finding] = []
    try:
        for finding in _examine(env):
            findings.append(finding)  # one by one: what was found before a fault counts
    except SmrlError as error:
        is_seed = "argument 'seed'" in str(error)
        advice = "give reset a parameter seed, for super().reset(seed=seed)" if is_seed else "put this right first"
        findings.append(Finding("error", str(error), f"Training is not possible: {advice}."))
    return sorted(findings, key=lambda finding: get_args(Level).index(finding.level))


def _examine(env: str | Callable[..., Raw]) -> Iterator[Finding]:
    with contextlib.closing(make(env)) as one, contextlib.closing(make(env)) as two:
        yield from _describe(one)
        if one.env.unwrapped is two.env.unwrapped:
            advice = "Training and evaluation would disturb each other: return a new environment from every call."
            yield Finding("error", f"two calls made one and the same {one.name}", advice)
            return
        first = list(_roll(one, 0, REPEATED_STEPS, REPEATED_SECONDS))
        yield from _judge(_look(one), one.env)
        yield from _judge_repetition(_first_difference(first, one), _first_difference(first, two))


def _describe(environment: Environment) -> Iterator[Finding]:
    obs, action = environment.spec.obs, environment.spec.action
    what = f"observations of shape {obs.shape} and dtype {obs.dtype}, {action}"
    if isinstance(action, Continuous):
        low, high = action.bounds[0].min(), action.bounds[1].max()
        advice = "What the networks read and choose; actions are scaled to these bounds."
        yield Finding("note", f"{what} in [{low:g}, {high:g}]", advice)
        if max(-low, high) > WIDE:
            yield Finding("warning", f"actions reach {max(-low, high):g}", "Declare bounds at which they still matter.")
    else:
        yield Finding("note", what, "What the networks read and choose.")
    for note in environment.notes:
        yield Finding("note", note, "Whoever uses the policy elsewhere must flatten observations in the same way.")


def _roll(environment: Environment, seed: int, steps: int, seconds: float) -> Iterator[Moment]:
    """Episodes from the seeds ``seed``, ``seed`` + 1, … by random actions; the first two are extreme if continuous."""
    space, draw = environment.spec.action, np.random.default_rng(seed)
    deadline = time.perf_counter() + seconds
    moment = None
    for step in range(steps):
        if moment is None or moment.terminated or moment.truncated:
            moment = Moment(0, environment.reset(seed))
            seed += 1
            yield moment
        is_extreme = step < 2 and isinstance(space, Continuous)
        action = np.full(space.array.shape, 2 * step - 1, np.float32) if is_extreme else space.random(draw, 1)[0]
        moment = Moment(moment.length + 1, *environment.step(action))
        yield moment
        if time.perf_counter() > deadline:
            return


def _look(environment: Environment) -> Seen:
    probe = Probe(environment.env)
    seen = Seen(largest=np.zeros(environment.spec.obs.shape))
    before: tuple[Any, np.ndarray] | None = None
    for moment in _roll(Environment(probe, environment.name), 1_000, STEPS, SECONDS):
        for finding in _flaws(probe.raw, probe.observation_space, before):
            seen.flaws.setdefault(finding.meaning, finding)  # the first of its kind
        before = probe.raw, moment.obs
        np.maximum(seen.largest, np.abs(moment.obs), out=seen.largest)
        if moment.length:
            seen.rewards.append(moment.reward)
        if moment.terminated or moment.truncated:
            seen.ends.append(moment)
    seen.speed = len(seen.rewards) / probe.seconds
    return seen


def _flaws(raw: Any, space: Any, before: tuple[Any, np.ndarray] | None) -> Iterator[Finding]:
    array = np.asarray(raw)
    if not isinstance(raw, np.ndarray) or array.dtype != space.dtype:
        what = f"observations come as {type(raw).__name__} of {array.dtype}, declared as ndarray of {space.dtype}"
        yield Finding("warning", what, "smrl converts them, wrappers may not: return what is declared.")
    rounded = array.astype(space.dtype) if space.dtype.kind == "f" else array  # π of float64 is above that of float32
    is_outside = (rounded < space.low) | (rounded > space.high)
    if is_outside.any():
        index = int(np.argmax(is_outside))
        bounds = f"[{space.low.flat[index]:g}, {space.high.flat[index]:g}]"
        what = f"observation {index} was {array.flat[index]:g}, outside its declared bounds {bounds}"
        yield Finding("warning", what, "smrl does not use these bounds, wrappers may: correct observation_space.")
    if before and not np.array_equal(np.asarray(before[0], before[1].dtype).reshape(before[1].shape), before[1]):
        advice = "smrl copies it, but wrappers that keep observations see them change: return a copy."
        yield Finding("warning", "the returned observation is changed by the next step", advice)


def _judge(seen: Seen, raw: Raw) -> Iterator[Finding]:
    steps, rewards, lengths = len(seen.rewards), np.array(seen.rewards), [end.length for end in seen.ends]
    terminations = [end.length for end in seen.ends if end.terminated]
    limit = raw.spec.max_episode_steps if raw.spec else None
    if lengths:
        what = f"{len(lengths)} episodes of {min(lengths)} to {max(lengths)} steps, {len(terminations)} terminated"
        yield Finding("note", what, "By random actions; the end of the others counts as a time limit.")
    elif limit and limit > steps:
        yield Finding("note", f"no episode ended within {steps} steps", f"The time limit is {limit} steps.")
    else:
        advice = "It may never end: add a limit by gymnasium.wrappers.TimeLimit or register's max_episode_steps."
        yield Finding("warning", f"no episode ended within {steps} steps", advice)
    if len(lengths) > 2 and len(terminations) == len(lengths) and min(lengths) == max(lengths) > 1:
        advice = "If that is a time limit, states near it are valued wrongly: return truncated, not terminated."
        yield Finding("warning", f"all {len(lengths)} episodes terminated at step {lengths[0]}", advice)
    if steps > 9 and np.ptp(rewards) == 0:
        advice = "It teaches by how long episodes last, if at all: let it depend on the actions, or be less rare."
        by_length = rewards[0] and len(set(terminations)) > 1  # as in InvertedPendulum: 1 until it falls
        yield Finding("note" if by_length else "warning", f"the reward was {rewards[0]:g} in every step", advice)
    elif abs(rewards).mean() > LARGE or abs(rewards).max() < SMALL:
        advice = "Such values are learned badly: bring them near 1, as by gymnasium.wrappers.TransformReward."
        yield Finding("warning", f"rewards lie in [{rewards.min():g}, {rewards.max():g}]", advice)
    if seen.largest.max() > LARGE:
        advice = "Networks learn badly from it: normalise, as by gymnasium.wrappers.TransformObservation."
        yield Finding("warning", f"observation {seen.largest.argmax()} reached ±{seen.largest.max():g}", advice)
    yield from seen.flaws.values()
    advice = f"100,000 steps take {1e5 / seen.speed:,.0f} seconds before anything is learned from them."
    yield Finding("warning" if seen.speed < SLOW else "note", f"{seen.speed:,.0f} steps per second", advice)


def _first_difference(first: list[Moment], environment: Environment) -> int | None:
    again = _roll(environment, 0, REPEATED_STEPS, 2 * REPEATED_SECONDS)
    for one, two in zip(first, again, strict=False):  # a slow repetition may stop early
        if (one.length, *one[2:]) != (two.length, *two[2:]) or not np.array_equal(one.obs, two.obs):
            return two.length
    return None


def _judge_repetition(again: int | None, fresh: int | None) -> Iterator[Finding]:
    if again is not None and fresh is not None:
        step, where, advice = again, "", "draw all random numbers from self.np_random, which reset seeds"
    elif again is not None:
        step, where, advice = again, " after other episodes", "let reset undo all that an episode changes"
    elif fresh is not None:
        step, where, advice = fresh, " in a fresh instance", "draw no random numbers in the constructor"
    else:
        return
    what = f"the same seed and actions gave another episode from step {step} on{where}"
    yield Finding("warning", what, f"A killed run cannot be continued bit for bit, nor a run repeated: {advice}.")
