"""Training on a device: it acts at its own clock in the main thread, while another thread learns.

    main thread     env.step ──whole steps──▶ queue            ◀──newest policy── act      signals, callbacks
    learner thread             queue ──▶ replay ──▶ learn ──copy of the policy──▶          tables, checkpoints

The threads share a queue of whole steps and one reference to the newest policy (`HandOver`), and nothing else while
both run. The actor waits for the learner only between episodes. Compiled updates release the interpreter's lock, and an
action is computed in the thread that asks for it, so it does not wait for the updates of the other.
"""

import contextlib
import gc
import os
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from smrl.envs.environment import Environment, EnvironmentFault, success_of
from smrl.envs.workers import Env
from smrl.errors import SmrlError, require
from smrl.memory.mixed import MixedReplay
from smrl.memory.replay import Replay
from smrl.randomness import Purpose, Stream, environment_seed
from smrl.runs import checkpoint
from smrl.runs.checkpoint import Saved
from smrl.runs.paths import DATA, START, RunDirectory
from smrl.settings import Settings
from smrl.smr.rules import LARGEST_REUSE, FittedReuse
from smrl.training.agent import Agent, LoadedPolicy
from smrl.training.clock import Clock, Moment
from smrl.training.collector import EndedEpisode, require_finite
from smrl.training.estimate import plan
from smrl.training.hand_over import ActedStep, ActingPolicy, HandOver, Intake, LearningLog, Timing
from smrl.training.inputs import data_memory, load_input
from smrl.training.loop import Best, Trainer
from smrl.training.memory_budget import replay_of
from smrl.training.progress import in_time
from smrl.training.run import Policy, Run, require_run
from smrl.training.status import Status
from smrl.types import Spec
from smrl.validation import Positive, convert

FAR_BEHIND = 10_000  # learning steps to warn of
FILLED = 0.9  # of the control period, by the updates of `--reuse realtime`; the rest is for sampling and hand-over
SWITCH_SECONDS = 2e-4  # after which a thread that computes in Python gives way; Python's default is 5 ms
ACTOR_PRIORITY, LEARNER_PRIORITY = 50, 49  # of Linux's 1 to 99 for real time
TRIALS = 30  # actions that are timed before the device moves
POLL_SECONDS = 0.005
NOT_PREFERRED = "the system does not give this run real-time priority, so other programs can delay it (docs/robots.md)."
LEARNED = "real_time.learned_to"  # the name of an array in checkpoints


def device_settings(settings: Settings[Any], env: Env) -> Settings[Any]:
    """Return the settings with the control period of the environment; refuse to drive a device in an ordinary run.

    The metadata cannot switch real time on, because commands find a run's folder by its settings before they make its
    environment.
    """
    if not settings.real_time:
        require(
            not env.is_device,
            f'{env.name} is a device by its metadata["real_time"]. A run without --real-time would make several of it '
            "and repeat stored actions at full speed: add --real-time.",
        )
        return settings
    assert isinstance(env, Environment)  # not in a process of its own
    given, own = settings.control_period, env.control_period
    if own is not None:
        own = convert(f'metadata["control_period"] of {env.name}', own, Positive)
    if given is None and own is None:
        raise SmrlError(f'{env.name} has no metadata["control_period"]; give --control-period SECONDS.')
    if given is not None and own not in (None, given):
        raise SmrlError(f"{env.name} steps every {own:g} s by its metadata; leave --control-period {given:g} out.")
    return replace(settings, control_period=given or own)


class RealTimeTrainer(Trainer):
    """A real-time run in progress.

    Between `train` and its end, the learner thread owns everything that learning, tables and checkpoints need. The
    main thread owns the device.
    """

    collector: Intake

    def __init__(self, **parts: Any) -> None:
        self.log, self.learned_to = LearningLog(), 0  # environment steps whose learning steps are done
        super().__init__(**parts)
        settings = self.settings
        (env,) = self.collector.envs
        assert isinstance(env, Environment)
        self.env = env
        self.acted = self.step  # environment steps of the device; the learner has received ``step`` of them
        self.timing = Timing((settings.control_period or 0.0) * settings.action_repeat)
        self._warm_up = Stream(settings.seed, Purpose.WARM_UP)
        self._use_seconds: deque[float] = deque(maxlen=21)  # of the last learning steps, divided by their M
        self._last_ended: EndedEpisode | None = None  # the training episode that ended last
        self._has_ended = False  # whether the last step has ended it
        self._heard_step = 0  # of the evaluation that a callback sees
        self._unheard: deque[tuple[int, dict[str, float]]] = deque()  # evaluations that callbacks have not seen
        self._thread = threading.Thread(target=self._run_learner, name="learner", daemon=True)
        self._failure: BaseException | None = None
        self._has_warned = set[str]()
        self.acting_version = 0  # of the policy that acted last
        self._reported = len(self.log.reuse)  # learning steps that training.csv has

    def _make_collector(self, envs: Sequence[Env]) -> Intake:
        return Intake(self.settings, envs, self.replay, self.agent.statistics)

    # The main thread: the device

    def train(self) -> str | None:
        """Train until the run is complete or something stops it; return what stopped it."""
        if self.recorder.last and (reason := self._reached(self.recorder.last.mean)):
            return reason
        self._refuse_short_period()
        seconds = (self.settings.steps - self.step) * (self.settings.control_period or 0.0)
        self.progress.planned(f"{plan([self.settings])}, at least {in_time(seconds)}")
        self.progress.notify(
            "a run in real time depends on its timing, so it is not bit-identical when it is repeated; its log allows "
            "the learning to be repeated (docs/robots.md)."
        )
        try:
            with _undisturbed(), self._learning(), preferred(ACTOR_PRIORITY) as is_preferred:
                if not is_preferred:
                    self.progress.notify(NOT_PREFERRED)
                return self._drive()
        except EnvironmentFault as fault:
            if self.signals.is_noted():
                return self.signals.name
            raise SmrlError(f"at step {self.step + 1:,}: {fault}; {self._save_after_failure()}.") from fault

    def _refuse_short_period(self) -> None:
        """Compile everything that acts, and refuse a period in which this machine cannot choose an action."""
        self.agent.compile()
        policy = ActingPolicy(len(self.log.rows), self.agent.copy_policy())
        self.hand_over = HandOver(policy)
        obs, seconds = self.env.spec.obs.zeros(1), list[float]()
        for step in range(TRIALS):
            begun = time.perf_counter()
            self.agent.explore(obs, step, policy.params)
            self.agent.exploit(obs, policy.params)
            seconds.append((time.perf_counter() - begun) / 2)
        period, action = self.timing.period, statistics.median(seconds)
        require(
            action <= period,
            f"choosing an action takes {1e3 * action:.2g} ms on this machine, longer than the control period of "
            f"{1e3 * period:g} ms; give a longer --control-period, an --action-repeat or smaller networks.",
        )

    @contextlib.contextmanager
    def _learning(self) -> Iterator[None]:
        """Run the learner thread; it has stored all steps when the context ends."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop_learner()
        if self._failure is not None:
            raise self._failure

    def _stop_learner(self) -> None:
        self.hand_over.send(None)
        self._thread.join()

    def _save_after_failure(self) -> str:
        self._stop_learner()  # only one thread at a time may save
        return super()._save_after_failure()

    def _drive(self) -> str | None:
        episodes = self.collector.episodes
        number = episodes[0].number + 1 if episodes else 0
        while True:
            if reason := self._wait_for_learner():
                return reason
            if self.acted >= self.settings.steps:
                return None
            if reason := self._play(number):
                return reason
            number += 1

    def _wait_for_learner(self) -> str | None:
        """Wait until all learning steps that are due are done; return why the run should stop, if it should."""
        while self.learned_to < self.acted and self._failure is None:
            if reason := self._stop_request():
                if self.acted >= self.settings.steps:
                    self.progress.notify(f"{self.acted - self.learned_to:,} steps at the end were not learned from.")
                return reason
            time.sleep(POLL_SECONDS)
        while self._unheard:
            self._heard_step, values = self._unheard.popleft()
            if self._callback_stops(self.callbacks.on_evaluation, values):
                return "on_evaluation returned True"
            if reason := self._reached(values["mean"]):
                return reason
        return self._stop_request() or self._learner_stopped()

    def _play(self, number: int) -> str | None:
        """Play one episode; return why the run should stop, if it should. Nothing in it waits for the learner."""
        settings, hand_over = self.settings, self.hand_over
        seed = environment_seed(settings.seed, Purpose.EPISODE, number)
        policy = hand_over.policy
        cycle = settings.greedy_cycle
        is_greedy = policy.version > 0 and number % cycle >= cycle - settings.eval_episodes
        obs, called = self.env.reset(seed), np.nan
        total, length = 0.0, 0
        returned = time.perf_counter()
        while True:
            policy = policy if is_greedy else hand_over.policy  # an evaluation is that of one policy
            action = self._choose(obs, policy, is_greedy)
            before, called = called, time.perf_counter()
            latency = called - returned
            next_obs, reward, terminated, truncated = self.env.step(action)
            returned = time.perf_counter()
            late = max(0.0, called - before - self.timing.period)  # NaN stays NaN
            over, total, length = self.env.over, total + reward, length + 1
            success = success_of(self.env.info) if over else None
            ends, timing = (terminated, truncated, over), (late, latency, returned - called)
            done = (obs, action, reward, next_obs, *ends, policy, is_greedy, success, *timing)
            hand_over.send(ActedStep(number, seed, *done))
            obs = next_obs
            self.acted += self.clock.stride
            if over and not is_greedy:
                self._last_ended = EndedEpisode(total, length, self.env.info)
            self._has_ended = over and not is_greedy
            if self._callback_stops(self.callbacks.on_step):
                return "on_step returned True"
            if over or self.acted >= settings.steps:
                return None
            if reason := self._stop_request() or self._learner_stopped():
                return reason

    def _status(self, evaluation: Mapping[str, float]) -> Status:
        last, step = self._last_ended, self._heard_step if evaluation else self.acted
        loaded = LoadedPolicy(self.agent.functions, self.hand_over.policy.params)
        return Status(
            run=self.run,
            step=step,
            evaluation=evaluation,
            ended=(last,) if last and self._has_ended else (),
            last_episode=last,
            infos=(self.env.info,),
            losses=self.losses,
            copy_policy=lambda: Policy(self.env.spec, loaded, step),
            write=self.recorder.log,
        )

    def _choose(self, obs: np.ndarray, policy: ActingPolicy, is_greedy: bool) -> np.ndarray:
        settings, spec = self.settings, self.env.spec
        if is_greedy:
            actions = self.agent.exploit(obs[None], policy.params)
        elif self.acted < settings.warmup and settings.warmup_actions == "uniform":
            actions = spec.action.random(self._warm_up.at(self.acted), 1)
        else:
            actions = self.agent.explore(obs[None], self.acted, policy.params)
        require_finite(actions, self.acted)
        return actions[0]

    def _learner_stopped(self) -> str | None:
        return None if self._failure is None else "the learner has failed"

    # The learner thread: replay memory, agent, tables and checkpoints

    def _run_learner(self) -> None:
        with preferred(LEARNER_PRIORITY):  # the actor waits while this thread holds the interpreter's lock
            self._learn_until_over()

    def _learn_until_over(self) -> None:
        try:
            is_over = False
            while not is_over:
                is_behind = self.learned_to < self.step
                for step in self.hand_over.receive(0.0 if is_behind else 0.1):
                    if step is None:
                        is_over = True
                    else:
                        self._store(step)
                if is_over:
                    break
                if self.learned_to < self.step:
                    self._learn()
                is_complete = self.step < self.settings.steps or self.learned_to >= self.step
                is_old = time.monotonic() - self.saved_at > self.options.checkpoint_seconds
                if is_old and is_complete and not self.writer.is_busy():
                    self.writer.begin(self._state(), before=self.recorder.evaluations.sync)
                    self.saved_at = time.monotonic()
        except BaseException as error:  # the main thread raises it
            self._failure = error

    def _store(self, step: ActedStep) -> None:
        """Store a step of the device, and record what is due after it."""
        self.writer.keep(1)
        greedy = self.collector.store(step)
        self.timing.add(step)
        self.step += self.clock.stride
        if greedy is not None and (self.best is None or greedy > self.best.mean):
            self.best = Best(greedy, self.step, self.agent.policy_arrays(step.policy.params))
        self.recorder.advance(self.step)
        if self.clock.is_due(self.step, self.settings.eval_every):
            returns = self.collector.take_greedy()
            if returns.size:
                self._unheard.append((self.step, self.recorder.evaluation(self.step, returns, {})))
            self.acting_version = step.policy.version
            self._read_losses()
            if self.unrecorded:  # not during the warm-up
                self._record_learning()
        elif self.settings.eval_episodes and self.recorder.is_row_due(
            self.step, time.monotonic(), self.options.log_seconds, self._seconds()
        ):
            # Without evaluations, the rows at equal steps are the learning curve.
            self.acting_version = step.policy.version
            self._read_losses()
            self._record_learning()
        if self._backlog() > FAR_BEHIND:
            self._warn(
                "behind",
                f"learning is {FAR_BEHIND:,} steps behind and catches up only between episodes: give "
                "--max-episode-steps, a lower --reuse, or --reuse realtime.",
            )
        if "late" not in self._has_warned and (message := self.timing.warning()):
            self._warn("late", message)

    def _learn(self) -> None:
        """Do what is due at the first environment step that was not learned from, and publish the policy."""
        step = self.learned_to
        is_reset = self.clock.is_due(step, self.settings.reset_every)
        if is_reset:
            self.agent.reset(step)
        moments = list(self.clock.learning_steps(step))
        for moment in moments:
            begun = time.perf_counter()
            if self.settings.reuse == FittedReuse.NAME:
                self.agent.set_reuse(fitting_reuse(self.timing.period * self.clock.learn_every, self._use_seconds))
            times = learn_once(self.agent, self.memory, moment)
            self.log.rows.append(self.replay.added)
            self.log.reuse.append(times)
            self.hand_over.publish(ActingPolicy(moment.step, self.agent.copy_policy()))
            self._use_seconds.append((time.perf_counter() - begun) / times)
        if is_reset and not moments:
            self.hand_over.publish(ActingPolicy(len(self.log.rows), self.agent.copy_policy()))
        self.learned_to = step + self.clock.stride  # last, because the actor waits for it

    def _backlog(self) -> int:
        """Return how many learning steps are due and not done."""
        return len(self.clock.learned_at(self.step)) - len(self.log.rows)

    def _learning_values(self) -> dict[str, float]:
        reuse, self._reported = statistics.fmean(self.log.reuse[self._reported :]), len(self.log.reuse)
        timing = self.timing.take()
        return {**timing, "backlog": self._backlog(), "acting_version": self.acting_version, "reuse": reuse}

    def _warn(self, about: str, message: str) -> None:
        if about not in self._has_warned:
            self._has_warned.add(about)
            self.progress.notify(message)

    def _state(self) -> Saved:
        saved = super()._state()
        own = self.log.arrays() | {LEARNED: np.array(self.learned_to)}
        return saved._replace(arrays=saved.arrays | own)

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        self.log, self.learned_to = LearningLog.of(saved.arrays), _learned_to(saved)


def fitting_reuse(available: float, use_seconds: Collection[float]) -> int:
    """Return the largest M that fits into the seconds between two learning steps, by the seconds of each use so far.

    >>> fitting_reuse(0.02, []), fitting_reuse(0.02, [0.004, 0.003, 0.9]), fitting_reuse(0.02, [0.5])
    (1, 4, 1)
    """
    fitting = int(FILLED * available / statistics.median(use_seconds)) if use_seconds else 1
    return min(max(1, fitting), LARGEST_REUSE)


def learn_once(agent: Agent, replay: Replay | MixedReplay, moment: Moment) -> int:
    """Make one learning step; return its updates per batch."""
    before = agent.counts()[1]
    agent.learn(replay, moment)
    return (agent.counts()[1] - before) // agent.rounds


def repeat_learning(run: Run) -> dict[str, np.ndarray]:
    """Learn again what a real-time run has learned, from its replay memory and its log, without the device.

    Return the arrays of the agent, which equal those of the checkpoint bit for bit on the same kind of processor. This
    needs all steps of the run, so its replay memory must not have been full.
    """
    run = require_run(run)
    settings, spec, directory = run.settings, Spec.from_json(run.config["spec"]), RunDirectory(run.path)
    require(settings.real_time, f"{run.path} is not a real-time run: train it again with the same seed instead.")
    require(
        not settings.normalise_rewards,
        f"{run.path} was trained with --normalise-rewards, whose statistics are those of rewards before they were "
        "rounded for the replay memory, so nothing is repeated.",
    )
    replay = replay_of(settings, spec, run.path, lambda message: None)
    saved = checkpoint.load(directory.checkpoint, lambda message: None, replay)
    if saved is None:
        raise SmrlError(f"{run.path} has no checkpoint yet; train it first.")
    require(replay.oldest == 0, f"the replay memory of {run.path} has dropped its first steps, so nothing is repeated.")
    log, agent = LearningLog.of(saved.arrays), Agent(settings, spec)
    agent.start(None if settings.from_run is None else load_input(directory, run.config, START))
    data = None if settings.data is None else data_memory(settings, spec, load_input(directory, run.config, DATA))
    statistics, seen = agent.statistics, 0  # of the first rows

    def observe(rows: int) -> None:
        nonlocal seen
        if statistics:
            for obs in replay.rows(seen, rows)["obs"]:
                statistics.update(obs[None], np.zeros(1), np.zeros(1, np.bool_))
            seen = rows

    clock = Clock(settings.envs, settings.action_repeat, settings.warmup, agent.algorithm.learn_every)
    for step in range(0, _learned_to(saved), clock.stride):
        if clock.is_due(step, settings.reset_every):
            agent.reset(step)
        for moment in clock.learning_steps(step):
            rows, times = (values[moment.step - 1] for values in (log.rows, log.reuse))
            observe(rows)
            if settings.reuse == FittedReuse.NAME:
                agent.set_reuse(times)
            own = replay.until(rows)
            learn_once(agent, own if data is None else MixedReplay(own, data, settings.data_share), moment)
    observe(replay.added)
    return {name: np.array(values) for name, values in agent.arrays().items()}


def _learned_to(saved: Saved) -> int:
    found = saved.arrays.get(LEARNED)
    if found is None or found.shape != () or found.dtype != np.int64 or not 0 <= int(found) <= saved.step:
        raise SmrlError("the checkpoint does not say what was learned; restore its files from a copy.")
    return int(found)


@contextlib.contextmanager
def preferred(priority: int) -> Iterator[bool]:
    """Let this thread run before all ordinary programs; yield whether the system permits it.

    The threads and processes that it starts are ordinary ones, and so are JAX's, which compute the updates.
    """
    if sys.platform != "linux":
        yield False
        return
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK in (os.SCHED_FIFO, os.SCHED_RR):  # the user has chosen
        yield True
        return
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:  # without the right to do so, the flag cannot be cleared
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let threads give way sooner, and keep objects that last out of garbage collections, which stop all threads."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)
