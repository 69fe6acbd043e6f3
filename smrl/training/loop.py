"""Training: act, remember, learn, evaluate, save.

env ──transition──▶ replay ──rounds × batch──▶ reuse(update, M) ──state──▶ policy ──action──▶ env
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from smrl.envs.environment import Environment, EnvironmentFault
from smrl.errors import SmrlError, require
from smrl.memory.replay import Replay
from smrl.runs import checkpoint, runtime
from smrl.runs.checkpoint import Saved
from smrl.runs.directory import RunDirectory
from smrl.runs.run import Run
from smrl.runs.settings import Settings
from smrl.smr.rules import rule_of
from smrl.training.bias import Bias
from smrl.training.clock import Clock
from smrl.training.collector import Collector
from smrl.training.evaluator import Evaluator
from smrl.training.interruption import Interrupted, Interruption
from smrl.training.learner import Learner
from smrl.training.progress import Meter
from smrl.training.recorder import Recorder
from smrl.training.session import Session


@dataclass(frozen=True)
class Hooks:
    """Functions of a user's that see a run in flight; one that returns True stops the run, which is saved."""

    on_step: Callable[[Run, int], Any] | None = None  # run, step
    on_evaluation: Callable[[Run, int, dict[str, float]], Any] | None = None  # run, step, values by name


class Trainer:
    """One run in flight."""

    def __init__(
        self,
        settings: Settings[Any],
        session: Session,
        directory: RunDirectory,
        make_env: Callable[[], Environment],
        meter: Meter,
        hooks: Hooks,
        interruption: Interruption,
        resources: ExitStack,
    ) -> None:
        self.settings, self.session, self.directory, self.hooks = settings, session, directory, hooks
        self.make_env, self.meter, self.interruption, self.resources = make_env, meter, interruption, resources
        envs = [self._opened(make_env()) for _ in range(settings.envs)]
        spec = envs[0].spec
        self.learner = Learner(settings, spec)
        learn_every = self.learner.algorithm.learn_every
        self.clock = Clock(settings.envs, settings.action_repeat, settings.warmup, learn_every)
        self.replay = Replay(settings.capacity, spec, settings.gamma, settings.n_step, settings.envs)
        self.collector = Collector(settings, envs, self.replay)
        self.evaluator: Evaluator | None = None
        self.bias: Bias | None = None
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
            if time.monotonic() - self.saved_at > self.session.checkpoint_seconds:
                self.save()
            self.advance()
            if self.hooks.on_step and self.hooks.on_step(Run(self.directory.path), self.step) is True:
                return "on_step returned True"

    def advance(self) -> None:
        """One action in every environment, and the learning that is due after it."""
        if self.clock.is_due(self.step, self.settings.reset_every):
            self.learner.reset(self.step)  # before a step, so that a run never ends with a new agent
        self._collect()
        for moment in self.clock.learning_steps(self.step):
            self.learner.learn(self.replay, moment)
        self.step += self.clock.stride
        self.recorder.advance(self.step)

    def save(self) -> None:
        """Write a checkpoint."""
        self.recorder.sync()
        mean, step, best = self.best or (None, None, {})
        arrays = self.learner.arrays() | self.collector.arrays() | best
        facts = {
            "episodes": self.collector.facts(),
            "seconds": self._seconds(),
            "best": None if step is None else {"mean": mean, "step": step},
        }
        checkpoint.save(self.directory.checkpoint, Saved(self.step, arrays, facts), self.replay)
        self.saved_at = time.monotonic()

    def _begin(self) -> None:
        """Start anew, or go on from the newest checkpoint."""
        saved = checkpoint.load(self.directory.checkpoint, self.meter.say, self.replay)
        self.step = saved.step if saved else 0
        self.recorder = self._opened(Recorder(self.settings, self.directory, self.meter, self.session.wandb, self.step))
        if saved:
            self.meter.say(f"continuing at step {self.step:,}")
            self.learner.restore(saved.arrays | (self._counts_of_format_1() if saved.format == 1 else {}))
            self.collector.restore(saved.arrays, saved.facts["episodes"], self.meter.say)
            if best := saved.facts.get("best"):
                arrays = {name: array for name, array in saved.arrays.items() if name.startswith("['best']")}
                self.best = (best["mean"], best["step"], arrays)
        else:
            self.learner.start()
            self.collector.start()
        self.last = self.recorder.last_evaluation()  # its step and mean return
        self.counted = self.learner.counts()  # batches and updates, when last logged
        self.seconds_before = saved.facts["seconds"] if saved else 0.0
        self.started = self.saved_at = time.monotonic()

    def _counts_of_format_1(self) -> dict[str, np.ndarray]:
        """Batches and updates of a run from before they were counted; its rules had no carry."""
        rule, rounds = rule_of(self.settings.reuse), self.learner.rounds
        times = [int(rule.times((), step)) for step in self.clock.learned_at(self.step)]
        counts = {"batches": rounds * len(times), "updates": rounds * sum(times)}
        return {f"['{name}']": np.array(count, np.int32) for name, count in counts.items()}

    def _asked_to_stop(self) -> str | None:
        if self.interruption.signal is not None:
            return self.interruption.name
        minutes = self.session.max_minutes
        if minutes is not None and time.monotonic() - self.started > 60 * minutes:
            return f"{minutes:g} minutes are over"
        return None

    def _collect(self) -> None:
        try:
            self.collector.collect(self.learner.explore.bind(self.learner.learned.state), self.step)
        except EnvironmentFault as fault:
            self.save()
            place = self.directory.path
            raise SmrlError(f"at step {self.step + 1:,}: {fault}; all before it is saved in {place}.") from fault

    def _evaluate(self) -> str | None:
        """Evaluate and log; why the run should stop now, if it should."""
        step, settings = self.step, self.settings
        if self.evaluator is None:
            self.evaluator = self._opened(Evaluator(self.make_env, settings.eval_episodes, settings.seed))
        policy = self.learner.exploit.bind(self.learner.learned.state)
        try:
            episodes = self.evaluator(lambda obs: np.asarray(policy(obs)), halt=self.interruption.is_noted)
            bias = self._measure_bias() if self.clock.is_due(step, settings.bias_every) else {}
        except EnvironmentFault as fault:
            self.save()
            raise SmrlError(f"in the evaluation at step {step:,}: {fault}; all before it is saved.") from fault
        if episodes is None or bias is None:
            return self.interruption.name  # the evaluation is made when the run goes on
        values = self.recorder.evaluation(step, episodes.returns, bias)
        self.last = (step, values["mean"])
        self._log_learning()
        if self.best is None or values["mean"] > self.best[0]:
            self.best = (values["mean"], step, self.learner.policy_arrays())
        if self.hooks.on_evaluation and self.hooks.on_evaluation(Run(self.directory.path), step, values) is True:
            return "on_evaluation returned True"
        return self._reached(values["mean"])

    def _reached(self, mean: float) -> str | None:
        stop_at = self.session.stop_at
        is_reached = stop_at is not None and mean >= stop_at
        return f"the return {mean:,.1f} has reached {stop_at:,g}" if is_reached else None

    def _measure_bias(self) -> dict[str, float] | None:
        if self.bias is None:
            appraise = self.learner.algorithm.appraise
            bias = Bias(self.settings, appraise, self.learner.template.state, self.make_env)
            self.bias = self._opened(bias)
        return self.bias(self.learner.learned.state, self.step, halt=self.interruption.is_noted)

    def _log_learning(self) -> None:
        """Log losses, and the updates per learning step as they were counted: on fresh batches and on reused ones."""
        values = self.learner.take_metrics()
        if not values:
            return  # still warming up
        batches, updates = self.learner.counts()
        new_batches, new_updates = batches - self.counted[0], updates - self.counted[1]
        rounds = self.learner.rounds
        values |= {
            "fresh_batch_updates": rounds,
            "same_batch_updates": rounds * (new_updates - new_batches) / new_batches,
            "updates": updates,
            "uses_per_transition": updates * self.settings.batch_size / self.replay.added,
        }
        self.counted = (batches, updates)
        self.recorder.learning(self.step, values, self.collector.take_returns(), self._seconds())

    def _seconds(self) -> float:
        return float(self.seconds_before + time.monotonic() - self.started)

    def _opened(self, resource: Any) -> Any:
        """The resource, which is closed on every way out of the run."""
        self.resources.callback(resource.close)
        return resource


def carry_out(
    settings: Settings[Any],
    session: Session,
    make_env: Callable[[], Environment],
    meter: Meter,
    hooks: Hooks = Hooks(),  # noqa: B008  # frozen
    env_source: str | None = None,
) -> Run:
    """Train a run in its folder, or continue it; a finished one is left alone."""
    with ExitStack() as resources:
        env = make_env()  # an environment that cannot be made is refused before anything is written
        resources.callback(env.close)
        for note in env.notes:
            meter.say(note)
        directory = RunDirectory.of(settings, session.runs)
        resources.enter_context(directory.locked())
        directory.refuse_another(settings, env_source)
        done = checkpoint.newest_step(directory.checkpoint) or 0
        if done >= settings.steps:
            meter.advance(done)
            meter.say(f"finished already, {done:,} steps; see {directory.path}")
            return Run(directory.path)
        _settle_threads(session.threads, directory)  # before anything starts JAX
        for change in directory.changes():
            meter.say(f"{change}, so the last bits may differ from a run that was never interrupted.")
        interruption = resources.enter_context(Interruption(meter.say))
        Learner(settings, env.spec)  # an algorithm that does not fit the environment is refused here
        directory.write_config(settings, env.spec, env_source, runtime.threads())
        trainer = Trainer(settings, session, directory, make_env, meter, hooks, interruption, resources)
        reason = trainer.run()
        trainer.save()
        if interruption.signal is not None:
            sentence = f"stopped by {reason} at step {trainer.step:,} and saved; the same command continues it."
            raise Interrupted(interruption.signal, sentence)
        if reason:
            meter.say(f"stopped at step {trainer.step:,} and saved: {reason}.")
    return Run(directory.path)


def _settle_threads(asked: int | None, directory: RunDirectory) -> None:
    """Compute with the threads that the run began with, because its last bits depend on them."""
    recorded = directory.read_config()["threads"] if directory.config.exists() else None
    require(
        recorded is None or asked in (None, recorded),
        f"{directory.path} was begun with {recorded} thread(s); leave --threads out to continue it.",
    )
    runtime.start(recorded or asked)
