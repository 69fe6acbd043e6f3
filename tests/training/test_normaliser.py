"""Normalisation against NumPy over the rows of the replay memory, in training, evaluation, bias and continuation."""

import csv
import dataclasses
from functools import partial
from pathlib import Path
from typing import Any, cast

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from commands import refused_here
from specs import vectors

import smrl
from smrl.envs import make as envs
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.paper import batch_fit
from smrl.randomness import Purpose, Stream
from smrl.runs import checkpoint
from smrl.settings import make_settings
from smrl.training.agent import Agent, load_policy
from smrl.training.bias import BiasEstimator
from smrl.training.clock import Moment
from smrl.training.memory_budget import replay_of
from smrl.training.normaliser import (
    CLIP,
    EPSILON,
    Moments,
    Normaliser,
    Statistics,
    load_normaliser,
    observed,
    statistics_of,
)
from smrl.types import Algorithm, Transition

SHORT: dict[str, Any] = {"steps": 180, "warmup": 60, "eval_every": 60, "eval_episodes": 2, "batch_size": 8, "reuse": 2}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,), "max_episode_steps": 15, "quiet": True}
BOTH: dict[str, Any] = {"normalise_observations": True, "normalise_rewards": True}


def train(runs: Path, **settings: Any) -> smrl.Run:
    return smrl.train("ddpg", "Pendulum-v1", **SHORT | SMALL | BOTH | settings, runs=runs)


def saved_run(run: smrl.Run) -> tuple[dict[str, np.ndarray], Replay]:
    replay = replay_of(run.settings, run.policy.spec, run.path, print)
    saved = checkpoint.load(run.path / "checkpoint", print, replay)
    assert saved is not None
    return saved.arrays, replay


def floats(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def test_moments_are_those_of_numpy() -> None:
    generator = np.random.default_rng(0)
    rounds = [generator.normal(1e6, [1.0, 1e-3], (3, 2)) for _ in range(200)]
    moments = Moments.none((2,))
    for values in rounds:
        moments = moments.merge(values)
    everything = np.concatenate(rounds)
    assert moments.count == 600
    np.testing.assert_allclose(moments.mean, everything.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(moments.variance, everything.var(axis=0), rtol=1e-6)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> smrl.Run:
    """Three environments, repeated actions, zeros that never vary, and rewards of three steps with a factor."""
    changes = {"envs": 3, "pad_observations": 2, "n_step": 3, "reward_scale": 0.5, "action_repeat": 2, "gamma": 0.9}
    return train(tmp_path_factory.mktemp("runs"), **changes)


def test_statistics_are_those_of_the_rows(run: smrl.Run) -> None:
    arrays, replay = saved_run(run)
    rows = replay.rows(0, replay.added)
    assert int(arrays["statistics.observations.count"]) == replay.added == 90, "evaluations do not count"
    np.testing.assert_allclose(arrays["statistics.observations.mean"], rows["obs"].mean(axis=0, dtype=np.float64))
    deviations = rows["obs"] - rows["obs"].mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(arrays["statistics.observations.squares"], (deviations**2).sum(axis=0), rtol=1e-10)
    assert (arrays["statistics.observations.squares"][3:] == 0).all()
    running, returns = np.zeros(3), []
    for row, (reward, last) in enumerate(zip(rows["reward"] / 0.5, rows["last"], strict=True)):
        running[row % 3] = 0.9 * running[row % 3] + reward
        returns.append(running[row % 3])
        running[row % 3] *= not last
    assert rows["last"].sum() > 3
    assert int(arrays["statistics.returns.count"]) == 90
    np.testing.assert_allclose(arrays["statistics.returns.squares"] / 90, np.var(returns), rtol=1e-5)
    np.testing.assert_allclose(arrays["statistics.running"], running, rtol=1e-5)


def test_batches_are_normalised_when_they_are_drawn(run: smrl.Run) -> None:
    arrays, replay = saved_run(run)
    statistics = statistics_of(run.settings, run.policy.spec)
    assert statistics is not None
    statistics.restore(arrays)
    raw = replay.sample(np.random.default_rng(0), 2, 50)
    batch = statistics.normalise(raw)
    rows = replay.rows(0, replay.added)
    mean, variance = rows["obs"].mean(axis=0, dtype=np.float64), rows["obs"].var(axis=0, dtype=np.float64)
    scale = np.where(variance > 0, 1 / np.sqrt(variance + EPSILON), 1)
    for mine, before in ((batch.obs, raw.obs), (batch.next_obs, raw.next_obs)):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, (before - mean) * scale, atol=1e-5)
        assert (mine[..., 3:] == 0).all()
    factor = 1 / np.sqrt(arrays["statistics.returns.squares"] / 90 + EPSILON)
    np.testing.assert_allclose(batch.reward, factor * raw.reward, rtol=1e-6)
    assert batch.reward.dtype == np.float32
    assert batch.action is raw.action
    assert batch.discount is raw.discount


def test_training_evaluation_and_policies_agree(run: smrl.Run) -> None:
    lines = (run.path / "evaluations.csv").read_text().splitlines()
    means = [float(row["mean"]) for row in csv.DictReader(lines)]
    assert smrl.evaluate(run, 2).returns.mean() == pytest.approx(means[-1], rel=1e-9)
    assert smrl.evaluate(run, 2, best=True).returns.mean() == pytest.approx(max(means), rel=1e-9)
    arrays, replay = saved_run(run)
    spec, rows = run.policy.spec, replay.rows(0, replay.added)
    newest, best = (load_normaliser(run.settings, spec, arrays, best) for best in (False, True))
    assert newest is not None
    assert best is not None
    until = 30 * (1 + means.index(max(means)))  # rows at the best evaluation
    np.testing.assert_allclose(best.mean, rows["obs"][:until].mean(axis=0, dtype=np.float64), rtol=1e-6)
    obs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    padded = np.pad(obs, ((0, 0), (0, 2)))
    plain = dataclasses.replace(run.settings, normalise_observations=False)
    for policy, normaliser, is_best in ((run.policy, newest, False), (run.best_policy, best, True)):
        bare = load_policy(plain, spec, arrays, is_best).act
        np.testing.assert_array_equal(policy(obs), 2 * bare(normaliser(padded)))


def test_the_agent_acts_and_learns_as_one_without_normalisation_that_is_given_normalised_values(run: smrl.Run) -> None:
    arrays, replay = saved_run(run)
    spec = run.policy.spec
    plain = dataclasses.replace(run.settings, normalise_observations=False, normalise_rewards=False)
    mine, other = Agent(run.settings, spec), Agent(plain, spec)
    for agent in (mine, other):
        agent.restore(arrays)
    statistics = mine.statistics
    assert statistics is not None
    assert other.statistics is None
    normalise = statistics.normalise

    class Normalised:
        def sample(self, *args: Any) -> Transition:
            return normalise(replay.sample(*args))

    obs = replay.rows(0, 3)["obs"]
    np.testing.assert_array_equal(mine.explore(obs, 100), other.explore(observed(obs, statistics.normaliser), 100))
    np.testing.assert_array_equal(mine.exploit(obs), other.exploit(observed(obs, statistics.normaliser)))
    moment = Moment(step=100, env_step=181, draw=180)
    mine.learn(replay, moment)
    other.learn(cast("Replay", Normalised()), moment)
    learned = other.arrays()
    assert all(np.array_equal(array, learned[name]) for name, array in mine.arrays().items() if name in learned)
    assert not np.array_equal(mine.arrays()["['updates']"], arrays["['updates']"])


def test_the_batch_fit_is_measured_on_normalised_batches(run: smrl.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Transition] = []

    def measure(state: Any, batch: Transition, held_out: Transition, *_: Any) -> np.ndarray:
        seen.extend((batch, held_out))
        return np.ones((2, 4))

    monkeypatch.setattr(batch_fit, "measure_of", lambda algorithm, name: measure)
    batch_fit.measure_run(run, (1,), 1, print)
    arrays, replay = saved_run(run)
    drawn = batch_fit.draw(replay, Stream(0, Purpose.REPLAY).at(180), 8)
    statistics = statistics_of(run.settings, run.policy.spec)
    assert statistics is not None
    statistics.restore(arrays)
    for mine, raw in zip(seen, drawn, strict=True):
        for field, expected in zip(mine, statistics.normalise(raw), strict=True):
            np.testing.assert_array_equal(field, expected)


@pytest.mark.slow  # test_continue.py kills such a run
def test_a_run_continues_bit_for_bit(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", envs=2)
    train(tmp_path / "parts", envs=2, on_step=lambda status: status.step == 100)
    parts = train(tmp_path / "parts", envs=2)
    first, second = (saved_run(each)[0] for each in (whole, parts))
    assert {name: array.tobytes() for name, array in first.items()} == {
        name: array.tobytes() for name, array in second.items()
    }
    assert (whole.path / "evaluations.csv").read_bytes() == (parts.path / "evaluations.csv").read_bytes()


def test_only_what_is_asked_for_is_normalised(tmp_path: Path) -> None:
    plain = train(tmp_path, normalise_observations=False, normalise_rewards=False)
    rewards = train(tmp_path, normalise_observations=False)
    assert plain.path.parent.name != rewards.path.parent.name
    assert "normalisedrewards" in rewards.path.parent.name
    names = {name for name in saved_run(rewards)[0] if name.startswith(("statistics", "best."))}
    assert names == {"statistics.running", *(f"statistics.returns.{part}" for part in ("count", "mean", "squares"))}
    assert not [name for name in saved_run(plain)[0] if name.startswith(("statistics", "best."))]
    assert statistics_of(plain.settings, plain.policy.spec) is None
    assert load_normaliser(rewards.settings, rewards.policy.spec, {}) is None


def statistics(spec_size: int = 2, **changes: Any) -> Statistics:
    found = statistics_of(make_settings("sac", "Pendulum-v1", **BOTH | changes), vectors(spec_size, 1))
    assert found is not None
    return found


def test_nothing_changes_before_the_first_statistic() -> None:
    empty, obs = statistics(), floats([[50, -3]])
    assert observed(obs, empty.normaliser) is obs
    batch = Transition(obs, obs, floats([7]), floats([0.9]), obs)
    np.testing.assert_array_equal(empty.normalise(batch).reward, [7])
    restored = statistics()
    restored.restore(empty.arrays())
    assert restored.normaliser is None


def test_what_has_not_varied_is_not_blown_up() -> None:
    once = statistics()
    once.update(floats([[5, 1e6]]), np.array([0.0]), np.array([False]))
    np.testing.assert_array_equal(observed(floats([5.5, 1e6 + 1]), once.normaliser), [0.5, 1])
    assert once.reward_factor == 1
    for value in (4, 6):
        once.update(floats([[value, 1e6]]), np.array([1.0]), np.array([True]))
    np.testing.assert_allclose(observed(floats([6, 1e6]), once.normaliser), [np.sqrt(1.5), 0], rtol=1e-6)
    assert once.reward_factor == pytest.approx(1 / np.sqrt(2 / 9), rel=1e-6)


def test_observations_are_clipped_even_if_they_overflow() -> None:
    largest = np.finfo(np.float32).max
    normaliser = Normaliser(floats([0, -largest]), floats([100, 1]))
    np.testing.assert_array_equal(normaliser(floats([[1, largest], [-1, -largest]])), [[CLIP, CLIP], [-CLIP, 0]])


def test_a_cut_episode_begins_its_return_again() -> None:
    both = statistics(envs=2)
    both.update(np.zeros((2, 2)), np.array([1.0, 2.0]), np.array([False, False]))
    both.cut(1)
    np.testing.assert_array_equal(both.arrays()["statistics.running"], [1, 0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("statistics.observations.mean", None),
        ("statistics.observations.mean", np.zeros(3)),
        ("statistics.observations.squares", np.zeros(2, np.float32)),
        ("statistics.running", np.zeros(9)),
    ],
)
def test_statistics_of_another_shape_are_refused(name: str, value: np.ndarray | None) -> None:
    arrays = statistics().arrays()
    changed = {each: array for each, array in arrays.items() if each != name} | ({} if value is None else {name: value})
    with pytest.raises(SmrlError, match=f"does not hold the statistic {name}"):
        statistics().restore(changed)


def test_images_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("train", "sac_pixels", "smrl/CatchContinuous-v0", "--normalise-observations", "--runs", tmp_path)
    message = refused_here(capsys, *words)
    assert "observes images, which the networks scale by 255 already: leave --normalise-observations out" in message
    assert not list(tmp_path.iterdir())


class Counter(gymnasium.Env[Any, Any]):
    """Observes the steps that are left, of 10, and pays 3 for each."""

    observation_space = gymnasium.spaces.Box(0, 10, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = 10
        return floats([10]), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return floats([self.left]), 3.0, self.left == 0, False, {}


def test_bias_is_measured_in_the_units_of_the_agent() -> None:
    """The critics know Q of the normalised reward, from the normalised observation: there is no bias."""
    settings = make_settings("sac", "Counter", gamma=0.9, **BOTH)
    found = statistics(1, gamma=0.9)
    for left in (10, 5, 1, 8):
        found.update(floats([[left]]), np.array([3.0]), np.array([False]))
    assert found.normaliser is not None
    mean, scale, reward = float(found.normaliser.mean[0]), float(found.normaliser.scale[0]), 3 * found.reward_factor
    assert abs(reward - 3) > 0.5

    def q_values(state: Any, obs: Any, action: Any) -> Any:
        left = obs[:, 0] / scale + mean
        return reward * (1 - 0.9**left)[None] / (1 - 0.9)

    algorithm: Algorithm[Any] = Algorithm(
        init=lambda key: (),
        update=lambda state, batch, context, key: (state, {}),
        explore=lambda policy, obs, step, key: obs[:, :1] * 0,
        exploit=lambda policy, obs: obs[:, :1] * 0,
        q_values=q_values,
        policy_sample=lambda state, obs, key: (obs[:, :1] * 0, jnp.zeros(len(obs))),
    )
    bias = BiasEstimator(settings, algorithm, partial(envs.make, Counter))
    measured = bias((), 1000, found)
    assert measured is not None
    assert measured["bias"] == pytest.approx(0, abs=1e-5)
    assert measured["bias_sd"] == pytest.approx(0, abs=1e-5)
    bias.close()
