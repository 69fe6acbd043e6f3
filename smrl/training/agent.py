"""The learner: the algorithm's state, the reuse rule, and the compiled functions that act and learn with them."""

import contextlib
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from smrl.algorithms import registry
from smrl.memory.replay import Replay
from smrl.randomness import Purpose, Stream, at, key
from smrl.settings import Settings
from smrl.smr import loop
from smrl.smr.rules import rule_of
from smrl.training.acting import Reader
from smrl.training.arrays import from_arrays, to_arrays
from smrl.training.clock import Moment
from smrl.types import Array, Key, Metrics, Spec, Transition

READ_AT_ONCE = 100  # metrics: few enough to be kept in memory, and enough not to wait for a GPU often
METRICS_EVERY = 10  # learning steps: reading the losses back every time would cost more than it tells


class Agent:
    """Learns from a replay memory; ``learned`` is its whole state."""

    def __init__(self, settings: Settings[Any], spec: Spec) -> None:
        self.settings = settings
        self.algorithm = algorithm = registry.find(settings.algorithm).make(settings.hyper, spec)
        self.rounds = algorithm.rounds * settings.fresh_batches
        self._draws = Stream(settings.seed, Purpose.REPLAY)
        self._metrics: list[Metrics] = []  # that are still to be read back and added to the sums
        self._sums: dict[str, tuple[float, int]] = {}  # sum and number of each metric's values since they were taken
        rule = rule_of(settings.reuse)
        explore_key, learn_key = key(settings.seed, Purpose.EXPLORE), key(settings.seed, Purpose.LEARN)
        repeat = settings.action_repeat
        learn = loop.learner(algorithm, rule, settings.fresh_batches, repeat)

        def start(key: Key) -> Any:
            # Not compiled as a whole: its small programs are compiled once and used for every layer.
            # Copies, for the targets are the critics' own arrays, and an array can be donated only once.
            return jax.tree.map(jnp.copy, loop.start(algorithm, rule, key))

        self._start = start
        self._reset = jax.jit(lambda learned, key: loop.reset(algorithm, learned, key))

        def learning(learned: Any, batches: Transition, step: Array, env_step: Array) -> tuple[Any, Metrics]:
            return learn(learned, batches, step, env_step, at(learn_key, step))

        self._learn = jax.jit(learning, donate_argnums=0)
        self.template = jax.eval_shape(self._start, learn_key)
        obs = spec.example().obs
        self.exploit = Reader(algorithm.exploit, self.template.state, obs)
        self.explore = Reader(
            lambda state, obs, step: algorithm.explore(state, obs, step // repeat, at(explore_key, step)),
            *(self.template.state, obs, 0),
        )
        self._compiling = threading.Thread(target=self._compile, args=(spec.example(),), name="compile")
        self._compiling.start()

    def _compile(self, example: Transition) -> None:
        """Compile the updates, in another thread than the one that starts the agent and warms up."""
        size = (self.rounds, self.settings.batch_size)
        batches = jax.tree.map(lambda field: jax.ShapeDtypeStruct((*size, *field.shape[1:]), field.dtype), example)
        with contextlib.suppress(Exception):  # the first update will fail in the same way, and tell
            self._learn.lower(self.template, batches, 1, 1).compile()

    def start(self) -> None:
        """Begin with fresh networks."""
        self.learned = self._start(key(self.settings.seed, Purpose.INITIALISE))

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self.learned = type(self.template)(**from_arrays(self.template._asdict(), arrays))

    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps."""
        return to_arrays(self.learned._asdict())

    def reset(self, step: int) -> None:
        """Start the agent anew, or what the algorithm resets of it; the replay memory is not touched."""
        new_key = at(key(self.settings.seed, Purpose.INITIALISE), step)
        self.learned = self._reset(self.learned, new_key)

    def learn(self, replay: Replay, moment: Moment) -> None:
        """All updates of one learning step, on batches drawn for it."""
        self._compiling.join()
        batches = replay.sample(self._draws.at(moment.draw), self.rounds, self.settings.batch_size)
        self.learned, metrics = self._learn(self.learned, batches, moment.step, moment.env_step)
        if moment.step % METRICS_EVERY == 0:
            self._metrics.append(metrics)
            if len(self._metrics) == READ_AT_ONCE:
                self._add_up()

    def take_metrics(self) -> dict[str, float]:
        """The metrics' means since the last call; empty if nothing was learned since."""
        self._add_up()
        sums, self._sums = self._sums, {}
        return {name: total / count if count else float("nan") for name, (total, count) in sorted(sums.items())}

    def _add_up(self) -> None:
        """Add the metrics to their sums, but for NaN, by which an update reports that it did not compute one."""
        history, self._metrics = jax.device_get(self._metrics), []
        for name in history[0] if history else ():
            values = np.array([row[name] for row in history], np.float64)
            known = values[~np.isnan(values)]
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + float(known.sum()), count + known.size)

    def counts(self) -> tuple[int, int]:
        """Batches drawn and updates made so far."""
        return int(self.learned.batches), int(self.learned.updates)

    def policy_arrays(self) -> dict[str, np.ndarray]:
        """The parameters that the greedy policy reads, by their names in a checkpoint."""
        return to_arrays({"best": self.exploit.part(self.learned.state)})
