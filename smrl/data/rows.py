"""Transitions in the environment's own units become rows of a replay memory; every value is checked on the way.

Data are arrays by name, as an .npz file holds them, with one row per step in the order of the steps:

    obs, action, reward, terminated, truncated        and, optionally, next_obs

An observation that is a Dict or Tuple has an array per entry: obs.position, next_obs.position. Without next_obs, obs
has one row more per episode: all observations of the first episode, the one after its last step included, then those of
the second. With next_obs, rows may be in any order: where next_obs is not the obs of the next row, an n-step window
ends, as it does at a time-out.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from smrl.errors import SmrlError, require
from smrl.memory.frames import StackedFrames
from smrl.memory.replay import Rows
from smrl.types import Continuous, Entry, Spec

Arrays = Mapping[str, np.ndarray]
Place = Callable[[str, int], str]  # name of an array, row of it → the place in the source
TOLERANCE = 1e-5  # of the width between two bounds: by how much rounding may have moved an action beyond them


def from_arrays(arrays: Arrays, spec: Spec, reward_scale: float, place: Place) -> Rows:
    """Return the rows of a memory that holds these transitions."""
    count = len(_column(arrays, "reward", ()))
    require(count > 0, "it holds no steps.")
    reward = _rewards(arrays, reward_scale, place)
    action = _actions(arrays, spec, count, place)
    terminated, truncated = (_flags(arrays, name, count, place) for name in ("terminated", "truncated"))
    obs = _observations(arrays, "obs", spec, place)
    last = terminated | truncated
    if any(name.partition(".")[0] == "next_obs" for name in arrays):
        next_obs = _observations(arrays, "next_obs", spec, place)
        for name, values in {"obs": obs, "next_obs": next_obs}.items():
            require(
                len(values) == count, f"{name} has {len(values):,} rows and reward has {count:,}: give equally many."
            )
        last[:-1] |= (next_obs[:-1] != obs[1:]).reshape(count - 1, -1).any(axis=1)
        last[-1] = True
        successors = next_obs[last]
    else:
        require(bool(last[-1]), f"{place('reward', count - 1)} is the last and ends no episode: give next_obs.")
        wanted = count + int(last.sum())
        require(
            len(obs) == wanted,
            f"obs has {len(obs):,} rows: give next_obs, or one observation more than steps for each of the "
            f"{last.sum():,} episodes, {wanted:,} rows.",
        )
        numbers = np.arange(count) + np.cumsum(last) - last  # of each step's observation
        obs, successors = obs[numbers], obs[numbers[last] + 1]
    if spec.obs.stack > 1:
        _refuse_other_stacks(obs, terminated, last, successors, spec, place)
        obs, successors = _newest_frames(obs, spec), _newest_frames(successors, spec)
    return {
        "obs": obs,
        "action": action,
        "reward": reward,
        "terminated": terminated,
        "last": last,
        "start": np.array(0),
        "successor_rows": np.flatnonzero(last),
        "successors": successors,
    }


def join(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several sources one after the other; the last row of each ends an episode."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part["reward"]) for part in parts[:-1])])
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "start"}
    rows["successor_rows"] = np.concatenate(
        [part["successor_rows"] + start for part, start in zip(parts, starts, strict=True)]
    )
    return {**rows, "start": np.array(0)}


def refuse_other_rows(rows: Rows, spec: Spec) -> None:
    """Refuse rows of a replay memory that somebody else may have written and that do not fit the spec."""
    count, stored = len(rows["reward"]), (StackedFrames(spec.obs).stored if spec.obs.stack > 1 else spec.obs)
    action = spec.action.array
    wanted = {
        "obs": ((count, *stored.shape), stored.dtype),
        "successors": ((len(rows["successor_rows"]), *stored.shape), stored.dtype),
        "action": ((count, *action.shape), action.dtype),
        "reward": ((count,), "float32"),
        "terminated": ((count,), "bool"),
        "last": ((count,), "bool"),
    }
    for name, (shape, dtype) in wanted.items():
        found = rows[name]
        require(
            found.shape == shape and found.dtype == dtype,
            f"{name} of its replay memory is {found.shape} of {found.dtype} instead of {shape} of {dtype}.",
        )
        if found.dtype.kind == "f":
            _refuse_rows(~np.isfinite(found), partial(_stored_row, name))
    low, high = (-1, 1) if isinstance(spec.action, Continuous) else (0, spec.action.count - 1)
    outside = (rows["action"] < low) | (rows["action"] > high)
    _refuse_rows(outside, partial(_stored_row, "action"), "outside the bounds")


def _column(arrays: Arrays, name: str, shape: tuple[int, ...] | None, count: int | None = None) -> np.ndarray:
    """Return an array of numbers with one row per step."""
    require(name in arrays, f"it has no array {name}; it needs obs, action, reward, terminated and truncated.")
    found = arrays[name]
    wanted = "(steps)" if shape == () else f"(steps, {', '.join(map(str, shape or ()))})"
    fits = found.ndim > 0 and (shape is None or found.shape[1:] == shape)
    require(fits, f"{name} has the shape {found.shape} instead of {wanted}.")
    require(found.dtype.kind in "biuf", f"{name} holds {found.dtype} instead of numbers.")
    if count is not None:
        require(len(found) == count, f"{name} has {len(found):,} rows and reward has {count:,}: give equally many.")
    return found


def _rewards(arrays: Arrays, scale: float, place: Place) -> np.ndarray:
    with np.errstate(over="ignore"):
        # As the collector does: scaled in float64, stored in float32.
        reward = (scale * _column(arrays, "reward", ()).astype(np.float64)).astype(np.float32)
    _refuse_rows(~np.isfinite(reward), lambda row: f"{place('reward', row)}, its reward,")
    return reward


def _flags(arrays: Arrays, name: str, count: int, place: Place) -> np.ndarray:
    found = _column(arrays, name, (), count)
    _refuse_rows((found != 0) & (found != 1), lambda row: f"{name} of {place(name, row)}", "neither true nor false")
    return found.astype(np.bool_)


def _actions(arrays: Arrays, spec: Spec, count: int, place: Place) -> np.ndarray:
    action = spec.action
    if not isinstance(action, Continuous):
        found = _column(arrays, "action", (), count)
        require(found.dtype.kind in "iu", f"action holds {found.dtype} instead of integers.")
        outside = (found < action.start) | (found >= action.start + action.count)
        named = f"outside the actions {action.start} to {action.start + action.count - 1}"
        _refuse_rows(outside, lambda row: f"the action of {place('action', row)}", named)
        return action.encoder()(found)
    shape = action.shape or (action.size,)
    found = _column(arrays, "action", shape, count).reshape(count, action.size).astype(np.float64)
    _refuse_rows(~np.isfinite(found), lambda row: f"the action of {place('action', row)}")
    low, high = (bound.astype(np.float64) for bound in action.bounds)
    slack = TOLERANCE * (high - low)
    outside = (found < low - slack) | (found > high + slack)
    named = f"outside the bounds, from {low.min():g} to {high.max():g}"
    _refuse_rows(outside, lambda row: f"the action of {place('action', row)}", named)
    return action.encoder()(found)


def _observations(arrays: Arrays, prefix: str, spec: Spec, place: Place) -> np.ndarray:
    """Return observations as the agent sees them: flattened and padded vectors, or images."""
    parts = []
    for entry in spec.entries or (Entry((), spec.obs.shape),):
        name = ".".join((prefix, *entry.path))
        found = _column(arrays, name, entry.shape)
        if spec.obs.dtype == "uint8":
            require(found.dtype == np.uint8, f"{name} holds {found.dtype} instead of uint8.")
            return found
        with np.errstate(over="ignore"):
            parts.append(found.reshape(len(found), -1).astype(spec.obs.dtype))
        _refuse_rows(~np.isfinite(parts[-1]), partial(_entry, name, partial(place, prefix)))
    lengths = {len(part) for part in parts}
    require(len(lengths) == 1, f"the entries of {prefix} have different numbers of rows.")
    joined = np.concatenate(parts, axis=1)
    return np.pad(joined, ((0, 0), (0, spec.obs.shape[0] - joined.shape[1])))


def _stored_row(name: str, row: int) -> str:
    return f"row {row:,} of {name} of its replay memory"


def _entry(name: str, place: Callable[[int], str], row: int) -> str:
    return f"{name} of {place(row)}"


def _refuse_rows(is_bad: np.ndarray, place: Callable[[int], str], what: str = "not a finite float32 number") -> None:
    """Refuse the first bad row."""
    if is_bad.any():
        (rows,) = np.nonzero(is_bad.reshape(len(is_bad), -1).any(axis=1))
        more = f" ({len(rows):,} such rows)" if len(rows) > 1 else ""
        raise SmrlError(f"{place(int(rows[0]))} is {what}{more}.")


def _refuse_other_stacks(
    obs: np.ndarray, terminated: np.ndarray, last: np.ndarray, successors: np.ndarray, spec: Spec, place: Place
) -> None:
    """Refuse stacks of frames that cannot be rebuilt from the newest frame of each, which is all that is stored."""
    channels, ends = spec.obs.shape[-1] // spec.obs.stack, iter(successors)
    for row, stack in enumerate(obs):
        is_first = row == 0 or last[row - 1]
        before = np.tile(stack[..., -channels:], spec.obs.stack) if is_first else obs[row - 1]
        after = next(ends) if last[row] else None
        fits = np.array_equal(stack[..., :-channels], before[..., channels:])
        if after is not None and not terminated[row]:
            fits = fits and np.array_equal(after[..., :-channels], stack[..., channels:])
        require(
            fits,
            f"the frames of {place('reward', row)} do not continue those of the step before: each stack has one new "
            f"frame, and an episode begins with its first frame {spec.obs.stack} times.",
        )


def _newest_frames(obs: np.ndarray, spec: Spec) -> np.ndarray:
    frames = StackedFrames(spec.obs)
    stored = frames.stored.zeros(len(obs))
    for row, stack in enumerate(obs):
        stored[row] = frames.newest(stack)
    return stored
