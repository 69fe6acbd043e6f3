"""How well M updates fit the batch they are made on: the idea of the paper's Figure 2, measured on runs.

    before the updates:           Q₀ − y₀
    after M updates on the batch: Q_M − y₀ (fixed target)  and  Q_M − y_M (moving target)

Q is the mean of the critics, and y = r + γⁿ (1 − d) (Q(s′, a′) − α log π(a′|s′)) with a′ ~ π(s′). Both are computed
from the algorithm's `q_values` and `policy_sample`, that is from the critics themselves and not from target networks.
"""

import csv
import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from msgspec import Meta
from rich.console import Console

from smrl import runtime
from smrl.algorithms import registry
from smrl.errors import SmrlError, require
from smrl.memory.replay import Replay
from smrl.nn.losses import bellman
from smrl.paper.batch_fit_results import MEASURES, Fit, draw_falls, fall_table, falls, sentences
from smrl.randomness import Purpose, Stream, at, key
from smrl.runs import checkpoint, identity
from smrl.runs.atomic import writing
from smrl.runs.identity import flat
from smrl.runs.paths import RunDirectory
from smrl.runs.records import CsvLog, lines_until
from smrl.settings import RunOptions, Settings
from smrl.smr import loop
from smrl.studies.launch import run_all
from smrl.studies.sweep import slug, sweep
from smrl.training.agent import from_arrays
from smrl.training.bias import diagnostics
from smrl.training.clock import Clock
from smrl.training.memory_budget import replay_of
from smrl.training.normaliser import statistics_of
from smrl.training.progress import Board
from smrl.training.run import Run
from smrl.types import Algorithm, Array, Key, Spec, State, Transition
from smrl.validation import convert

FILE = "batch_fit.csv"
COLUMNS = ("step", "batch", "updates", *MEASURES)
STEPS = (10_000, 20_000)
UPDATES = (1, 2, 5, 10, 20)
BATCHES = 10
CANDIDATES = 8  # transitions drawn per held-out transition, because some of them are in the batch

Repeats = Annotated[int, Meta(ge=1, le=10_000, description="a whole number from 1 to 10,000")]
Measure = Callable[[State, Transition, Transition, Sequence[int], int, Key], np.ndarray]


def run(
    algorithms: str | Sequence[str],
    env: str,
    options: RunOptions,
    out: Console,
    *,
    steps: Sequence[int] = STEPS,
    updates: Sequence[int] = UPDATES,
    batches: int = BATCHES,
    **settings: Any,
) -> None:
    """Train runs as `smrl compare` does, measure them after each of ``steps``, and print a table and what it shows.

    ``settings`` are those of `smrl.studies.sweep.sweep`. The picture is written beside the runs.
    """
    steps, updates = sorted(set(steps)), sorted({convert("updates", count, Repeats) for count in updates})
    batches = convert("batches", batches, Repeats)
    sweep(algorithms, env, steps=steps[0], **settings)  # refuses a moment before the first evaluation
    longest = sweep(algorithms, env, steps=steps[-1], **settings)  # defaults that depend on the steps come from here
    require(
        all(one.data is None for one in longest),
        "batch-fit measures batches of the replay memory that a run has collected itself: leave --data out.",
    )
    moments = [[dataclasses.replace(one, steps=moment) for one in longest] for moment in steps]
    found = falls(batch_fit(moments, options, updates, batches))
    out.print(fall_table(found))
    for message in sentences(found):
        out.print(message, markup=False)
    first = RunDirectory.of(longest[0], options).path
    with writing(first.parents[1]):
        picture = draw_falls(found, first.parents[1] / f"batch-fit-{slug(longest)}.png")
    out.print(f"picture: {picture}\nnumbers: {FILE} in each run's folder, such as {first / FILE}", markup=False)


def batch_fit(
    moments: Sequence[Sequence[Settings[Any]]], options: RunOptions, updates: Sequence[int], batches: int
) -> list[Fit]:
    """Train runs to one number of steps after the other, and measure each of them there.

    ``moments`` holds the same runs with increasing steps. A run that has more steps already is measured where it is;
    measurements in a run's batch_fit.csv are not repeated.
    """

    def measured(settings: Settings[Any]) -> list[Fit]:
        return read(RunDirectory.of(settings, options).path, updates, batches)

    for several in moments:
        due = [settings for settings in several if not any(fit.step >= settings.steps for fit in measured(settings))]
        if not due:
            continue
        outcome = run_all(due, options)
        for title, message in outcome.failures.items():
            raise SmrlError(f"{title} failed: {message}")
        runtime.start()
        with Board(options.quiet) as board:
            for record in outcome.records:
                run = Run(record.path, trust=True)  # the caller named the code that its config names
                board.notify(f"{identity.title(run.settings.to_json())}: measuring the fit of {batches} batches")
                with RunDirectory(run.path).locked():
                    write(run.path, measure_run(run, updates, batches, board.notify))
    return [fit for settings in moments[-1] for fit in measured(settings)]


def measure_run(run: Run, updates: Sequence[int], batches: int, notify: Callable[[str], None]) -> Fit:
    """Measure the newest checkpoint of a run on batches that its next learning steps might draw."""
    settings, directory = run.settings, RunDirectory(run.path)
    spec = Spec.from_json(directory.read_config()["spec"])
    algorithm = registry.find(settings.algorithm).make(settings.hyper, spec)
    replay = replay_of(settings, spec, run.path, notify)
    saved = checkpoint.load(directory.checkpoint, notify, replay)
    if saved is None:
        raise SmrlError(f"{run.path} has no checkpoint yet; train it first.")
    template = jax.eval_shape(algorithm.init, key(settings.seed, Purpose.INITIALISE))
    state = from_arrays({"algorithm": template}, saved.arrays)["algorithm"]
    statistics = statistics_of(settings, spec)
    if statistics:
        statistics.restore(saved.arrays)
    clock = Clock(settings.envs, settings.action_repeat, settings.warmup, algorithm.learn_every)
    next_step, root = len(clock.learned_at(saved.step)) + 1, key(settings.seed, Purpose.LEARN)
    measure, errors = measure_of(algorithm, settings.algorithm), []
    stream = Stream(settings.seed, Purpose.REPLAY)
    for index in range(batches):
        drawn = draw(replay, stream.at(saved.step + index), settings.batch_size)
        batch, held_out = map(statistics.normalise, drawn) if statistics else drawn
        step = next_step + index
        errors.append(measure(state, batch, held_out, updates, step, at(root, step)))
    found = np.stack(errors)
    require(
        bool(np.isfinite(found).all() and (found[:, 0] > 0).all()),
        f"the TD errors of {run.path} at step {saved.step:,} are 0 or not finite, so there is no fit to measure; "
        "the critics may have diverged: lower the learning rate or the reuse.",
    )
    return Fit(flat(settings.to_json()), saved.step, (0, *updates), found)


@dataclass(frozen=True)
class CarriedTimes:
    """A reuse rule whose carry is M, so that a learning step is compiled once for every M."""

    def init(self) -> int:
        """Return one update, which callers replace."""
        return 1

    def times(self, carry: Any, step: Any) -> Any:
        """Return the carry."""
        return carry

    def observe(self, carry: Any, report: Any) -> Any:
        """Return the carry unchanged."""
        return carry


def measure_of(algorithm: Algorithm[State], name: str) -> Measure[State]:
    """Make ``measure(state, batch, held_out, updates, step, key)`` → RMS TD errors (1 + updates, measures).

    Every number of updates starts from the same state, as learning step ``step``. Where one pass over all networks
    takes several batches (DARC), each of them is this batch, so that all networks learn from it.
    """
    learn = loop.learner(algorithm, CarriedTimes())

    @jax.jit
    def learned(state: State, batch: Transition, step: Array, key: Key, times: Array) -> State:
        batches = jax.tree.map(lambda field: jnp.broadcast_to(field, (algorithm.rounds, *jnp.shape(field))), batch)
        nothing = jnp.zeros((), jnp.int32)
        return learn(loop.AgentState(state, times, nothing, nothing), batches, step, step, key)[0].algorithm

    q_values, policy_sample = diagnostics(algorithm, name)
    temperature = algorithm.temperature or (lambda state: jnp.zeros(()))

    def q(state: State, obs: Array, action: Array) -> Array:
        return q_values(state, obs, action).mean(axis=0)

    def target(state: State, batch: Transition, key: Key) -> Array:
        action, log_prob = policy_sample(state, batch.next_obs, key)
        return bellman(batch, q(state, batch.next_obs, action) - temperature(state) * log_prob)

    @jax.jit
    def errors(before: State, after: State, batch: Transition, key: Key) -> tuple[Array, Array]:
        fitted = q(after, batch.obs, batch.action)
        return _rms(fitted - target(before, batch, key)), _rms(fitted - target(after, batch, key))

    def measure(
        state: State, batch: Transition, held_out: Transition, updates: Sequence[int], step: int, key: Key
    ) -> np.ndarray:
        batch_key, held_out_key = jax.random.split(at(key, algorithm.rounds))  # learn uses the keys of earlier rounds
        rows = []
        for times in (0, *updates):
            after = learned(state, batch, step, key, times) if times else state
            rows.append((*errors(state, after, batch, batch_key), *errors(state, after, held_out, held_out_key)))
        return np.array(jax.device_get(rows), np.float64)

    return measure


def _rms(values: Array) -> Array:
    return jnp.sqrt(jnp.mean(values**2))


def draw(replay: Replay, source: np.random.Generator, size: int) -> tuple[Transition, Transition]:
    """Draw a batch as training does, and the same number of held-out transitions that differ from all in the batch."""
    batch, candidates = (
        Transition(*(field[0] for field in replay.sample(source, 1, count))) for count in (size, CANDIDATES * size)
    )
    used = set(_contents(batch))
    rest = [index for index, content in enumerate(_contents(candidates)) if content not in used][:size]
    require(
        len(rest) == size,
        f"a replay memory of {replay.added - replay.oldest:,} rows has too few transitions that are not in a batch of "
        f"{size:,}; lower --batch-size or raise --steps.",
    )
    return batch, Transition(*(field[rest] for field in candidates))


def _contents(transitions: Transition) -> list[bytes]:
    return [b"".join(field[index].tobytes() for field in transitions) for index in range(len(transitions.reward))]


def write(run: Path, fit: Fit) -> None:
    """Add the rows of a step to a run's batch_fit.csv, replacing those of this step and of later ones."""
    table = CsvLog(run / FILE, COLUMNS, continue_at=fit.step - 1)
    for batch, by_updates in enumerate(fit.errors):
        for updates, errors in zip(fit.updates, by_updates, strict=True):
            values = dict(zip(MEASURES, (f"{error:.9g}" for error in errors), strict=True))
            table.write({"step": fit.step, "batch": batch, "updates": updates, **values})


def read(run: Path, updates: Sequence[int], batches: int) -> list[Fit]:
    """Read the steps at which all these numbers of updates were measured on this many batches."""
    file = run / FILE
    try:
        rows = {
            tuple(int(row[name]) for name in ("step", "batch", "updates")): [float(row[name]) for name in MEASURES]
            for row in csv.DictReader(lines_until(file, sys.maxsize))
        }
    except (OSError, csv.Error, KeyError, TypeError, ValueError):
        raise SmrlError(f"{file} is damaged; delete it, and what can still be measured is measured again.") from None
    times, found = (0, *updates), []
    for step in sorted({step for step, _, _ in rows}):
        wanted = [(step, batch, number) for batch in range(batches) for number in times]
        if rows.keys() >= set(wanted):
            errors = np.array([rows[row] for row in wanted]).reshape(batches, len(times), len(MEASURES))
            found.append(Fit(flat(RunDirectory(run).read_config()["settings"]), step, times, errors))
    return found
