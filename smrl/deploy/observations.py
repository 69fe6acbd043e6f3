"""Observations to compare a policy and its export on, and what the environment says about them."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from smrl.deploy.description import Description
from smrl.errors import SmrlError
from smrl.memory.frames import PlainFrames, StackedFrames
from smrl.plugins import UserCode, in_words
from smrl.reading import load_arrays
from smrl.runs import checkpoint
from smrl.runs.paths import RunDirectory
from smrl.types import Spec

if TYPE_CHECKING:
    from smrl.training.run import Run

UNBOUNDED = 1e6  # bounds beyond this stand for none


@dataclass(frozen=True)
class EnvironmentFacts:
    """What is known of an environment that could be made."""

    low: np.ndarray | None = None  # bounds of a flat observation; None for images
    high: np.ndarray | None = None
    period: float | None = None  # seconds between two actions
    period_source: str | None = None


def environment_facts(run: "Run") -> EnvironmentFacts:
    """Make the environment to read its bounds and its control period; it is neither reset nor stepped.

    Nothing is known if it cannot be made: without its function, or without trust in a run's custom code. A device is
    not made, because a training may be using it.
    """
    settings = run.settings
    if settings.real_time:
        seconds = (settings.control_period or 0.0) * settings.action_repeat
        return EnvironmentFacts(period=seconds, period_source="control_period")
    try:
        with UserCode(lambda error: SmrlError(in_words(error))), contextlib.closing(run.make_env()) as env:
            period, source = _control_period(env, settings.action_repeat)
            if run.config["spec"]["obs"]["dtype"] == "uint8":
                return EnvironmentFacts(period=period, period_source=source)
            flat: Any = gymnasium.spaces.flatten_space(env.observation_space)
            return EnvironmentFacts(flat.low, flat.high, period, source)
    except SmrlError:
        return EnvironmentFacts()


def _control_period(env: Any, action_repeat: int) -> tuple[float | None, str | None]:
    """Return the seconds between two actions and where they are from."""
    metadata = env.metadata or {}
    for value, source in ((getattr(env.unwrapped, "dt", None), "dt"), (metadata.get("render_fps"), "render_fps")):
        if isinstance(value, int | float | np.number) and 0 < value < math.inf:
            # The wrapper that repeats actions has corrected render_fps already.
            return float(value * action_repeat if source == "dt" else 1 / value), source
    return None, None


def draw(run: "Run", description: Description, facts: EnvironmentFacts, count: int) -> tuple[np.ndarray, int]:
    """Return observations, first those of the run's replay memory, and how many these are; the others are random."""
    generator = np.random.default_rng(0)
    size = math.prod(description.obs_shape)
    stored = list(_stored(run, description.spec, generator, count))
    known = np.concatenate([part.reshape(len(part), -1)[:, :size] for part in stored])[:count] if stored else None
    rows = 0 if known is None else len(known)
    missing = count - rows
    if description.is_image:
        drawn = generator.integers(0, 256, (missing, size), np.uint8)
    else:
        drawn = generator.standard_normal((missing, size), np.float32)
        if facts.low is not None and facts.high is not None:
            bounded = (np.abs(facts.low) < UNBOUNDED) & (np.abs(facts.high) < UNBOUNDED)
            low, high = np.where(bounded, facts.low, -1), np.where(bounded, facts.high, 1)
            drawn = np.where(bounded, generator.uniform(low, high, drawn.shape), drawn).astype(np.float32)
    together = drawn if known is None else np.concatenate([known, drawn])
    return together.reshape(count, *description.obs_shape), rows


def _stored(run: "Run", spec: Spec, generator: np.random.Generator, count: int) -> Iterator[np.ndarray]:
    """Yield observations of the newest intact rows, in any order, until there are enough."""
    folder = RunDirectory(run.path).checkpoint
    frames = StackedFrames(spec.obs) if spec.obs.stack > 1 else PlainFrames(spec.obs)
    manifests = ((path, checkpoint.read_manifest_if_intact(path)) for path in reversed(checkpoint.checkpoints(folder)))
    files = next((checkpoint.row_files(path, manifest) for path, manifest in manifests if manifest is not None), {})
    for file, digest in reversed(files.items()):
        if count <= 0 or checkpoint.find_damage({file: digest}):
            continue
        try:
            rows = load_arrays(file)["obs"]
        except (KeyError, *checkpoint.DAMAGE):
            continue
        first = generator.permutation(max(0, len(rows) - spec.obs.stack + 1))[:count]
        if rows.shape[1:] == frames.stored.shape and rows.dtype == spec.obs.dtype and first.size:
            # A stack of any consecutive frames will do, also across the end of an episode.
            yield frames.build(rows, [first + age for age in range(spec.obs.stack)])
            count -= len(first)
