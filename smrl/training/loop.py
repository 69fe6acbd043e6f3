"""Training: act, remember, learn, evaluate, save.

env ──transition──▶ replay ──rounds × batch──▶ reuse(update, M) ──state──▶ policy ──action──▶ env
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from smrl.envs.environment import EnvironmentFault
from smrl.envs.workers import Env, Restarts
from smrl.errors import SmrlError
from smrl.memory.mixed import MixedReplay
from smrl.memory.replay import Replay
from smrl.plugins import UserCode, in_words
from smrl.runs import checkpoint
from smrl.runs.checkpoint import Saved, Writer
from smrl.runs.paths import DATA, START, RunDirectory
from smrl.runs.records import NEWEST
from smrl.settings import RunOptions, Settings
from smrl.smr.rules import Budget, rule_of
from smrl.training.agent import Agent
from smrl.training.bias import BiasEstimator
from smrl.training.budget import ReuseBudget, Times
from smrl.training.clock import Clock, Moment
from smrl.training.collector import Collector
from smrl.training.diagnostics import Diagnostics
from smrl.training.estimate import Stopwatch, episode_steps, plan
from smrl.training.evaluator import Episodes, Evaluator
from smrl.training.inputs import data_memory, load_input
from smrl.training.memory_budget import replay_of
from smrl.training.progress import Progress, in_time
from smrl.training.recorder import Recorder
from smrl.training.run import Policy, Run
from smrl.training.signals import SignalHandler
from smrl.training.status import Status

Resource = TypeVar("Resource")
SHORT_SECONDS = 30.0  # that a run may take without an estimate
NO_EVALUATION: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Callbacks:
    """User callbacks; return True to save and stop the run."""

    on_step: Callable[[Status], Any] | None = None
    on_evaluation: Callable[[Status], Any] | None = None

    @property
    def are_given(self) -> bool:
        """Whether there is any."""
        return self != Callbacks()


class Best(NamedTuple):
    """The policy of the best evaluation so far."""

    mean: float  # return
    step: int
    arrays: dict[str, np.ndarray]  # parameters of the policy


class Trainer:
    """A run in progress."""

    def __init__(
        self,
        *,
        settings: Settings[Any],
        options: RunOptions,
        directory: RunDirectory,
        config: dict[str, Any],
        make_env: Callable[..., Env],
        restarts: Restarts,
        progress: Progress,
        callbacks: Callbacks,
        signals: SignalHandler,
        resources: ExitStack,
    ) -> None:
        """Start a run or restore it from its newest checkpoint; whatever is opened is closed with ``resources``."""
        self.settings, self.options, self.config, self.callbacks = settings, options, config, callbacks
        self.make_env, self.progress, self.signals, self.resources = make_env, progress, signals, resources
        self.restarts, self.logged_restarts = restarts, 0  # the latter at the last row of training.csv
        self.run = Run(directory.path, trust=True)  # for callbacks
        envs = [self._open(make_env(training=True)) for _ in range(settings.envs)]
        spec = envs[0].spec
        self.agent = Agent(settings, spec)
        learn_every = self.agent.algorithm.learn_every
        self.clock = Clock(settings.envs, settings.action_repeat, settings.warmup, learn_every)
        self.replay = replay_of(settings, spec, directory.path, progress.notify)
        self.memory: Replay | MixedReplay = self.replay  # what is learned from
        if settings.data is not None:
            data = data_memory(settings, spec, load_input(directory, config, DATA))
            self.memory = MixedReplay(self.replay, data, settings.data_share)
        self.collector = self._make_collector(envs)
        self.writer = self._open(Writer(directory.checkpoint, self.replay))
        saved = checkpoint.load(directory.checkpoint, progress.notify, self.replay)
        self.step = saved.step if saved else 0
        self.recorder = Recorder(settings, directory, config, progress, options.wandb, self.step)
        self._open(self.recorder.loggers)
        self.best: Best | None = None
        if saved:
            progress.inform(f"continuing at step {self.step:,}")
            self._restore(saved)
        else:
            self.agent.start(None if settings.from_run is None else load_input(directory, config, START))
            self.collector.start()
        last = self.recorder.last
        if last and last.step == self.step:  # the run was killed after this evaluation and before the next checkpoint
            self._keep_if_best(last.mean)
        self.losses: dict[str, float] = {}  # of the last row of training.csv that has any
        self.unrecorded: dict[str, float] = {}  # losses that are in no row yet
        self.evaluated: tuple[int | None, list[Episodes]] = (None, [])  # version of the networks, and its episodes
        rule, recorded = rule_of(settings.reuse, settings.real_time), saved.facts.get("reuse") if saved else None
        self.budget = ReuseBudget(settings, rule, self.clock, recorded) if isinstance(rule, Budget) else None
        self.learning_seconds = 0.0  # measured for the budget only
        self.stopwatch: Stopwatch | None = Stopwatch(settings, self.clock, episode_steps(envs[0]))
        self.logged_counts = self.agent.counts()  # batches and updates at the last row of training.csv
        self.seconds_before = saved.facts["seconds"] if saved else 0.0
        self.started = self.saved_at = time.monotonic()

    def _make_collector(self, envs: Sequence[Env]) -> Collector:
        return Collector(self.settings, envs, self.replay, self.signals.check_interrupt, self.agent.statistics)

    def train(self) -> str | None:
        """Train until the run is complete or something stops it; return what stopped it."""
        if self.recorder.last and (reason := self._reached(self.recorder.last.mean)):
            return reason
        self.progress.planned(plan([self.settings]))
        while True:
            last = self.recorder.last
            is_evaluated = last is not None and last.step >= self.step
            is_due = self.clock.is_due(self.step, self.settings.eval_every)
            if is_due and not is_evaluated and (reason := self._evaluate()):
                return reason
            if self.step >= self.settings.steps:
                return None
            if reason := self._stop_request():
                return reason
            now = time.monotonic()
            if self.recorder.is_row_due(self.step, now, self.options.log_seconds, self._seconds()):
                self._read_losses()
                self._record_learning()
            is_old = now - self.saved_at > self.options.checkpoint_seconds
            if is_old and not self.writer.is_busy():
                self.writer.begin(self._state(), before=self.recorder.evaluations.sync)  # writes in another thread
                self.saved_at = time.monotonic()
            is_done = self._timed_advance(self.stopwatch) if self.stopwatch else self.advance()
            if is_done and self._callback_stops(self.callbacks.on_step):
                return "on_step returned True"

    def advance(self) -> bool:
        """Act once in every environment, and learn what is due afterwards; return False if a signal prevents it.

        Ctrl-C also reaches processes that an environment has started, so a fault after a signal is no fault.
        """
        if self.clock.is_due(self.step, self.settings.reset_every):
            self.agent.reset(self.step)  # before a step, so that a run never ends with a new agent
        self.writer.keep(self.settings.envs)
        try:
            self.collector.collect(self.agent.explore, self.step)
        except EnvironmentFault as fault:
            if self.signals.is_noted():
                return False  # nothing of this step is stored
            raise SmrlError(f"at step {self.step + 1:,}: {fault}; {self._save_after_failure()}.") from fault
        for moment in self.clock.learning_steps(self.step):
            if self.budget:
                self._learn_in_time(self.budget, moment)
            else:
                self.agent.learn(self.memory, moment)
        self.step += self.clock.stride
        self.recorder.advance(self.step)
        return True

    def _learn_in_time(self, budget: ReuseBudget, moment: Moment) -> None:
        """Make the updates of a learning step; choose M again when that is due."""
        begun = time.perf_counter()
        if budget.is_due(moment.env_step):
            uses = self.agent.counts()[1] // self.agent.rounds  # waits for the updates
            self.learning_seconds += time.perf_counter() - begun
            begun = time.perf_counter()
            now = Times(moment.env_step, self._seconds(), self.learning_seconds, uses)
            self.agent.set_reuse(budget.choose(now))
        self.agent.learn(self.memory, moment)
        self.learning_seconds += time.perf_counter() - begun

    def _timed_advance(self, stopwatch: Stopwatch) -> bool:
        """Advance, and show how long the run takes as soon as that is known."""
        step, begun = self.step, time.perf_counter()
        is_done = self.advance()
        left = stopwatch.add(step, time.perf_counter() - begun, lambda: self.agent.counts()[1] // self.agent.rounds)
        if left is not None:
            self.stopwatch = None
            if left >= SHORT_SECONDS:
                self.progress.planned(f"{plan([self.settings])}, about {in_time(left)}")
        return is_done

    def finish(self) -> None:
        """Record what callbacks have logged since the last row, and save."""
        if self.recorder.has_logged:
            self.recorder.learning(self.step, {}, self._seconds())
        self.save()
        if self.budget:
            self.progress.inform(f"--reuse {self.budget.schedule} instead of the budget repeats this run exactly.")

    def save(self) -> None:
        """Write a checkpoint, and wait until it is on the disk."""
        self.writer.save(self._state(), before=self.recorder.evaluations.sync)
        self.saved_at = time.monotonic()

    def _state(self) -> Saved:
        """Return what a checkpoint keeps besides the replay memory, as copies that no later step changes."""
        best = self.best
        arrays = self.agent.arrays() | self.collector.arrays() | (best.arrays if best else {})
        facts = {
            "episodes": self.collector.facts(),
            "seconds": self._seconds(),
            "best": {"mean": best.mean, "step": best.step} if best else None,
            "config": self.config,  # to rebuild config.json from, as the tables
            "tables": self.recorder.tables(),
            **({"reuse": str(self.budget.schedule)} if self.budget else {}),
        }
        # Arrays of JAX may be views of memory that the next update overwrites.
        return Saved(self.step, {name: np.array(array) for name, array in arrays.items()}, facts)

    def _restore(self, saved: Saved) -> None:
        self.agent.restore(saved.arrays)
        try:
            self.collector.restore(saved.arrays, saved.facts["episodes"], self.progress.notify)
        except (KeyError, ValueError) as error:
            where = f"the checkpoint at step {saved.step:,} of {self.run.path}"
            raise SmrlError(f"{where} does not hold the episodes of its environments ({in_words(error)}).") from error
        if best := saved.facts.get("best"):
            arrays = {name: array for name, array in saved.arrays.items() if name.startswith(("['best']", "best."))}
            self.best = Best(best["mean"], best["step"], arrays)

    def _evaluate(self) -> str | None:
        """Evaluate and record; return why the run should stop now, if it should."""
        halt = self.signals.is_noted
        try:
            played = self._play_evaluation(halt)
            bias: dict[str, float] | None = {}
            if self.clock.is_due(self.step, self.settings.bias_every):
                bias = self._bias(self.agent.state.algorithm, self.step, self.agent.statistics, halt)
        except EnvironmentFault as fault:
            if halt():
                return self.signals.name
            failure = f"in the evaluation at step {self.step:,}: {fault}; {self._save_after_failure()}."
            raise SmrlError(failure) from fault
        if played is None or bias is None:
            return self.signals.name  # the evaluation is repeated when the run continues
        self.evaluated = (self.agent.version, played)
        newest = {NEWEST: float(played[1].returns.mean())} if len(played) > 1 else {}
        values = self.recorder.evaluation(self.step, played[0].returns, newest | bias)
        self._keep_if_best(values["mean"])
        self._read_losses()
        if self.options.diagnostics and self.unrecorded:
            self.unrecorded |= self.agent.diagnose(self._diagnostics, self.memory, self.step)
        try:
            if self._callback_stops(self.callbacks.on_evaluation, values):
                return "on_evaluation returned True"
        finally:
            if self.unrecorded:  # not during the warm-up
                self._record_learning()  # after the callback, which may log
        return self._reached(values["mean"])

    def _play_evaluation(self, halt: Callable[[], bool]) -> list[Episodes] | None:
        """Play the episodes of an evaluation, and of the newest policy where that is of its average.

        Episodes before that were of the same policy are not repeated.
        """
        version, before = self.evaluated
        if version == self.agent.version and self.agent.statistics is None:
            return before
        policies: list[Callable[[np.ndarray], np.ndarray]] = [self.agent.exploit]
        if self.settings.average_policy is not None:
            policies.append(self.agent.exploit_newest)
        played = []
        for policy in policies:
            episodes = self._evaluator(policy, halt=halt)
            if episodes is None:
                return None
            played.append(episodes)
        return played

    @cached_property
    def _evaluator(self) -> Evaluator:
        settings = self.settings
        return self._open(Evaluator(self.make_env, settings.eval_episodes, settings.seed, notify=self.progress.notify))

    @cached_property
    def _bias(self) -> BiasEstimator:
        algorithm = self.agent.algorithm
        return self._open(BiasEstimator(self.settings, algorithm, self.make_env, self.progress.notify))

    @cached_property
    def _diagnostics(self) -> Diagnostics:
        return Diagnostics(self.settings, self.agent.algorithm)

    def _read_losses(self) -> None:
        """Read the losses since the last row of training.csv."""
        self.unrecorded = self.agent.take_metrics()
        self.losses = self.unrecorded or self.losses

    def _record_learning(self) -> None:
        """Record losses, and the counted updates per learning step on fresh batches and on reused ones."""
        values: dict[str, float | None] = {**self.unrecorded}
        self.unrecorded = {}
        batches, updates = self.agent.counts()
        new_batches, new_updates = batches - self.logged_counts[0], updates - self.logged_counts[1]
        rounds = self.agent.rounds
        if new_batches:
            values |= {
                "fresh_batch_updates": rounds,
                "same_batch_updates": rounds * (new_updates - new_batches) / new_batches,
                "updates": updates,
                **({} if self.agent.has_constant_reuse else {"reuse": new_updates / new_batches}),
                "uses_per_transition": updates * self.settings.batch_size / self.memory.added,
                **self._learning_values(),
            }
        self.logged_counts = (batches, updates)
        values |= self.collector.means.take()
        if self.restarts.allowed:
            values["env_restarts"] = self.restarts.used - self.logged_restarts
            self.logged_restarts = self.restarts.used
        self.recorder.learning(self.step, values, self._seconds())

    def _learning_values(self) -> dict[str, float]:
        """Return further columns of training.csv."""
        return {}

    def _keep_if_best(self, mean: float) -> None:
        if self.best is None or mean > self.best.mean:
            self.best = Best(mean, self.step, self.agent.policy_arrays())

    def _stop_request(self) -> str | None:
        if self.signals.is_noted():
            return self.signals.name
        minutes = self.options.max_minutes
        if minutes is not None and time.monotonic() - self.started > 60 * minutes:
            return f"{minutes:g} minutes are over"
        return None

    def _reached(self, mean: float) -> str | None:
        stop_at = self.options.stop_at
        is_reached = stop_at is not None and mean >= stop_at
        return f"the return {mean:,.1f} has reached {stop_at:,g}" if is_reached else None

    def _seconds(self) -> float:
        return float(self.seconds_before + time.monotonic() - self.started)

    def _status(self, evaluation: Mapping[str, float]) -> Status:
        """Return what callbacks see."""
        collector = self.collector
        return Status(
            run=self.run,
            step=self.step,
            evaluation=evaluation,
            ended=tuple(collector.ended),
            last_episode=collector.last_ended,
            infos=tuple(env.info for env in collector.envs),
            losses=self.losses,
            copy_policy=lambda: Policy(collector.spec, self.agent.loaded_policy(), self.step),
            write=self.recorder.log,
        )

    def _callback_stops(
        self, callback: Callable[[Status], Any] | None, evaluation: Mapping[str, float] = NO_EVALUATION
    ) -> bool:
        """Call a callback; return whether it stops the run. An exception is passed on once the run is saved."""
        if callback is None:
            return False

        def describe(error: BaseException) -> BaseException:
            saved = self._save_after_failure()
            self.progress.notify(f"a callback failed at step {self.step:,}; {saved}.")
            return error

        with UserCode(describe):
            return callback(self._status(evaluation)) is True

    def _save_after_failure(self) -> str:
        """Save, and return a message about it; a failure to save does not hide the first one."""
        try:
            self.save()
        except SmrlError as error:
            return f"what came after the last checkpoint is lost: {str(error).removesuffix('.')}"
        return f"all before it is saved in {self.run.path}"

    def _open(self, resource: Resource) -> Resource:
        """Return a resource that is closed on every way out of the run."""
        self.resources.push(partial(_close, resource, self.progress.notify))
        return resource


def _close(resource: Any, notify: Callable[[str], None], kind: Any, error: BaseException | None, trace: Any) -> None:
    """Close a resource; a failure is only reported, not raised, if it would hide an earlier error."""
    try:
        resource.close()
    except Exception as failure:
        message = f"closing the {type(resource).__name__.lower()} failed with {in_words(failure)}."
        if error is None:
            raise SmrlError(message) from failure
        notify(message)
