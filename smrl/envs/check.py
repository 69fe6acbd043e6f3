"""Is this environment fit for training, and what is wrong with it?"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np

from smrl.envs import Raw, make
from smrl.envs.environment import Environment, EnvironmentFault
from smrl.errors import SmrlError

STEPS, SECONDS = 5_000, 6.0  # of random actions
REPEATED_STEPS, REPEATED_SECONDS = 300, 1.2  # of the episodes that are run three times
LARGE, SMALL, WIDE, SLOW = 1e3, 1e-3, 1e6, 50.0  # observation or reward, reward, action bound, steps per second


@dataclass(frozen=True)
class Finding:
    """One thing that was found, and what it means for training."""

    level: Literal["error", "warning", "note"]
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
    other_kind: str = ""
    outside: str = ""
    is_live: bool = False


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
    except EnvironmentFault as fault:
        is_seed = "argument 'seed'" in str(fault)
        advice = "give reset a parameter seed for super().reset(seed=seed)." if is_seed else "correct the environment."
        findings.append(Finding("error", str(fault), f"Training would stop here: {advice}"))
    except SmrlError as error:
        findings.append(Finding("error", str(error), "Training cannot start before this is put right."))
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.level))


def _examine(env: str | Callable[..., Raw]) -> Iterator[Finding]:
    one, two = make(env), make(env)
    try:
        low, high = one.bounds[0].min(), one.bounds[1].max()
        what = f"{one.spec.obs_size} observations, {one.spec.action_size} actions within [{low:g}, {high:g}]"
        yield Finding("note", what, "The sizes of the networks; actions are scaled to these bounds.")
        if max(-low, high) > WIDE:
            advice = "Most actions will be extreme: declare bounds within which an action makes a difference."
            yield Finding("warning", f"actions reach {max(-low, high):g}", advice)
        if one.env.unwrapped is two.env.unwrapped:
            advice = "Training and evaluation would disturb each other: return a new environment from every call."
            yield Finding("error", f"two calls made one and the same {one.name}", advice)
            return
        first = list(_roll(one, 0, REPEATED_STEPS, REPEATED_SECONDS))
        yield from _judge(_look(one), one.env)
        again, fresh = (
            _first_difference(first, _roll(environment, 0, REPEATED_STEPS, 2 * REPEATED_SECONDS))
            for environment in (one, two)
        )
        yield from _judge_repetition(again, fresh)
    finally:
        one.close()
        two.close()


def _roll(environment: Environment, seed: int, steps: int, seconds: float) -> Iterator[Moment]:
    """Episodes of random actions, the first two extreme ones, from the seeds ``seed``, ``seed`` + 1, …"""
    size, draw = environment.spec.action_size, np.random.default_rng(seed)
    deadline = time.perf_counter() + seconds
    moment = None
    for step in range(steps):
        if moment is None or moment.terminated or moment.truncated:
            moment = Moment(0, environment.reset(seed))
            seed += 1
            yield moment
        action = np.full(size, 2.0 * step - 1) if step < 2 else draw.uniform(-1, 1, size)
        moment = Moment(moment.length + 1, *environment.step(action.astype(np.float32)))
        yield moment
        if time.perf_counter() > deadline:
            return


def _look(environment: Environment) -> Seen:
    probe = Probe(environment.env)
    space = probe.observation_space
    assert isinstance(space, gymnasium.spaces.Box)
    low, high = (bound + sign * 1e-6 * (1 + np.abs(bound)) for bound, sign in ((space.low, -1), (space.high, 1)))
    seen = Seen(largest=np.zeros(environment.spec.obs_size))
    before: tuple[Any, np.ndarray] | None = None
    for moment in _roll(Environment(probe, environment.name), 1_000, STEPS, SECONDS):
        raw = np.asarray(probe.raw)
        if not isinstance(probe.raw, np.ndarray) or raw.dtype != space.dtype:
            seen.other_kind = f"{type(probe.raw).__name__} of {raw.dtype} and not as an array of {space.dtype}"
        is_outside = (raw < low) | (raw > high)
        if is_outside.any() and not seen.outside:
            index = int(np.argmax(is_outside))
            bounds = f"[{space.low.flat[index]:g}, {space.high.flat[index]:g}]"
            seen.outside = f"observation {index} was {raw.flat[index]:g}, outside its declared bounds {bounds}"
        if before and not np.array_equal(np.asarray(before[0], np.float32).reshape(-1), before[1]):
            seen.is_live = True
        before = probe.raw, moment.obs
        np.maximum(seen.largest, np.abs(moment.obs), out=seen.largest)
        if moment.length:
            seen.rewards.append(moment.reward)
        if moment.terminated or moment.truncated:
            seen.ends.append(moment)
    seen.speed = len(seen.rewards) / probe.seconds
    return seen


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
        what = f"the reward was {rewards[0]:g} in every step"
        if rewards[0] and len(set(terminations)) > 1:  # as in InvertedPendulum: 1 until it falls
            yield Finding("note", what, "Only how long episodes last can be learned from it.")
        else:
            advice = "Nothing can be learned from it: let the reward depend on actions, or make it less rare."
            yield Finding("warning", what, advice)
    elif abs(rewards).mean() > LARGE or abs(rewards).max() < SMALL:
        advice = "Such values are learned badly: bring them near 1, as by gymnasium.wrappers.TransformReward."
        yield Finding("warning", f"rewards lie in [{rewards.min():g}, {rewards.max():g}]", advice)
    if seen.largest.max() > LARGE:
        advice = "Networks learn badly from it: normalise, as by gymnasium.wrappers.TransformObservation."
        yield Finding("warning", f"observation {seen.largest.argmax()} reached ±{seen.largest.max():g}", advice)
    if seen.outside:
        yield Finding("warning", seen.outside, "smrl does not use the bounds, wrappers may: correct them.")
    if seen.other_kind:
        advice = "smrl makes float32 of all, wrappers may not: return what observation_space declares."
        yield Finding("warning", f"observations come as {seen.other_kind}", advice)
    if seen.is_live:
        advice = "smrl copies it, but wrappers that keep observations see them change: return a copy."
        yield Finding("warning", "the returned observation is changed by the next step", advice)
    what = f"{seen.speed:,.0f} steps per second"
    if seen.speed < SLOW:
        yield Finding("warning", what, f"100,000 steps take {1e5 / 3600 / seen.speed:.1f} hours without any learning.")
    else:
        yield Finding("note", what, "The speed of the environment alone.")


def _first_difference(expected: list[Moment], actual: Iterator[Moment]) -> Moment | None:
    for one, two in zip(expected, actual, strict=False):  # a slow repetition may stop early
        if (one.length, *one[2:]) != (two.length, *two[2:]) or not np.array_equal(one.obs, two.obs):
            return two
    return None


def _judge_repetition(again: Moment | None, fresh: Moment | None) -> Iterator[Finding]:
    advice = "A killed run cannot be continued bit for bit, nor repeated: "
    if again and fresh:
        what = f"the same seed and actions gave another episode from step {min(again.length, fresh.length)} on"
        yield Finding("warning", what, advice + "draw all random numbers from self.np_random, seeded by reset.")
    elif again:
        what = f"the same seed and actions gave another episode from step {again.length} on after other episodes"
        yield Finding("warning", what, advice + "let reset set back all that an episode changes.")
    elif fresh:
        what = f"the same seed and actions gave another episode from step {fresh.length} on in a fresh instance"
        yield Finding("warning", what, advice + "draw no random numbers in the constructor.")
