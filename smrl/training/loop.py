"""Training: act, remember, learn, evaluate, save.

env ──transition──▶ replay ──rounds × batch──▶ reuse(update, M) ──state──▶ policy ──action──▶ env
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from smrl.envs.environment import Environment, EnvironmentFault
from smrl.errors import SmrlError
from smrl.plugins import in_words
from smrl.runs import checkpoint
from smrl.runs.checkpoint import Saved
from smrl.runs.checkpoint_writer import Writer
from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions, Settings
from smrl.training.agent import Agent
from smrl.training.bias import BiasEstimator
from smrl.training.clock import Clock
from smrl.training.collector import Collector
from smrl.training.evaluator import Evaluator
from smrl.training.memory_budget import replay_of
from smrl.training.progress import Progress
from smrl.training.recorder import Recorder
from smrl.training.run import Run
from smrl.training.signals import SignalHandler


@dataclass(frozen=True)
class Callbacks:
    """Functions of a user's that see a run in flight; one that returns True stops the run, which is saved."""

    on_step: Callable[[Run, int], Any] | None = None  # run, step
    on_evaluation: Callable[[Run, int, dict[str, float]], Any] | None = None  # run, step, values by name


class Trainer:
    """One run in flight."""

    def __init__(
        self,
        settings: Settings[Any],
        options: RunOptions,
        directory: RunDirectory,
        config: dict[str, Any],
        make_env: Callable[..., Environment],
        progress: Progress,
        callbacks: Callbacks,
        interruption: SignalHandler,
        resources: ExitStack,
    ) -> None:
        self.settings, self.options, self.directory, self.callbacks = settings, options, directory, callbacks
        self.config = config  # what config.json holds
        self.make_env, self.progress, self.interruption, self.resources = make_env, progress, interruption, resources
        envs = [self._opened(make_env(training=True)) for _ in range(settings.envs)]
        spec = envs[0].spec
        self.agent = Agent(settings, spec)
        learn_every = self.agent.algorithm.learn_every
        self.clock = Clock(settings.envs, settings.action_repeat, settings.warmup, learn_every)
        self.replay = replay_of(settings, spec, directory.path, progress.notify)
        self.collector = Collector(settings, envs, self.replay, interruption.check_interrupt)
        self.writer = self._opened(Writer(directory.checkpoint, self.replay))
        self.seen = Run(directory.path, trust=True)  # the run as hooks see it
        self.evaluator: Evaluator | None = None
        self.bias: BiasEstimator | None = None
        self.best: tuple[float, int, dict[str, np.ndarray]] | None = None  # mean return, step, the policy's parameters
        self._begin()

    def run(self) -> str | None:
        """Train to the end, or until something stops the run; the reason, if there is one."""
        if self.last and (stop := self._reached(self.last[1])):
            return stop
        while True:
            is_evaluated = (self.last and self.last[0] >= self.step) or not self.clock.is_due(
                self.step, self.settings.eval_every
            )
            if not is_evaluated and (stop := self._evaluate()):
                return stop
            if self.step >= self.settings.steps:
                return None
            if stop := self._asked_to_stop():
                return stop
            if time.monotonic() - self.saved_at > self.options.checkpoint_seconds:
                self.save_in_background()
            self.advance()
            if self._hook_stops(self.callbacks.on_step, self.step):
                return "on_step returned True"

    def advance(self) -> None:
        """One action in every environment, and the learning that is due after it."""
        if self.clock.is_due(self.step, self.settings.reset_every):
            self.agent.reset(self.step)  # before a step, so that a run never ends with a new agent
        self._collect()
        for moment in self.clock.learning_steps(self.step):
            self.agent.learn(self.replay, moment)
        self.step += self.clock.stride
        self.recorder.advance(self.step)

    def save(self) -> None:
        """Write a checkpoint, and wait until it is on the disk."""
        self.writer.save(self._state(), before=self.recorder.sync)
        self.saved_at = time.monotonic()

    def save_in_background(self) -> None:
        """Begin to write a checkpoint, unless one is being written."""
        if not self.writer.is_busy():
            self.writer.begin(self._state(), before=self.recorder.sync)
            self.saved_at = time.monotonic()

    def _state(self) -> Saved:
        """What a checkpoint keeps besides the replay memory, as copies that no later step changes."""
        mean, step, best = self.best or (None, None, {})
        arrays = self.agent.arrays() | self.collector.arrays() | best
        facts = {
            "episodes": self.collector.facts(),
            "seconds": self._seconds(),
            "best": None if step is None else {"mean": mean, "step": step},
            "config": self.config,  # to rebuild config.json and the tables from
            "tables": self.recorder.tables(),
        }
        # Arrays of JAX may be views of memory that the next update takes over.
        return Saved(self.step, {name: np.array(array) for name, array in arrays.items()}, facts)

    def _begin(self) -> None:
        """Start anew, or go on from the newest checkpoint."""
        saved = checkpoint.load(self.directory.checkpoint, self.progress.notify, self.replay)
        self.step = saved.step if saved else 0
        self.recorder = self._opened(
            Recorder(self.settings, self.directory, self.config, self.progress, self.options.wandb, self.step)
        )
        if saved:
            self.progress.notify(f"continuing at step {self.step:,}")
            self.agent.restore(saved.arrays)
            self.collector.restore(saved.arrays, saved.facts["episodes"], self.progress.notify)
            if best := saved.facts.get("best"):
                arrays = {name: array for name, array in saved.arrays.items() if name.startswith("['best']")}
                self.best = (best["mean"], best["step"], arrays)
        else:
            self.agent.start()
            self.collector.start()
        self.last = self.recorder.last_evaluation()  # its step and mean return
        if self.last and self.last[0] == self.step and (self.best is None or self.last[1] > self.best[0]):
            self.best = (self.last[1], self.step, self.agent.policy_arrays())  # killed right after this evaluation
        self.counted = self.agent.counts()  # batches and updates, when last logged
        self.seconds_before = saved.facts["seconds"] if saved else 0.0
        self.started = self.saved_at = time.monotonic()

    def _asked_to_stop(self) -> str | None:
        if self.interruption.signal is not None:
            return self.interruption.name
        minutes = self.options.max_minutes
        if minutes is not None and time.monotonic() - self.started > 60 * minutes:
            return f"{minutes:g} minutes are over"
        return None

    def _collect(self) -> None:
        self.writer.keep(self.settings.envs)
        try:
            self.collector.collect(self.agent.explore, self.step)
        except EnvironmentFault as fault:
            raise SmrlError(f"at step {self.step + 1:,}: {fault}; {self._save_after_failure()}.") from fault

    def _evaluate(self) -> str | None:
        """Evaluate and log; why the run should stop now, if it should."""
        step, settings = self.step, self.settings
        if self.evaluator is None:
            self.evaluator = self._opened(
                Evaluator(self.make_env, settings.eval_episodes, settings.seed, notify=self.progress.notify)
            )
        try:
            episodes = self.evaluator(self.agent.exploit, halt=self.interruption.is_noted)
            bias = self._measure_bias() if self.clock.is_due(step, settings.bias_every) else {}
        except EnvironmentFault as fault:
            raise SmrlError(f"in the evaluation at step {step:,}: {fault}; {self._save_after_failure()}.") from fault
        if episodes is None or bias is None:
            return self.interruption.name  # the evaluation is made when the run goes on
        values = self.recorder.evaluation(step, episodes.returns, bias)
        self.last = (step, values["mean"])
        self._log_learning()
        if self.best is None or values["mean"] > self.best[0]:
            self.best = (values["mean"], step, self.agent.policy_arrays())
        if self._hook_stops(self.callbacks.on_evaluation, step, values):
            return "on_evaluation returned True"
        return self._reached(values["mean"])

    def _reached(self, mean: float) -> str | None:
        stop_at = self.options.stop_at
        is_reached = stop_at is not None and mean >= stop_at
        return f"the return {mean:,.1f} has reached {stop_at:,g}" if is_reached else None

    def _measure_bias(self) -> dict[str, float] | None:
        if self.bias is None:
            bias = BiasEstimator(self.settings, self.agent.algorithm, self.make_env, self.progress.notify)
            self.bias = self._opened(bias)
        return self.bias(self.agent.state.algorithm, self.step, halt=self.interruption.is_noted)

    def _log_learning(self) -> None:
        """Log losses, and the updates per learning step as they were counted: on fresh batches and on reused ones."""
        values = self.agent.take_metrics()
        if not values:
            return  # still warming up
        batches, updates = self.agent.counts()
        new_batches, new_updates = batches - self.counted[0], updates - self.counted[1]
        rounds = self.agent.rounds
        values |= {
            "fresh_batch_updates": rounds,
            "same_batch_updates": rounds * (new_updates - new_batches) / new_batches,
            "updates": updates,
            "uses_per_transition": updates * self.settings.batch_size / self.replay.added,
        }
        self.counted = (batches, updates)
        self.recorder.learning(self.step, values, self.collector.take_mean_return(), self._seconds())

    def _seconds(self) -> float:
        return float(self.seconds_before + time.monotonic() - self.started)

    def _hook_stops(self, hook: Callable[..., Any] | None, *news: Any) -> bool:
        """Call a hook; whether it stops the run. What it raises is the user's to see, once the run is saved."""
        try:
            return hook is not None and hook(self.seen, *news) is True
        except Exception:
            self.progress.notify(f"a hook failed at step {self.step:,}; {self._save_after_failure()}.")
            raise

    def _save_after_failure(self) -> str:
        """Save, and say what became of it; a failure to save does not hide the first one."""
        try:
            self.save()
        except SmrlError as error:
            return f"what came after the last checkpoint is lost: {str(error).removesuffix('.')}"
        return f"all before it is saved in {self.directory.path}"

    def _opened(self, resource: Any) -> Any:
        """The resource, which is closed on every way out of the run."""
        self.resources.push(partial(_close, resource, self.progress.notify))
        return resource


def _close(resource: Any, notify: Callable[[str], None], kind: Any, error: BaseException | None, trace: Any) -> None:
    """Close a resource; a failure to do so is only said where it would hide an error that came first."""
    try:
        resource.close()
    except Exception as failure:
        message = f"closing the {type(resource).__name__.lower()} failed with {in_words(failure)}."
        if error is None:
            raise SmrlError(message) from failure
        notify(message)
