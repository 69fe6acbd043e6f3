"""Training: act, remember, learn, evaluate, save.

env ──transition──▶ replay ──rounds × batch──▶ reuse(update, M) ──state──▶ policy ──action──▶ env
"""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

from smrl import algorithms, checkpoint, envs, runtime
from smrl.acting import Reader
from smrl.bias import Bias
from smrl.checkpoint import Saved
from smrl.envs.environment import Environment, EnvironmentFault
from smrl.errors import SmrlError
from smrl.evaluate import Evaluator
from smrl.experiment import Experiment, design
from smrl.interruption import Interrupted, Interruption
from smrl.logs import CsvLog, Curves
from smrl.progress import REFRESH_SECONDS, Board, Meter
from smrl.randomness import Purpose, at, environment_seed, generator, key
from smrl.replay import Replay
from smrl.reuse import learner
from smrl.run import Run
from smrl.rundir import RunDirectory
from smrl.session import Session

METRICS_EVERY = 10  # learning steps: reading the losses back every time would cost more than it tells


@dataclass
class Episode:
    """The episode that is being played, with what it takes to play it again."""

    number: int
    seed: int
    obs: np.ndarray
    actions: list[np.ndarray]
    total: float = 0.0
    over: bool = False


def train(
    algorithm: str, env: str | Callable[[], gymnasium.Env[Any, Any]], *, preset: str = "paper", **settings: Any
) -> Run:
    """Train, or continue where an earlier call was interrupted; a finished run is left alone.

    >>> run = train("sac", "Hopper-v4", reuse=10, steps=300_000, seed=0)          # doctest: +SKIP
    >>> run.policy(obs)                                                           # doctest: +SKIP
    """
    outer = {name: settings.pop(name) for name in Session.__dataclass_fields__ if name in settings}
    session = Session(**outer | {"runs": Path(outer.get("runs", "runs"))})
    name = env if isinstance(env, str) else getattr(env, "__qualname__", type(env).__name__)
    experiment = design(algorithm, name, preset, **settings)
    with Board(session.quiet) as board:
        meter = board.meter(experiment.title, experiment.steps)
        make_env = partial(envs.make, env, action_repeat=experiment.action_repeat)
        return carry_out(experiment, session, make_env, meter)


def carry_out(experiment: Experiment[Any], session: Session, make_env: Callable[[], Environment], meter: Meter) -> Run:
    """Train an experiment in its run directory."""
    directory = RunDirectory.of(experiment, session.runs)
    env = make_env()
    with directory.locked(), Interruption() as interruption:
        directory.refuse_another(experiment)
        before = checkpoint.load(directory.checkpoint, lambda sentence: None)
        if before and before.step >= experiment.steps:
            meter.advance(before.step)
            meter.say(f"finished already, {before.step:,} steps; see {directory.path}")
            return Run(directory.path)
        for change in directory.version_changes():
            meter.say(f"{change}, so the last bits may differ from a run that was never interrupted.")
        _settle_threads(session.threads, directory)
        directory.write_config(experiment, env, runtime.threads())
        training_envs = [env, *(make_env() for _ in range(experiment.envs - 1))]
        trainer = Trainer(experiment, session, directory, training_envs, make_env, meter)
        trainer.begin()
        try:
            while trainer.step < experiment.steps and interruption.signal is None:
                trainer.advance()
            trainer.save()
        finally:
            trainer.close()
        if interruption.signal is not None:
            raise Interrupted(
                interruption.signal,
                f"stopped by {signal.Signals(interruption.signal).name} at step {trainer.step:,} and saved; "
                "the same command continues it.",
            )
    return Run(directory.path)


def _settle_threads(asked: int | None, directory: RunDirectory) -> None:
    """Compute with the threads that the run began with, for its last bits depend on them."""
    recorded = directory.read_config()["threads"] if directory.config.exists() else None
    if recorded and asked not in (None, recorded):
        raise SmrlError(f"{directory.path} was begun with {recorded} thread(s); leave --threads out to continue it.")
    runtime.start(recorded or asked)


class Trainer:
    """One run in flight."""

    def __init__(
        self,
        experiment: Experiment[Any],
        session: Session,
        directory: RunDirectory,
        training_envs: Sequence[Environment],
        make_env: Callable[[], Environment],
        meter: Meter,
    ) -> None:
        self.experiment, self.session, self.directory = experiment, session, directory
        self.envs, self.make_env, self.meter = training_envs, make_env, meter
        self.spec = training_envs[0].spec
        self.algorithm = algorithms.find(experiment.algorithm).make(experiment.hyper, self.spec)
        self.rounds = self.algorithm.rounds * experiment.fresh_batches
        steps_per_learning = self.algorithm.learn_every * experiment.action_repeat
        self.reuse = experiment.reuse.in_learning_steps(experiment.warmup, steps_per_learning)
        self.replay = Replay(experiment.capacity, self.spec, experiment.gamma, experiment.n_step, experiment.envs)
        self.evaluator: Evaluator | None = None
        self.bias: Bias | None = None
        self.training: CsvLog | None = None
        self.metrics: list[dict[str, jax.Array]] = []
        self.training_returns: list[float] = []

        seed = experiment.seed
        explore_key, learn_key = key(seed, Purpose.EXPLORE), key(seed, Purpose.LEARN)
        explore, learn = self.algorithm.explore, learner(self.algorithm, self.reuse, experiment.fresh_batches)
        self._init = jax.jit(self.algorithm.init)
        self.template = jax.eval_shape(self.algorithm.init, learn_key)
        obs = np.zeros((1, self.spec.obs_size), np.float32)
        self._exploit = Reader(self.algorithm.exploit, self.template, obs)
        self._explore = Reader(
            lambda state, obs, step: explore(state, obs, step, at(explore_key, step)), self.template, obs, 0
        )
        self._learn = jax.jit(
            lambda state, batches, step: learn(state, batches, step, at(learn_key, step)), donate_argnums=0
        )

    def begin(self) -> None:
        """Start anew or continue from the newest checkpoint."""
        saved = checkpoint.load(self.directory.checkpoint, self.meter.say, self.replay)
        self.step = self.first_step = saved.step if saved else 0
        columns: tuple[str, ...] = ("step", "episodes", "mean", "sd", "min", "max")
        columns += ("agent_steps",) if self.experiment.action_repeat > 1 else ()
        columns += ("bias", "bias_sd") if self.experiment.bias_every else ()
        self.evaluations = CsvLog(self.directory.evaluations, columns, continue_at=self.step)
        config = self.directory.read_config()
        self.curves = Curves(self.directory.path, config, self.step, self.session.wandb)
        if saved:
            self.state = checkpoint.from_arrays({"state": self.template}, saved.arrays)["state"]
            self.meter.say(f"continuing at step {self.step:,}")
            self._continue_episodes(saved)
        else:
            self.state = self._init(key(self.experiment.seed, Purpose.INITIALISE))
            self.episodes = [self._new_episode(env, number) for number, env in enumerate(self.envs)]
        self.seconds_before = saved.facts["seconds"] if saved else 0.0
        self.started = self.saved_at = self.shown_at = time.monotonic()
        self.logged = (self.step, self.started)
        self.meter.begin(self.step)

    def advance(self) -> None:
        """One step in every environment and all that is due after it."""
        experiment = self.experiment
        if self.step and self._is_due(experiment.reset_every):
            # A new agent, but for its memory; before the step, so that the end of a run is never a new agent.
            self.state = self._init(at(key(experiment.seed, Purpose.INITIALISE), self.step))
        self._interact()
        for index in range(experiment.envs):
            actions_since = (self.step - experiment.warmup) // experiment.action_repeat + index
            if actions_since >= 0 and actions_since % self.algorithm.learn_every == 0:
                self._learn_from_replay(self.step + index, actions_since // self.algorithm.learn_every + 1)
        self.step += experiment.stride
        if time.monotonic() - self.shown_at > REFRESH_SECONDS:
            self.shown_at = time.monotonic()
            self.meter.advance(self.step)
        if self._is_due(experiment.eval_every):
            self._evaluate()
        if time.monotonic() - self.saved_at > self.session.checkpoint_seconds:
            self.save()

    def _is_due(self, every: int | None) -> bool:
        """Whether the steps just made have reached or passed a multiple of these."""
        return every is not None and self.step // every > (self.step - self.experiment.stride) // every

    def save(self) -> None:
        """Write a checkpoint."""
        arrays = checkpoint.to_arrays({"state": self.state})
        for index, episode in enumerate(self.episodes):
            arrays[f"episode{index}.obs"] = episode.obs
            arrays[f"episode{index}.actions"] = np.array(episode.actions, np.float32)
        names = ("number", "seed", "total", "over")
        episodes = [{name: getattr(episode, name) for name in names} for episode in self.episodes]
        facts = {"episodes": episodes, "seconds": self._seconds()}
        self.evaluations.sync()
        checkpoint.save(self.directory.checkpoint, Saved(self.step, arrays, facts), self.replay)
        self.saved_at = time.monotonic()

    def close(self) -> None:
        """Release what is held."""
        self.curves.close()
        for opened in (*self.envs, self.evaluator, self.bias):
            if opened:
                opened.close()

    def _interact(self) -> None:
        """One step in every environment; where one fails, nothing has changed since the step before."""
        try:
            for index, env in enumerate(self.envs):
                if self.episodes[index].over:
                    following = 1 + max(episode.number for episode in self.episodes)
                    self.episodes[index] = self._new_episode(env, following)
            actions = self._choose_actions(np.stack([episode.obs for episode in self.episodes]))
            results = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        except EnvironmentFault as fault:
            self.save()
            place = self.directory.path
            raise SmrlError(f"at step {self.step + 1:,}: {fault}; all before it is saved in {place}.") from fault
        for episode, action, result in zip(self.episodes, actions, results, strict=True):
            next_obs, reward, terminated, truncated = result
            self.replay.add(episode.obs, action, reward, next_obs, terminated, truncated)
            episode.obs = next_obs
            episode.actions.append(action)
            episode.total += reward
            episode.over = terminated or truncated
            if episode.over:
                self.training_returns.append(episode.total)

    def _choose_actions(self, obs: np.ndarray) -> np.ndarray:
        if self.step < self.experiment.warmup and self.experiment.warmup_actions == "uniform":
            uniform = generator(self.experiment.seed, Purpose.WARM_UP, self.step)
            return uniform.uniform(-1, 1, (len(obs), self.spec.action_size)).astype(np.float32)
        actions = np.asarray(self._explore.bind(self.state)(obs, self.step))
        if not np.isfinite(actions).all():
            raise SmrlError(
                f"the policy's action at step {self.step + 1:,} is not finite: training has diverged; lower the "
                f"learning rates or the reuse, and use another --runs folder than {self.session.runs}."
            )
        return actions

    def _learn_from_replay(self, step: int, learning_step: int) -> None:
        draw = generator(self.experiment.seed, Purpose.REPLAY, step)
        batches = self.replay.sample(draw, self.rounds, self.experiment.batch_size)
        self.state, metrics = self._learn(self.state, batches, learning_step)
        if learning_step % METRICS_EVERY == 0:
            self.metrics.append(metrics)

    def _evaluate(self) -> None:
        if self.evaluator is None:
            self.evaluator = Evaluator(self.make_env, self.experiment.eval_episodes, self.experiment.seed)
        policy = self._exploit.bind(self.state)
        try:
            returns = self.evaluator(lambda obs: np.asarray(policy(obs))).returns
            bias = self._measure_bias() if self._is_due(self.experiment.bias_every) else {}
        except EnvironmentFault as fault:
            raise SmrlError(
                f"in the evaluation at step {self.step:,}: {fault}; the last checkpoint is kept."
            ) from fault
        values = {
            "mean": float(returns.mean()),
            "sd": float(returns.std()),
            "min": float(returns.min()),
            "max": float(returns.max()),
        } | bias
        agent_steps = self.step // self.experiment.action_repeat
        self.evaluations.write({"step": self.step, "agent_steps": agent_steps, "episodes": len(returns), **values})
        self.curves.write("evaluation", self.step, values)
        self.meter.evaluated(self.step, values["mean"])
        self._log_training()

    def _measure_bias(self) -> dict[str, float]:
        if self.bias is None:
            self.bias = Bias(self.experiment, self.algorithm.appraise, self.template, self.make_env)
        return self.bias(self.state, self.step)

    def _updates(self) -> dict[str, float]:
        """Updates of a step on fresh batches and on batches seen before, and uses of a transition so far."""
        experiment = self.experiment
        actions_since = (self.step - experiment.warmup) // experiment.action_repeat
        learning_steps = (actions_since - 1) // self.algorithm.learn_every + 1
        updates = self.rounds * self.reuse.total(learning_steps)
        return {
            "fresh_batch_updates": self.rounds,
            "same_batch_updates": self.rounds * (int(self.reuse.at(learning_steps)) - 1),
            "uses_per_transition": updates * experiment.batch_size / self.replay.added,
        }

    def _log_training(self) -> None:
        if not self.metrics:
            return  # still warming up
        history = jax.device_get(self.metrics)
        values = {name: float(np.mean([row[name] for row in history])) for name in sorted(history[0])} | {
            **self._updates(),
            "seconds": self._seconds(),
            "steps_per_second": (self.step - self.logged[0]) / (time.monotonic() - self.logged[1]),
        }
        self.logged = (self.step, time.monotonic())
        if self.training is None:
            columns = ("step", *values, "episode_return")
            self.training = CsvLog(self.directory.training, columns, continue_at=self.first_step)
        if self.training_returns:
            values["episode_return"] = float(np.mean(self.training_returns))
        self.training.write({"step": self.step, **values})
        self.curves.write("training", self.step, values)
        self.metrics, self.training_returns = [], []

    def _seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.started

    def _new_episode(self, env: Environment, number: int) -> Episode:
        seed = environment_seed(self.experiment.seed, Purpose.EPISODE, number)
        return Episode(number, seed, env.reset(seed), [])

    def _continue_episodes(self, saved: Saved) -> None:
        """Bring the environments to where they were: reset each with its episode's seed and play the actions again."""
        self.episodes = []
        for index, (env, facts) in enumerate(zip(self.envs, saved.facts["episodes"], strict=True)):
            actions = list(saved.arrays[f"episode{index}.actions"])
            obs = env.reset(facts["seed"])
            for action in actions:
                obs = env.step(action)[0]
            if np.array_equal(obs, saved.arrays[f"episode{index}.obs"]):
                self.episodes.append(Episode(obs=obs, actions=actions, **facts))
                continue
            self.meter.say(
                "the environment did not repeat its episode (it is not deterministic); a new episode starts, "
                "and the run will differ from one that was never interrupted."
            )
            self.replay.cut(index)
            following = 1 + max(episode["number"] for episode in saved.facts["episodes"])
            self.episodes.append(self._new_episode(env, following + index))
